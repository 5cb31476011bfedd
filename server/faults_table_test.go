package server_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run/runtest"
)

// fault is one fault of the connections or the clock of a server, and the notice that its viewers must get.
type fault struct {
	name   string
	sync   string // of the notice; "" means no notice
	reason string
	within time.Duration
	// fault of one run: the fate of its messages while the test commits seqs 11 and 12, or 11 alone
	messages func(live.Message) testserver.Fate
	alone    bool
	// fault of one server
	begin, repair func(p *pair, n *node)
}

// allFaults returns the faults of the table with the times of the contract (contract T226).
func allFaults() []fault {
	at11 := func(f testserver.Fate) func(live.Message) testserver.Fate {
		return func(m live.Message) testserver.Fate {
			if m.To == 11 {
				return f
			}
			return testserver.Fate{}
		}
	}
	bus := func(f func(*testserver.BusProxy)) func(*pair, *node) { return func(_ *pair, n *node) { f(n.bus) } }
	db := func(f func(*testserver.PostgresProxy)) func(*pair, *node) { return func(_ *pair, n *node) { f(n.db) } }
	passAll := func(_ *pair, n *node) { n.bus.Pass(); n.db.Pass() }
	return []fault{
		{name: "message lost in the middle", sync: "STALE", reason: "GAP", within: causeWithin,
			messages: at11(testserver.Fate{Drop: true})},
		{name: "last message lost", sync: "STALE", reason: "TAIL_LOSS", within: tailLossWithin,
			messages: at11(testserver.Fate{Drop: true}), alone: true},
		{name: "last message late by 4 s", sync: "STALE", reason: "TAIL_LOSS", within: tailLossWithin,
			messages: at11(testserver.Fate{Delay: 4 * time.Second}), alone: true},
		{name: "message duplicated", messages: at11(testserver.Fate{Copies: 2})},
		{name: "messages reordered", sync: "STALE", reason: "GAP", within: causeWithin,
			messages: at11(testserver.Fate{Behind: true})},
		{
			name: "subscribing connection cut", sync: "VERIFYING", reason: "RECONNECTED", within: causeWithin,
			begin: bus((*testserver.BusProxy).CutSubscribers), repair: passAll,
		},
		{
			name: "Redis cut off", sync: "LIVE", reason: "BUS_DEGRADED", within: causeWithin,
			begin: bus(func(b *testserver.BusProxy) { b.Stop() }), repair: passAll,
		},
		{
			name: "Redis black-holed", sync: "LIVE", reason: "BUS_DEGRADED", within: causeWithin,
			begin: bus(func(b *testserver.BusProxy) { b.Hold() }), repair: passAll,
		},
		{
			name: "store cut off", sync: "STALE", reason: "STORE_DOWN", within: causeWithin,
			begin: db(func(d *testserver.PostgresProxy) { d.Stop() }), repair: passAll,
		},
		{
			name: "store black-holed", sync: "STALE", reason: "STORE_DOWN", within: causeWithin,
			begin: db(func(d *testserver.PostgresProxy) { d.Hold() }), repair: passAll,
		},
		{
			name: "Redis and store cut off", sync: "STALE", reason: "STORE_DOWN", within: causeWithin,
			begin: func(_ *pair, n *node) { n.bus.Stop(); n.db.Stop() }, repair: passAll,
		},
		{
			name: "Redis and store black-holed", sync: "STALE", reason: "STORE_DOWN", within: causeWithin,
			begin: func(_ *pair, n *node) { n.bus.Hold(); n.db.Hold() }, repair: passAll,
		},
		{
			name:   "clock jumps from a minute ahead to a minute behind (B alone)",
			begin:  func(p *pair, n *node) { p.setClock(n, -time.Minute) },
			repair: func(p *pair, n *node) { p.setClock(n, time.Minute) },
		},
	}
}

// setClock sets how far the clock of B is ahead. It has no effect on A, which uses the clock of the machine.
func (p *pair) setClock(n *node, ahead time.Duration) {
	if n == p.b {
		p.skew.Store(int64(ahead))
	}
}

// measurement is one row of the table.
type measurement struct {
	fault, server string
	notice        string
	after, live   time.Duration
}

func (m measurement) String() string {
	round := func(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
	if m.notice == "" {
		return fmt.Sprintf("| %s | %s | never | - | %s |", m.fault, m.server, round(m.live))
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |", m.fault, m.server, round(m.after), m.notice, round(m.live))
}

// The test measures for each fault the time until viewers get a notice, and the time until they are LIVE again.
// contract: T226
func TestTwoServers_ViewersAreToldOfEachFaultInTime(t *testing.T) {
	p := startPair(t)
	var mu sync.Mutex
	var rows []measurement
	keep := func(m ...measurement) {
		mu.Lock()
		defer mu.Unlock()
		rows = append(rows, m...)
	}
	var runFaults, serverFaults []fault
	for _, f := range allFaults() {
		if f.messages != nil {
			runFaults = append(runFaults, f)
		} else {
			serverFaults = append(serverFaults, f)
		}
	}
	var all sync.WaitGroup
	for _, f := range runFaults {
		all.Go(func() { keep(f.injectIntoRun(t, p)...) })
	}
	all.Wait()
	for i, n := range p.nodes() { // in another order, so that the servers have different faults at the same time
		list := slices.Clone(serverFaults)
		if i == 1 {
			slices.Reverse(list)
		}
		all.Go(func() {
			for _, f := range list {
				keep(f.injectIntoServer(t, p, n))
			}
		})
	}
	all.Wait()
	stopped := fault{
		name: "Redis stopped and started", sync: "LIVE", reason: "BUS_DEGRADED", within: causeWithin,
		begin: func(p *pair, _ *node) { p.redis.Stop() }, repair: func(p *pair, _ *node) { p.redis.Start() },
	}
	keep(stopped.injectIntoServer(t, p, p.a))
	keep(stopped.injectIntoServer(t, p, p.b))

	names := map[string]int{stopped.name: len(allFaults())}
	for i, f := range allFaults() {
		names[f.name] = i
	}
	slices.SortStableFunc(rows, func(a, b measurement) int {
		if a.fault != b.fault {
			return names[a.fault] - names[b.fault]
		}
		return strings.Compare(a.server, b.server)
	})
	table := "\n| fault | server | STALE after | reason | LIVE after the repair |\n|---|---|---|---|---|\n"
	for _, m := range rows {
		table += m.String() + "\n"
	}
	t.Log(table)
}

// injectIntoRun injects the fault into messages of a new run on both servers. The servers repair it themselves.
func (f fault) injectIntoRun(t *testing.T, p *pair) (rows []measurement) {
	h := p.newRun(t, 1)
	h.addNoiseUpTo(10)
	os := p.watchOnBoth(t, h, "DELTA")
	setRuleOnBoth(p, h, f.messages)
	began := time.Now()
	h.addNoise(1)
	if !f.alone {
		h.waitUntilSent(p)
		h.addNoise(1)
	}
	for _, o := range os {
		rows = append(rows, f.measure(t, o, h, began, func() time.Time { return time.Time{} }))
	}
	if f.alone {
		time.Sleep(2 * time.Second) // the late message has arrived
	}
	checkUpdates(t, h, os...)
	return rows
}

// injectIntoServer injects the fault into one server and commits an event before the repair.
func (f fault) injectIntoServer(t *testing.T, p *pair, n *node) measurement {
	h := p.newRun(t, 1)
	h.addNoiseUpTo(5)
	o := startWatcher(t, n, watchOptions{runID: h.id.RunID})
	o.waitForUpdate(0, repairedWithin, "LIVE without a reason", func(u update) bool {
		return isLive(u) && u.Reason == "" &&
			u.RunSeq == h.head()
	})
	began := time.Now()
	f.begin(p, n)
	return f.measure(t, o, h, began, func() time.Time {
		h.add(runtest.Draft("StepStarted", "s0", 1))
		time.Sleep(3*time.Second - time.Since(began))
		f.repair(p, n)
		return time.Now()
	})
}

// measure waits for the notice, calls repair, and waits until the viewer is LIVE at the head. A zero time of repair
// means that the fault ended at the notice.
func (f fault) measure(t *testing.T, o *frameWatcher, h *history, began time.Time,
	repair func() time.Time) measurement {
	m := measurement{fault: f.name, server: o.name}
	noticeIndex := 0
	if f.sync != "" {
		noticeIndex = o.waitForUpdate(0, f.within+repairedWithin, "with a notice of "+f.name, func(u update) bool {
			return u.at.After(began) &&
				u.Reason != ""
		})
		u := o.receivedUpdates()[noticeIndex]
		m.notice, m.after = u.Sync+" "+u.Reason, u.at.Sub(began)
		if want := f.sync + " " + f.reason; m.notice != want || m.after > f.within+machineSlack() {
			t.Errorf("%s on %s: %s after %s, want %s within %s: %s", f.name, o.name, m.notice, m.after, want, f.within,
				summariseUpdates(o.receivedUpdates()))
		}
		began = u.at
	}
	repaired := repair()
	if repaired.IsZero() {
		repaired = began
	}
	i := o.waitForUpdate(noticeIndex, 2*repairedWithin, "LIVE after "+f.name, func(u update) bool {
		return isLive(u) && u.Reason == "" &&
			u.RunSeq == h.head() && !u.at.Before(began)
	})
	if m.live = max(0, o.receivedUpdates()[i].at.Sub(repaired)); m.live > repairedWithin+machineSlack() {
		t.Errorf("%s on %s: LIVE %s after the repair, want 5 s or less: %s", f.name, o.name, m.live,
			summariseUpdates(o.receivedUpdates()))
	}
	if us := o.receivedUpdates(); f.sync == "" && slices.ContainsFunc(us, func(u update) bool {
		return !isLive(u) ||
			u.Reason != ""
	}) {
		t.Errorf("%s on %s: the frames are %s, want only LIVE without a reason", f.name, o.name, summariseUpdates(us))
	}
	return m
}
