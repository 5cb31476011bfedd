package server_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// envNumber returns the number of an environment variable, or otherwise when it is not set.
func envNumber(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

const (
	randomRuns    = 20
	randomViewers = 200
)

// The test injects random faults while 200 viewers watch 20 active runs. It judges each frame by the log alone.
// DVT_FAULT_SECONDS sets the duration. DVT_FAULT_SEED repeats the faults of an earlier run.
// contract: O9, T22, T187, T226
func TestTwoServers_RandomFaultsMisleadNoViewer(t *testing.T) {
	seed := envNumber(t, "DVT_FAULT_SEED", uint64(time.Now().UnixNano()))
	length := time.Duration(envNumber(t, "DVT_FAULT_SECONDS", 15)) * time.Second
	t.Logf("DVT_FAULT_SEED=%d for %s", seed, length)
	p := startPair(t)
	var runs []*history
	for i := range randomRuns {
		steps := 8
		if i == 0 {
			steps = 300 // a change of all its steps is too large for a message
		}
		runs = append(runs, p.newRun(t, steps))
	}
	over, stop := context.WithCancel(t.Context())
	defer stop()
	viewers := p.startViewers(t, over, seed, runs)

	var busy sync.WaitGroup
	for i, h := range runs {
		busy.Go(func() { appendAtRandom(over, h, rand.New(rand.NewPCG(seed, 100+uint64(i))), i == 0, i%4 == 3) })
	}
	for i, n := range p.nodes() {
		busy.Go(func() { p.injectFaults(over, n, rand.New(rand.NewPCG(seed, 200+uint64(i)))) })
	}
	r := rand.New(rand.NewPCG(seed, 300))
	for end := time.Now().Add(length); time.Now().Before(end); {
		time.Sleep(min(time.Until(end), randomDuration(r, 4*time.Second, 10*time.Second)))
		p.redis.Stop()
		time.Sleep(randomDuration(r, 300*time.Millisecond, 2*time.Second))
		p.redis.Start()
	}
	stop()
	busy.Wait()
	repaired := time.Now()
	time.Sleep(time.Until(repaired.Add(repairedWithin + machineSlack())))

	v := &verdict{}
	replays := map[*history]*replay{}
	for _, h := range runs {
		replays[h] = &replay{}
	}
	refused := map[string]int{}
	streams, late := 0, time.Duration(0)
	for _, c := range viewers {
		us := c.receivedUpdates()
		v.judge(c.name, us, c.run, replays[c.run], judgeOptions{slack: machineSlack(), until: repaired.Add(repairedWithin),
			slow: c.slow, away: c.timesAway()})
		v.judgeOutageNotices(c, us, p.nodes())
		late = max(late, v.judgeRecovery(c, us, repaired))
		for code, n := range c.refused {
			refused[code] += n
		}
		streams += c.streams
	}
	events := 0
	for _, h := range runs {
		events += int(h.head())
	}
	t.Logf("seed %d: %d frames of %d viewers over %d streams judged, %d LIVE, %d RESYNCING; %d events of %d runs; %s; "+
		"refused while broken: %v; the last viewer was LIVE %s after the last repair",
		seed, v.frames, len(viewers), streams, v.live, v.resync, events, len(runs), p.summariseFaults(), refused,
		late.Round(10*time.Millisecond))
	if len(v.faults) > 0 {
		t.Errorf("seed %d: %v", seed, v)
	}
	if v.frames < 20*len(viewers) || v.resync == 0 {
		t.Errorf("seed %d: only %d frames and %d RESYNCING, so the faults tested nothing", seed, v.frames, v.resync)
	}
}

func randomDuration(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}

// sleepFor sleeps for d or until ctx ends.
func sleepFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// appendAtRandom appends random valid events to a run until ctx ends. A wide run has 300 steps. A calm run has long
// pauses, so that no later message reveals a lost one.
func appendAtRandom(ctx context.Context, h *history, r *rand.Rand, wide, calm bool) {
	total, pause := 8, 500*time.Millisecond
	if calm {
		pause = 8 * time.Second
	}
	if wide {
		total = 300
	}
	type state struct {
		attempt int
		running bool
		done    bool
	}
	steps, epoch, paused := make([]state, total), 0, false
	for ctx.Err() == nil {
		var drafts []run.Draft
		burst := 1
		if r.IntN(8) == 0 {
			burst = 2 + r.IntN(14)
		}
		if wide {
			burst *= 8
		}
		for range burst {
			i := r.IntN(total)
			s := &steps[i]
			switch n := r.IntN(20); {
			case n == 0 && !paused:
				epoch, paused = epoch+1, true
				drafts = append(drafts, runtest.Draft(run.RunPaused, fmt.Sprintf("pause-%d", epoch), epoch))
			case n <= 3 && paused:
				paused = false
				drafts = append(drafts, runtest.Draft(run.RunResumed, fmt.Sprintf("pause-%d", epoch), epoch))
			case s.running:
				s.running, s.done = false, r.IntN(10) == 0
				end := run.StepFailedEvent
				if s.done {
					end = run.StepCompletedEvent
				}
				drafts = append(drafts, step(end, i, s.attempt))
			case !s.done && !paused:
				s.running, s.attempt = true, s.attempt+1
				drafts = append(drafts, step(run.StepStartedEvent, i, s.attempt))
			default:
				drafts = append(drafts, runtest.Draft(run.SignalRejected, fmt.Sprintf("no-%d-%d", h.head(), len(drafts)), 1))
			}
		}
		if r.IntN(2) == 0 { // in one batch, or one by one
			h.add(drafts...)
		} else {
			for _, d := range drafts {
				h.add(d)
			}
		}
		sleepFor(ctx, randomDuration(r, 10*time.Millisecond, pause))
	}
	if r.IntN(2) == 0 {
		h.add(runtest.Draft(run.RunCancelled, "", 1))
	}
}

// outage is a time in which a server did not reach the store or the bus.
type outage struct {
	span
	store, bus bool // the service that did not answer
}

// injectFaults injects one random fault after the other into the connections and the clock of a server, until ctx ends.
func (p *pair) injectFaults(ctx context.Context, n *node, r *rand.Rand) {
	for ctx.Err() == nil {
		o := outage{span: span{from: time.Now()}}
		var name string
		lasts := randomDuration(r, 300*time.Millisecond, 4*time.Second)
		switch r.IntN(12) {
		case 0:
			name = "subscriber cut"
			n.bus.CutSubscribers()
		case 1:
			name, o.bus = "Redis cut off", true
			n.bus.Stop()
		case 2:
			name, o.bus = "Redis black-holed", true
			n.bus.Hold()
		case 3:
			name, o.store = "store cut off", true
			n.db.Stop()
		case 4:
			name, o.store = "store black-holed", true
			n.db.Hold()
		case 5:
			name, o.store, o.bus = "both cut off", true, true
			n.db.Stop()
			n.bus.Stop()
		case 6:
			name, o.store, o.bus = "both black-holed", true, true
			n.db.Hold()
			n.bus.Hold()
		case 7:
			name = "clock"
			p.setClock(n, randomDuration(r, -time.Minute, time.Minute))
		default: // long enough that only a check of the heads can reveal a loss
			name = "messages"
			lasts += 5 * time.Second
		}
		if r.IntN(2) == 0 || name == "messages" {
			n.setOdds(testserver.Odds{Drop: r.Float64(), Duplicate: r.Float64() / 2, Delay: r.Float64() / 2,
				Behind: r.Float64() / 2, MaxDelay: 3 * time.Second}.Fates(r.Uint64()))
			name += " and messages"
		}
		sleepFor(ctx, lasts)
		o.to = time.Now()
		n.setOdds(nil)
		n.bus.Pass()
		n.db.Pass()
		n.mu.Lock()
		n.outages = append(n.outages, o)
		n.faultCounts[name]++
		n.mu.Unlock()
		sleepFor(ctx, randomDuration(r, 100*time.Millisecond, 2*time.Second))
	}
}

// summariseFaults returns the number of injected faults and of their kinds.
func (p *pair) summariseFaults() string {
	total, kinds := 0, map[string]bool{}
	for _, n := range p.nodes() {
		for kind, times := range n.faultCounts {
			kinds[kind] = true
			total += times
		}
	}
	return fmt.Sprintf("%d faults of %d kinds", total, len(slices.Collect(maps.Keys(kinds))))
}

// randomViewer is a viewer of the random test with the history of its streams.
type randomViewer struct {
	*frameWatcher
	run  *history
	slow bool

	streams int
	refused map[string]int
	left    time.Time // end of its last stream
	away    []span
}

// startViewers starts 200 viewers of all kinds and waits until each has a frame of its run. Slow viewers read without
// pauses once over is done.
func (p *pair) startViewers(t *testing.T, over context.Context, seed uint64, runs []*history) []*randomViewer {
	t.Helper()
	var out []*randomViewer
	for i := range randomViewers {
		kind, r := i%10, rand.New(rand.NewPCG(seed, 1000+uint64(i)))
		w := watchOptions{runID: runs[i/10].id.RunID, token: viewerToken(i), events: kind >= 8}
		if kind%2 == 1 {
			w.mode = "DELTA"
		}
		var stay func() time.Duration
		var rest func()
		name := fmt.Sprintf("viewer %d %s", i, w.mode)
		switch kind {
		case 4, 5, 9:
			name += " roaming"
			stay = func() time.Duration { return randomDuration(r, 200*time.Millisecond, 3*time.Second) }
		case 6, 7:
			name += " slow"
			rest = func() { sleepFor(over, randomDuration(r, 0, 400*time.Millisecond)) }
		}
		o, ctx := newFrameWatcher(t, name)
		m := &randomViewer{frameWatcher: o, run: runs[i/10], slow: rest != nil, refused: map[string]int{}}
		out = append(out, m)
		first := p.nodes()[r.IntN(2)]
		go func() {
			defer close(o.over)
			n := first
			for ctx.Err() == nil {
				m.follow(ctx, n, w, stay, rest)
				if stay != nil {
					n = p.nodes()[r.IntN(2)]
				}
			}
		}()
	}
	for _, m := range out {
		m.waitForLive(2, 20*time.Second)
	}
	return out
}

// follow watches one stream of a server, from the last position of the viewer. stay limits its duration, rest pauses
// after each frame; both may be nil.
func (m *randomViewer) follow(ctx context.Context, n *node, w watchOptions, stay func() time.Duration, rest func()) {
	streaming, leave := context.WithCancel(ctx)
	defer leave()
	if stay != nil {
		defer time.AfterFunc(stay(), leave).Stop()
	}
	if us := m.receivedUpdates(); len(us) > 0 {
		last := us[len(us)-1]
		w.after, w.epoch = &last.RunSeq, last.StoreEpoch
	}
	w.url = n.url
	got := 0
	err := w.stream(streaming, func(u update) error {
		u.server, u.joined = n.name, got == 0
		if got++; u.joined {
			m.mu.Lock()
			m.away = append(m.away, span{m.left, u.at})
			m.streams++
			m.mu.Unlock()
		}
		m.addUpdate(u)
		if rest != nil {
			rest()
		}
		return nil
	})
	m.mu.Lock()
	if got > 0 {
		m.left = time.Now()
	}
	m.mu.Unlock()
	if streaming.Err() != nil { // the viewer left
		return
	}
	code := err.Error()
	if named := (*streamError)(nil); errors.As(err, &named) {
		code = named.code
	}
	if got > 0 {
		code = "ended: " + code
	}
	m.mu.Lock()
	m.refused[code]++
	m.mu.Unlock()
	sleepFor(ctx, 200*time.Millisecond+rand.N(600*time.Millisecond))
}

// timesAway returns the times without a stream.
func (m *randomViewer) timesAway() []span {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.away); n > 0 && m.left.After(m.away[n-1].to) {
		return append(m.away[:n:n], span{m.left, time.Now()})
	}
	return m.away
}

// judgeOutageNotices checks that each viewer got a frame with a reason for each longer outage of its server.
func (v *verdict) judgeOutageNotices(m *randomViewer, us []update, nodes []*node) {
	for code, n := range m.refused {
		if code != "STORE_UNAVAILABLE" {
			v.addFault("wrong end of a stream", "%s: %d streams ended with %s", m.name, n, code)
		}
	}
	if m.slow {
		return
	}
	for _, n := range nodes {
		for _, o := range n.outages {
			due := o.from.Add(causeWithin + machineSlack())
			if !o.store && !o.bus || !due.Before(o.to) {
				continue
			}
			last, joined := -1, time.Time{}
			for i := range us {
				if us[i].at.After(due) {
					break
				}
				if last = i; us[i].joined {
					joined = us[i].at
				}
			}
			if last < 0 || us[last].server != n.name || !joined.Before(o.from) || slices.ContainsFunc(m.timesAway(),
				func(s span) bool { return s.contains(due) }) {
				continue
			}
			if u := us[last]; o.store && isLive(u) || u.Reason == "" {
				v.addFault("no notice of an outage",
					"%s: %s after an outage of %s began (store %v, bus %v) the newest frame is %s", m.name,
					due.Sub(o.from), n.name, o.store, o.bus, formatUpdates(us[max(0, last-3):last+1]))
			}
		}
	}
}

// judgeRecovery checks that a viewer was LIVE at the head in time after the last repair, and returns the time that this
// took.
func (v *verdict) judgeRecovery(m *randomViewer, us []update, repaired time.Time) time.Duration {
	for _, u := range us {
		if isLive(u) && (u.Reason == "" || u.Reason == "SLOW_CONSUMER") && u.RunSeq == m.run.head() &&
			u.at.Before(repaired.Add(repairedWithin+machineSlack())) {
			return u.at.Sub(repaired)
		}
	}
	v.addFault("not LIVE after the last repair", "%s of %s at %d: %s", m.name, m.run.id.RunID, m.run.head(),
		formatUpdates(us[max(0, len(us)-5):]))
	return 0
}
