// Package modelcheck works a store as hard as a bad day does, from two processes
// that are killed and cut off from it, records every call, and lets package
// history judge. A seed fixes what each life of a process asks for; what comes
// of it also hangs on the scheduler, so a seed repeats the operations and not
// the order in which they meet.
//
// Callers behave as dvt does: after an error or a lost answer they append the
// same drafts again (T09).
package modelcheck

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/storetest/history"
)

// Target is a store to check.
type Target struct {
	// Fresh makes an empty database for one round and returns its address.
	Fresh func(t testing.TB) (address string)
	// Open opens it, as a process does.
	Open func(ctx context.Context, address string) (store.Store, error)
	// Via returns the address that leads to the same database over another host and
	// port, and where the address itself leads. nil: there is no connection to lose.
	Via func(address, hostPort string) (via, upstream string)
	// Disturb holds up the writers of a database for a moment; may be nil.
	Disturb func(ctx context.Context, address string) error
	// Idle waits until nothing that a killed process left behind works on the
	// database any more; may be nil.
	Idle func(ctx context.Context, address string) error
	// Writers of each process; 6 when 0.
	Writers int
}

// Bounds of a round: what it records is judged in memory.
const (
	maxRound  = 15 * time.Second
	processes = 2
	// many writes have one of everything among them.
	many = 2000
	// glance is all that -short allows.
	glance = 3 * time.Second
	// patience is how long the processes may take to end when told to.
	patience = time.Minute
)

// Run checks the target for about d in rounds, each on a database of its own, and
// logs at the end what was done; with -short it looks in only. The test binary
// needs a test named Child. A seed of 0 is drawn.
func Run(t *testing.T, target Target, d time.Duration, seed uint64) {
	if testing.Short() {
		d = min(d, glance)
	}
	if deadline, ok := t.Deadline(); ok && time.Until(deadline) < d+2*time.Minute {
		t.Fatalf("%v is more than `go test` allows: add -timeout=0", d)
	}
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	rounds := int((d + maxRound - 1) / maxRound)
	var all totals
	for n := range rounds {
		t.Run(fmt.Sprintf("round-%d", n+1), func(t *testing.T) {
			r := &round{T: t, target: target, seed: seed + uint64(n), time: d / time.Duration(rounds)}
			r.prepare()
			r.storm()
			all.add(r.judge())
		})
		if t.Failed() {
			break
		}
	}
	t.Log(all)
	if missing := all.missing(target); missing != "" && !t.Failed() && all.Writes >= many {
		t.Errorf("the check proves little: there was no %s", missing)
	}
}

// Find works a broken target within this process until the checker says that the
// rule is broken: a second or two on a machine that is not busy. It fails when that
// takes more than patience.
func Find(t *testing.T, target Target, rule history.Rule) {
	t.Helper()
	const patience = time.Minute
	for seed, began := uint64(1), time.Now(); time.Since(began) < patience; seed++ {
		r := &round{T: t, target: target, seed: seed, time: 1200 * time.Millisecond}
		r.prepare()
		r.breeze()
		_, found := r.finish()
		for _, v := range found {
			if v.Rule == rule {
				t.Logf("found: %v", v)
				return
			}
		}
		for _, v := range found {
			t.Logf("another rule: %v", v)
		}
	}
	t.Errorf("a store that breaks the rule %q passed", rule)
}

// round is one database and what is done to it.
type round struct {
	*testing.T
	target  Target
	seed    uint64
	time    time.Duration
	address string
	via     string // where the processes find the database
	dir     string
	path    string // of the journal
	proxy   *proxy
	kills   int

	recorded int64 // size of the journal at the last kill
}

func (r *round) prepare() {
	r.Helper()
	r.address = r.target.Fresh(r)
	r.via, r.dir = r.address, r.TempDir()
	r.path = filepath.Join(r.dir, "journal.jsonl")
}

// storm is two processes that are killed, behind connections that are lost, and a
// watcher that nothing happens to.
func (r *round) storm() {
	if r.target.Via != nil {
		p, err := listen(rand.New(rand.NewPCG(r.seed, 1)))
		if err != nil {
			r.Fatal(err)
		}
		r.via, p.upstream = r.target.Via(r.address, p.hostPort())
		go p.serve()
		defer p.close()
		r.proxy = p
	}
	ctx, stop := context.WithTimeout(r.Context(), r.time)
	defer stop()
	watcher := make(chan error, 1)
	go func() { watcher <- r.life(0, 0).watch(ctx, r.target.Open) }()
	disturbed := make(chan error, 1)
	go func() { disturbed <- r.disturb(ctx) }()
	r.kill(ctx)
	for _, c := range []chan error{watcher, disturbed} {
		if err := <-c; err != nil {
			r.Error(err)
		}
	}
}

// breeze is two lives in this process, without kills.
func (r *round) breeze() {
	ctx, stop := context.WithTimeout(r.Context(), r.time)
	defer stop()
	ends := make(chan error, processes)
	for p := range processes {
		go func() { ends <- r.life(p+1, 1).live(ctx, r.target.Open) }()
	}
	for range processes {
		if err := <-ends; err != nil {
			r.Error(err)
		}
	}
}

func (r *round) disturb(ctx context.Context) error {
	dice := rand.New(rand.NewPCG(r.seed, 2))
	for r.target.Disturb != nil && pause(ctx, time.Duration(dice.IntN(600))*time.Millisecond) {
		if err := r.target.Disturb(ctx, r.address); err != nil && ctx.Err() == nil {
			return fmt.Errorf("disturb: %w", err)
		}
	}
	return nil
}

// life describes one life of a process.
func (r *round) life(process, generation int) life {
	return life{
		Name: fmt.Sprintf("p%d.%d", process, generation), Process: process, Seed: r.seed, Generation: uint64(generation),
		Address: r.via, Dir: r.dir, Journal: r.path, Writers: r.target.Writers,
	}
}

// judge ends the round and fails the test when a rule was broken; the journal is
// kept then.
func (r *round) judge() totals {
	summary, found := r.finish()
	if len(found) > 0 {
		r.Errorf("seed %d breaks %d times a rule; the history is kept as %s", r.seed, len(found), r.keep())
		for _, v := range found {
			r.Error(v)
		}
	}
	all := totals{Summary: summary, kills: r.kills}
	if r.proxy != nil {
		all.before, all.after, all.delays = int(r.proxy.before.Load()), int(r.proxy.after.Load()), int(r.proxy.delays.Load())
	}
	return all
}

// keep leaves the history where TEST_EVIDENCE_DIR says, else under TMPDIR.
func (r *round) keep() string {
	from, err := os.Open(r.path)
	if err != nil {
		return err.Error()
	}
	defer from.Close()
	to, err := os.CreateTemp(os.Getenv("TEST_EVIDENCE_DIR"), "dvt-history-*.jsonl")
	if err != nil {
		return err.Error()
	}
	defer to.Close()
	if _, err := io.Copy(to, from); err != nil {
		return err.Error()
	}
	return to.Name()
}

// finish brings checkpoints and feeds to the end, reads every log and judges.
func (r *round) finish() (history.Summary, []history.Violation) {
	r.Helper()
	ctx, stop := context.WithTimeout(r.Context(), patience)
	defer stop()
	if r.target.Idle != nil {
		if err := r.target.Idle(ctx, r.address); err != nil {
			r.Fatalf("wait for the end of what is under way: %v", err)
		}
	}
	last := r.life(0, 1)
	last.Address = r.address
	if err := last.conclude(ctx, r.target.Open); err != nil {
		r.Fatalf("conclude: %v", err)
	}
	h, err := history.ReadFile(r.path)
	if err != nil {
		r.Fatal(err)
	}
	return h.Summarize(), h.Check()
}

// totals are what all rounds did.
type totals struct {
	history.Summary
	kills, before, after, delays int
}

func (a *totals) add(o totals) {
	a.Add(o.Summary)
	a.kills, a.before, a.after, a.delays = a.kills+o.kills, a.before+o.before, a.after+o.after, a.delays+o.delays
}

func (a totals) String() string {
	return fmt.Sprintf(
		"%v; %d kills, %d connections lost before a request went through and %d before its answer came, %d delays",
		a.Summary, a.kills, a.before, a.after, a.delays)
}

// missing names something that a check of use has and this one had not.
func (a totals) missing(target Target) string {
	for _, c := range []struct {
		what string
		n    int
	}{
		{"insert", a.Inserted}, {"duplicate", a.Duplicates}, {"refusal", len(a.Refused)},
		{"PARKED begin", a.Begun[store.StartParked]},
		{"end of a run", a.Ended}, {"lost answer", a.Lost}, {"kill", a.kills}, {"receipt", a.Signals}, {"save", a.Saves},
		{"row of a feed", a.FeedRows},
	} {
		if c.n == 0 {
			return c.what
		}
	}
	if target.Via != nil && (a.before == 0 || a.after == 0) {
		return "loss of a connection"
	}
	return ""
}

// pause sleeps, and reports false when ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
