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

// fault is one way to break what lies between a server and the rest.
type fault struct {
	name   string
	sync   string // what its viewers are told, "" for nothing at all
	reason string
	within time.Duration
	// of one run: what becomes of its messages while seqs 11 and 12 are committed, or 11 alone
	messages func(live.Message) testserver.Fate
	alone    bool
	// of one server
	begin, repair func(p *pair, n *node)
}

// faults are all kinds; times are those of T226.
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
			name:  "clock jumps from a minute ahead to a minute behind (B alone)",
			begin: func(p *pair, n *node) { p.setClock(n, -time.Minute) }, repair: func(p *pair, n *node) { p.setClock(n, time.Minute) },
		},
	}
}

// jump sets B's clock; A's is the machine's.
func (p *pair) setClock(n *node, ahead time.Duration) {
	if n == p.b {
		p.skew.Store(int64(ahead))
	}
}

// measured is one row of the table.
type measurement struct {
	fault, server string
	told          string
	after, live   time.Duration
}

func (m measurement) String() string {
	round := func(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
	if m.told == "" {
		return fmt.Sprintf("| %s | %s | never | - | %s |", m.fault, m.server, round(m.live))
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |", m.fault, m.server, round(m.after), m.told, round(m.live))
}

// TestTwoServers_FaultTable measures, for every fault, how soon viewers are told
// and how soon they are up to date again.
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
	var ofRuns, ofServers []fault
	for _, f := range allFaults() {
		if f.messages != nil {
			ofRuns = append(ofRuns, f)
		} else {
			ofServers = append(ofServers, f)
		}
	}
	var all sync.WaitGroup
	for _, f := range ofRuns {
		all.Go(func() { keep(f.injectIntoRun(t, p)...) })
	}
	all.Wait()
	for i, n := range p.nodes() { // different faults at the same time
		list := slices.Clone(ofServers)
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

// onRun breaks messages of a run of its own, on both servers. What repairs it is the server itself.
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
		time.Sleep(2 * time.Second) // what was late has come
	}
	checkUpdates(t, h, os...)
	return rows
}

// onServer breaks one server, and commits in the meantime.
func (f fault) injectIntoServer(t *testing.T, p *pair, n *node) measurement {
	h := p.newRun(t, 1)
	h.addNoiseUpTo(5)
	o := startWatcher(t, n, watchOptions{runID: h.id.RunID})
	o.waitForUpdate(0, repairedWithin, "LIVE for no special cause", func(u update) bool {
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

// measure waits until viewers are told, has it repaired, and waits until they are up to date.
func (f fault) measure(t *testing.T, o *frameWatcher, h *history, began time.Time, repair func() time.Time) measurement {
	m := measurement{fault: f.name, server: o.name}
	told := 0
	if f.sync != "" {
		told = o.waitForUpdate(0, f.within+repairedWithin, "told of "+f.name, func(u update) bool {
			return u.at.After(began) &&
				u.Reason != ""
		})
		u := o.receivedUpdates()[told]
		m.told, m.after = u.Sync+" "+u.Reason, u.at.Sub(began)
		if want := f.sync + " " + f.reason; m.told != want || m.after > f.within+machineSlack() {
			t.Errorf("%s on %s: %s after %s, want %s within %s: %s", f.name, o.name, m.told, m.after, want, f.within,
				summariseUpdates(o.receivedUpdates()))
		}
		began = u.at
	}
	repaired := repair()
	if repaired.IsZero() {
		repaired = began
	}
	i := o.waitForUpdate(told, 2*repairedWithin, "LIVE after "+f.name, func(u update) bool {
		return isLive(u) && u.Reason == "" &&
			u.RunSeq == h.head() && !u.at.Before(began)
	})
	if m.live = max(0, o.receivedUpdates()[i].at.Sub(repaired)); m.live > repairedWithin+machineSlack() {
		t.Errorf("%s on %s: LIVE %s after the repair: %s", f.name, o.name, m.live, summariseUpdates(o.receivedUpdates()))
	}
	if us := o.receivedUpdates(); f.sync == "" && slices.ContainsFunc(us, func(u update) bool {
		return !isLive(u) ||
			u.Reason != ""
	}) {
		t.Errorf("%s on %s: %s", f.name, o.name, summariseUpdates(us))
	}
	return m
}
