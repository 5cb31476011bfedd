package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var admissionRaceCases = []testCase{
	// contract: Q05
	{"RunsAreAdmittedOnceAndWithinLimits", testRunsAreAdmittedOnceAndWithinLimits},
	{"LanesCountTheirRows", testLanesCountTheirRows},
	{"StartersOfOneLaneGetEachSlotAndPositionOnce", testStartersOfOneLaneGetEachSlotAndPositionOnce},
}

// Three processes request, admit, lease and end runs at the same time.
func testRunsAreAdmittedOnceAndWithinLimits(f *fixture) {
	const most, ofTenant, each = 6, 3, 10
	processes := []store.Store{f.store, f.db.Open(f), f.db.Open(f)}
	terms := termsWith(func(t *store.Terms) { t.MaxActive, t.Tenant.MaxActive = most, ofTenant })
	var mu sync.Mutex
	admitted := map[string]int{}
	ended := 0
	f.concurrently(32, func(w int) error {
		s := processes[w%3]
		random := rand.New(rand.NewPCG(uint64(w), 1))
		for n := range each {
			id := identity(1000 + w*100 + n)
			id.TenantID, id.ProjectID = fmt.Sprintf("t%d", random.IntN(4)), fmt.Sprintf("p%d", random.IntN(2))
			a, err := requestFrom(f, s, id, terms, random.IntN(10))
			if err != nil {
				return err
			}
			if !a.waiting {
				mu.Lock()
				admitted[id.RunID]++
				mu.Unlock()
			}
			got, err := s.AdmitWaiting(f.ctx(), sameTerms(terms), 4)
			if err != nil {
				return err
			}
			mu.Lock()
			for _, q := range got.Rows {
				admitted[q.RunID]++
			}
			mu.Unlock()
			u, err := s.ActiveRuns(f.ctx())
			if err != nil {
				return err
			}
			if u > most {
				return fmt.Errorf("%d runs have a slot, want at most %d", u, most)
			}
			usage, err := s.Usage(f.ctx(), id.TenantID)
			if err != nil {
				return err
			}
			if usage.Tenant.Active > ofTenant {
				return fmt.Errorf("%d runs of %s have a slot, want at most %d", usage.Tenant.Active, id.TenantID, ofTenant)
			}
			rows, err := s.Lease(f.ctx(), fmt.Sprint("w", w), time.Minute, 2)
			if err != nil {
				return err
			}
			for _, q := range rows {
				if err := endLeased(f, s, q); err != nil {
					return err
				}
				mu.Lock()
				ended++
				mu.Unlock()
			}
		}
		return nil
	})
	f.checkLanes()
	f.eventually(20*time.Second, "all runs are admitted and end", func() bool {
		for _, q := range f.admit(sameTerms(terms), 100).Rows {
			admitted[q.RunID]++
		}
		for _, q := range f.lease("last", time.Minute, 100) {
			f.ok(endLeased(f, f.store, q))
			ended++
		}
		return ended == 32*each
	})
	f.equal(32*each, len(admitted), "admitted")
	for id, n := range admitted {
		f.equal(1, n, "admissions of "+id)
	}
	f.equal(int64(0), f.activeRuns(), "active")
	f.checkLanes()
}

func endLeased(f *fixture, s store.Store, q store.QueueRow) error {
	if err := s.MarkStarted(f.ctx(), q.RunID, q.Generation); err != nil {
		return err
	}
	_, err := s.Append(f.ctx(), store.Append{RunID: q.RunID, Events: []run.Draft{runtest.Draft(run.RunCancelled, "", 1)}})
	return err
}

// After random operations the counts of every lane equal the numbers of their rows.
func testLanesCountTheirRows(f *fixture) {
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 7))
		var open []requestedRun
		for range 120 {
			terms := termsWith(func(t *store.Terms) {
				t.MaxActive, t.Tenant.MaxActive, t.Project.MaxActive = random.IntN(12), random.IntN(6), random.IntN(5)
				t.Tenant.PerMinute, t.Tenant.MaxWaiting = random.IntN(40)-1, 5+random.IntN(5)
				t.Strategy = []store.Strategy{store.StrategyQueue, store.StrategyReject, store.StrategyDelay}[random.IntN(3)]
				t.Hold = random.IntN(10) == 0
			})
			switch random.IntN(6) {
			case 0, 1, 2:
				a, err := f.request(fmt.Sprintf("t%d", random.IntN(3)), fmt.Sprintf("p%d", random.IntN(2)), terms, random.IntN(10))
				if err == nil {
					open = append(open, a)
				}
			case 3:
				f.admit(sameTerms(terms), 1+random.IntN(4))
			case 4:
				f.lease("w", time.Minute, 2)
			case 5:
				if len(open) == 0 {
					continue
				}
				i := random.IntN(len(open))
				if f.queueRow(open[i].Identity).Waiting && random.IntN(2) == 0 {
					f.expireWaiting(open[i].Identity)
				} else {
					f.cancelRun(open[i].Identity)
				}
				open = append(open[:i], open[i+1:]...)
			}
		}
		f.checkLanes()
	}
}

// Many callers start runs of one project at once, and each request is sent twice from two processes. Every slot of the
// lane is assigned once, every position in its queue once, and the waiting runs are admitted in this order.
func testStartersOfOneLaneGetEachSlotAndPositionOnce(f *fixture) {
	const slots, queue, starters = 7, 20, 40
	processes := []store.Store{f.store, f.db.Open(f), f.db.Open(f)}
	terms := termsWith(func(t *store.Terms) { t.Project.MaxActive, t.Project.MaxWaiting = slots, queue })
	var mu sync.Mutex
	told := map[string]store.Admission{} // of the runs that were created
	refused := 0
	f.concurrently(2*starters, func(w int) error {
		id := identity(5000 + w)
		n := newRun(id, runtest.Draft(run.RunApproved, "", 1))
		n.Run.RequestKey = run.Key(fmt.Sprint("request-", w/2))
		n.Enqueue = &store.Enqueue{Terms: terms, Priority: 5}
		var a store.Admission
		n.Wait = func(is store.Admission) ([]run.Draft, error) {
			a = is
			return []run.Draft{runtest.Draft(run.RunQueued, "", 1, runtest.M{"queuePosition": is.Position})}, nil
		}
		r, created, err := processes[w%3].CreateRun(f.ctx(), n)
		mu.Lock()
		defer mu.Unlock()
		switch full := (*store.RefusedError)(nil); {
		case errors.As(err, &full) && full.Code == run.CodeQueueFull:
			refused++
			return nil
		case err != nil:
			return err
		case created:
			told[r.RunID] = a
		}
		return nil
	})
	f.equal(slots+queue, len(told), "runs that were created")
	// Both calls of the other requests are refused. A call of a created request may be refused too: the place that it
	// lacked belonged to a transaction that was repeated without another run.
	if least := 2 * (starters - slots - queue); refused < least || refused > 2*starters-len(told) {
		f.Errorf("%d calls were refused, want %d, and at most one of each created request", refused, least)
	}
	order := make([]string, queue)
	admitted := 0
	for id, a := range told {
		switch {
		case !a.Waiting:
			admitted++
		case a.Position < 1 || a.Position > queue || order[a.Position-1] != "":
			f.Errorf("run %s has position %d, which another run has or which is outside 1 to %d", id, a.Position, queue)
		default:
			order[a.Position-1] = id
		}
	}
	f.equal(slots, admitted, "runs that got a slot")
	f.equal(int64(slots), f.activeRuns(), "runs that the lanes count as active")
	f.checkLanes()
	for id, a := range told {
		if !a.Waiting {
			ended := identity(0)
			ended.RunID = id
			f.cancelRun(ended)
		}
	}
	f.equal(order[:slots], rowIDs(f.admit(sameTerms(terms), 100).Rows),
		"runs that are admitted when the slots are free again, in order")
	f.checkLanes()
}
