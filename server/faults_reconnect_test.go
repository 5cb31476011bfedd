package server_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
)

// TestServer_ReconnectingCostsReadsByRunsNotByViewers cuts all viewers off at once.
// They come back where they were, and the server reads each run, not each viewer.
// contract: O9
func TestServer_ReconnectingCostsReadsByRunsNotByViewers(t *testing.T) {
	p := startPair(t)
	front := testserver.NewProxy(t, strings.TrimPrefix(p.a.url, "http://"))
	entrance := &node{name: "A", url: "http://" + front.Addr}
	table := "\n| viewers | runs | statements of reconnecting | a run | a viewer |\n|---|---|---|---|---|\n"
	reads := map[[2]int]int{}
	for _, size := range [][2]int{{500, 50}, {2000, 50}, {2000, 100}} {
		n := p.reconnect(t, front, entrance, size[0], size[1])
		reads[size] = n
		table += fmt.Sprintf("| %d | %d | %d | %.1f | %.2f |\n", size[0], size[1], n, float64(n)/float64(size[1]),
			float64(n)/float64(size[0]))
	}
	t.Log(table)
	for size, n := range reads { // a busy machine gives up a read or two and repeats it
		if n > 6*size[1] {
			t.Errorf("%d statements for %d viewers of %d runs", n, size[0], size[1])
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
	var crowd []*randomViewer
	for i := range viewers {
		o, ctx := newFrameWatcher(t, fmt.Sprintf("viewer %d", i))
		m := &randomViewer{frameWatcher: o, run: all[i%runs], refused: map[string]int{}}
		crowd = append(crowd, m)
		w := watchOptions{runID: m.run.id.RunID, mode: []string{"SNAPSHOT", "DELTA"}[i/runs%2], token: viewerToken(i)}
		go func() {
			defer close(o.over)
			for ctx.Err() == nil {
				m.follow(ctx, at, w, nil, nil)
			}
		}()
	}
	for _, m := range crowd {
		m.waitForLive(m.run.head(), time.Minute)
	}
	time.Sleep(2 * time.Second)
	p.a.db.Reset()
	time.Sleep(3 * time.Second)
	idle := p.a.db.Statements() // what goes on whoever comes

	front.Stop()
	for _, h := range all {
		h.addNoise(1)
	}
	time.Sleep(time.Second)
	p.a.db.Reset()
	front.Pass()
	began := time.Now()
	for _, m := range crowd {
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
	for _, m := range crowd {
		if m.leave(); len(m.receivedUpdates()) > 0 && m.streams != 2 {
			t.Errorf("%s had %d streams", m.name, m.streams)
		}
		for code, n := range m.refused {
			if !strings.HasPrefix(code, "ended: ") && !strings.Contains(code, "connection reset") {
				refused[code] += n
			}
		}
		us := m.receivedUpdates()
		i := slices.IndexFunc(us[1:], func(u update) bool { return u.joined }) + 1
		if again := us[i]; again.Reset || again.RunSeq < us[i-1].RunSeq {
			t.Errorf("%s came back to %s", m.name, formatUpdates(us))
		}
		v.judge(m.name, us, m.run, &replay{}, judgeOptions{slack: machineSlack(), until: began.Add(took), away: m.timesAway()})
	}
	if len(v.faults) > 0 {
		t.Errorf("%v", v)
	}
	for code := range refused {
		if code != "STORE_UNAVAILABLE" && code != "STORE_OVERLOADED" { // which say when to come back
			t.Errorf("viewers who came were told %v", refused)
		}
	}
	t.Logf("%d viewers of %d runs were back after %s, refused %v", viewers, runs, took.Round(time.Millisecond), refused)
	for _, m := range crowd {
		<-m.over
	}
	return total
}
