// Package modelcheck puts a store under load from two processes that are killed and lose their connections. It records
// every call, and package history checks the record. A seed determines the calls of each process, but the scheduler
// determines their interleaving, so a seed does not reproduce a run exactly.
//
// Callers behave like dvt: after an error or a lost response they append the same drafts again (contract T09).
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
	// Fresh creates an empty database for one round and returns its address.
	Fresh func(t testing.TB) (address string)
	// Open opens the database. Every process calls it.
	Open func(ctx context.Context, address string) (store.Store, error)
	// Via returns the address of the same database through the proxy at hostPort, and the host and port of the database
	// itself. It is nil for a database without network connections.
	Via func(address, hostPort string) (via, upstream string)
	// Disturb blocks the writers of the database for a moment; may be nil.
	Disturb func(ctx context.Context, address string) error
	// Idle waits until the database has finished the work of killed processes; may be nil.
	Idle func(ctx context.Context, address string) error
	// Writers is the number of writers in each process; 0 means 6.
	Writers int
}

// Bounds of a round. Its record is checked in memory.
const (
	maxRound  = 15 * time.Second
	processes = 2
	// enoughWrites is the number of writes that should include every kind of result.
	enoughWrites = 2000
	// shortDuration is the duration with -short.
	shortDuration = 3 * time.Second
	// patience is the time that processes have to end after they are stopped.
	patience = time.Minute
)

// Run checks the target for about d in rounds, each on a database of its own, and logs a summary. With -short it runs
// for at most three seconds. The test binary must have a test with the name Child that calls Live. With a seed of 0 it
// uses a random seed, which it logs.
func Run(t *testing.T, target Target, d time.Duration, seed uint64) {
	if testing.Short() {
		d = min(d, shortDuration)
	}
	if deadline, ok := t.Deadline(); ok && time.Until(deadline) < d+2*time.Minute {
		t.Fatalf("the check takes %v, which exceeds the timeout of `go test`; add -timeout=0", d)
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
			r.runWithFaults()
			all.add(r.judge())
		})
		if t.Failed() {
			break
		}
	}
	t.Log(all)
	if missing := all.missing(target); missing != "" && !t.Failed() && all.Writes >= enoughWrites {
		t.Errorf("the check is incomplete: the rounds had no %s", missing)
	}
}

// Find checks a broken target in this process until the checker reports a violation of the rule, which takes a second
// or two on an idle machine. It fails the test after a minute without such a violation.
func Find(t *testing.T, target Target, rule history.Rule) {
	t.Helper()
	const patience = time.Minute
	for seed, began := uint64(1), time.Now(); time.Since(began) < patience; seed++ {
		r := &round{T: t, target: target, seed: seed, time: 1200 * time.Millisecond}
		r.prepare()
		r.runWithoutFaults()
		_, found := r.finish()
		for _, v := range found {
			if v.Rule == rule {
				t.Logf("violation: %v", v)
				return
			}
		}
		for _, v := range found {
			t.Logf("violation of another rule: %v", v)
		}
	}
	t.Errorf("the checker found no violation of the rule %q in a store that breaks it", rule)
}

// round is the check of one database.
type round struct {
	*testing.T
	target  Target
	seed    uint64
	time    time.Duration
	address string
	via     string // address that the processes use
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

// runWithFaults runs two processes that are killed and lose connections, and a watcher in this process that does not.
func (r *round) runWithFaults() {
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

// runWithoutFaults runs two lives in this process, without kills.
func (r *round) runWithoutFaults() {
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

// life returns the description of one execution of a process.
func (r *round) life(process, generation int) life {
	return life{
		Name: fmt.Sprintf("p%d.%d", process, generation), Process: process, Seed: r.seed, Generation: uint64(generation),
		Address: r.via, Dir: r.dir, Journal: r.path, Writers: r.target.Writers,
	}
}

// judge ends the round. If a rule is violated, it fails the test and keeps the journal.
func (r *round) judge() totals {
	summary, found := r.finish()
	if len(found) > 0 {
		r.Errorf("seed %d: %d violations; the history is kept in %s", r.seed, len(found), r.keep())
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

// keep copies the journal to the directory TEST_EVIDENCE_DIR, or to the default directory for temporary files, and
// returns its path.
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

// finish completes checkpoints and feeds, reads every log and checks the history.
func (r *round) finish() (history.Summary, []history.Violation) {
	r.Helper()
	ctx, stop := context.WithTimeout(r.Context(), patience)
	defer stop()
	if r.target.Idle != nil {
		if err := r.target.Idle(ctx, r.address); err != nil {
			r.Fatalf("waiting for an idle database: %v", err)
		}
	}
	last := r.life(0, 1)
	last.Address = r.address
	if err := last.conclude(ctx, r.target.Open); err != nil {
		r.Fatalf("concluding the round: %v", err)
	}
	h, err := history.ReadFile(r.path)
	if err != nil {
		r.Fatal(err)
	}
	return h.Summarize(), h.Check()
}

// totals has the sums of all rounds.
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
		"%v; %d kills, %d connections lost before the request arrived and %d before the response arrived, %d delays",
		a.Summary, a.kills, a.before, a.after, a.delays)
}

// missing names something that a meaningful check must have and this one did not have, or returns "".
func (a totals) missing(target Target) string {
	for _, c := range []struct {
		what string
		n    int
	}{
		{"insert", a.Inserted}, {"duplicate", a.Duplicates}, {"refusal", len(a.Refused)},
		{"PARKED start", a.Begun[store.StartParked]},
		{"end of a run", a.Ended}, {"lost response", a.Lost}, {"kill", a.kills}, {"receipt", a.Signals}, {"save", a.Saves},
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

// pause sleeps for d. It returns false if ctx ended before.
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
