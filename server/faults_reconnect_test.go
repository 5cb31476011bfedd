package server_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
)

// The test cuts the connections of all viewers at once. They resume at their positions, and the number of reads of the
// server depends on the number of runs, not of viewers. With TEST_LONG 2,000 viewers watch 50 and 100 runs, without it
// 800 viewers watch 20 and 40 runs.
// contract: O9
func TestServer_ReconnectingCostsReadsByRunsNotByViewers(t *testing.T) {
	p := startPair(t)
	front := testserver.NewProxy(t, strings.TrimPrefix(p.a.url, "http://"))
	entry := &node{name: "A", url: "http://" + front.Addr}
	table := "\n| viewers | runs | statements of the reconnect | per run | per viewer |\n|---|---|---|---|---|\n"
	reads := map[[2]int]int{}
	runs := 20
	if os.Getenv("TEST_LONG") != "" {
		runs = 50
	}
	for _, size := range [][2]int{{10 * runs, runs}, {40 * runs, runs}, {40 * runs, 2 * runs}} {
		n := p.reconnect(t, front, entry, size[0], size[1])
		reads[size] = n
		table += fmt.Sprintf("| %d | %d | %d | %.1f | %.2f |\n", size[0], size[1], n, float64(n)/float64(size[1]),
			float64(n)/float64(size[0]))
	}
	t.Log(table)
	for size, n := range reads { // on a busy machine a read may time out and be repeated
		if n > 6*size[1] {
			t.Errorf("%d statements for %d viewers of %d runs, want at most 6 per run", n, size[0], size[1])
		}
	}
}

func (p *pair) reconnect(t *testing.T, front *testserver.Proxy, at *node, viewers, runs int) int {
	t.Helper()
	var all []*history
	for range runs {
		h := p.newRun(t, 3)
		h.addNoise(3)
		all = append(all, h)
	}
	var watchers []*randomViewer
	for i := range viewers {
		o, ctx := newFrameWatcher(t, fmt.Sprintf("viewer %d", i))
		m := &randomViewer{frameWatcher: o, run: all[i%runs], refused: map[string]int{}}
		watchers = append(watchers, m)
		w := watchOptions{runID: m.run.id.RunID, mode: []string{"SNAPSHOT", "DELTA"}[i/runs%2], token: viewerToken(i)}
		go func() {
			defer close(o.over)
			for ctx.Err() == nil {
				m.follow(ctx, at, w, nil, nil)
			}
		}()
	}
	for _, m := range watchers {
		m.waitForLive(m.run.head(), time.Minute)
	}
	time.Sleep(2 * time.Second)
	p.a.db.Reset()
	time.Sleep(3 * time.Second)
	idle := p.a.db.Statements() // statements that the server runs without new viewers

	front.Stop()
	for _, h := range all {
		h.addNoise(1)
	}
	time.Sleep(time.Second)
	p.a.db.Reset()
	front.Pass()
	began := time.Now()
	for _, m := range watchers {
		m.waitForLive(m.run.head(), time.Minute)
	}
	took := time.Since(began)
	counted, total := p.a.db.Statements(), 0
	for _, sql := range slices.Sorted(maps.Keys(counted)) {
		if idle[sql] == 0 {
			total += counted[sql]
			t.Logf("%d x %s", counted[sql], strings.Join(strings.Fields(sql), " "))
		}
	}
	v, refused := &verdict{}, map[string]int{}
	for _, m := range watchers {
		if m.leave(); len(m.receivedUpdates()) > 0 && m.streams != 2 {
			t.Errorf("%s had %d streams, want 2", m.name, m.streams)
		}
		for code, n := range m.refused {
			if !strings.HasPrefix(code, "ended: ") && !strings.Contains(code, "connection reset") {
				refused[code] += n
			}
		}
		us := m.receivedUpdates()
		i := slices.IndexFunc(us[1:], func(u update) bool { return u.joined }) + 1
		if again := us[i]; again.Reset || again.RunSeq < us[i-1].RunSeq {
			t.Errorf("%s resumed with %s, want no reset and no earlier frame", m.name, formatUpdates(us))
		}
		v.judge(m.name, us, m.run, &replay{}, judgeOptions{slack: machineSlack(), until: began.Add(took),
			away: m.timesAway()})
	}
	if len(v.faults) > 0 {
		t.Errorf("%v", v)
	}
	for code := range refused {
		if code != "STORE_UNAVAILABLE" && code != "STORE_OVERLOADED" { // these tell the viewer when to retry
			t.Errorf("reconnecting viewers were refused with %v, want only codes with a retry", refused)
		}
	}
	t.Logf("%d viewers of %d runs were LIVE again after %s, refused %v", viewers, runs, took.Round(time.Millisecond),
		refused)
	for _, m := range watchers {
		<-m.over
	}
	return total
}
