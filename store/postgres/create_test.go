package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// queuedRun is a run with the admission that the store reported for it.
type queuedRun struct {
	store.NewRun
	admission store.Admission
}

func newQueuedRun(n int, tenant, project string, terms store.Terms, priority int) *queuedRun {
	a := &queuedRun{}
	a.Run = store.Run{
		Identity: run.Identity{
			RunID: fmt.Sprintf("r%03d", n), TenantID: tenant, ProjectID: project, EnvironmentID: "e1", PlanID: "plan",
			PlanVersion: "1",
		},
		RequestKey: run.Key(fmt.Sprint("request-", n)),
	}
	a.Plan, a.Events = []byte(`{}`), []run.Draft{runtest.Draft(run.RunApproved, "", 1)}
	a.Enqueue = &store.Enqueue{Terms: terms, Priority: priority}
	a.Wait = func(admission store.Admission) ([]run.Draft, error) {
		a.admission = admission
		return []run.Draft{runtest.Draft(run.RunQueued, "", 1)}, nil
	}
	return a
}

func openNew(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), testserver.Postgres(t), Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// outcome returns the result for a run as one line. It omits estimates, because these depend on elapsed time.
func (a *queuedRun) outcome(r store.CreatedRun) string {
	refused := (*store.RefusedError)(nil)
	switch {
	case errors.As(r.Err, &refused):
		return fmt.Sprint(a.Run.RunID, " refused ", refused.Code)
	case r.Err != nil:
		return fmt.Sprint(a.Run.RunID, " ", r.Err)
	}
	return fmt.Sprint(a.Run.RunID, " ", r.Created, " waiting ", a.admission.Waiting, " ", a.admission.Why, " position ",
		a.admission.Position)
}

// A batch of runs gets the same verdicts as its runs one by one: the results and lanes of random histories are equal.
func TestCreateRuns_ABatchGetsTheVerdictsOfOneByOne(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	together, singly := openNew(t), openNew(t)
	lanes := func(s *Store) (out []string) {
		out, err := collect(ctx, s, "lanes", func(row pgx.CollectableRow) (line string,
			err error) {
			err = row.Scan(&line)
			return line, err
		},
			`SELECT tenant_id || '/' || project_id || ' active ' || active || ' waiting ' || waiting || ' ready ' || ready FROM lane ORDER BY tenant_id, project_id`)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	random := rand.New(rand.NewPCG(7, 11))
	next := 0
	for round := range 40 {
		var crowd, alone []*queuedRun
		for range 1 + random.IntN(12) {
			next++
			terms := store.Unlimited()
			terms.MaxActive, terms.Tenant.MaxActive, terms.Project.MaxActive = 20+random.IntN(40), 5+random.IntN(20),
				random.IntN(10)
			terms.Tenant.MaxWaiting = 10 + random.IntN(10)
			terms.Tenant.PerMinute = []int{-1, 1, 3}[random.IntN(3)]
			terms.Strategy = []store.Strategy{store.StrategyQueue, store.StrategyQueue, store.StrategyReject}[random.IntN(3)]
			tenant, project, priority := fmt.Sprint("t", random.IntN(3)), fmt.Sprint("p", random.IntN(2)), random.IntN(10)
			crowd = append(crowd, newQueuedRun(next, tenant, project, terms, priority))
			alone = append(alone, newQueuedRun(next, tenant, project, terms, priority))
		}
		runs := make([]store.NewRun, len(crowd))
		for i, a := range crowd {
			runs[i] = a.NewRun
		}
		out, err := together.CreateRuns(ctx, runs)
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for i, a := range crowd {
			got = append(got, a.outcome(out[i]))
		}
		for _, a := range alone {
			var r store.CreatedRun
			r.Run, r.Created, r.Err = singly.CreateRun(ctx, a.NewRun)
			want = append(want, a.outcome(r))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("round %d: results of one by one (want) and one batch (got) differ (-want +got):\n%s", round, diff)
		}
		if diff := cmp.Diff(lanes(singly), lanes(together)); diff != "" {
			t.Fatalf("round %d: lanes after one by one (want) and one batch (got) differ (-want +got):\n%s", round, diff)
		}
	}
}

// A run of a batch fails alone if it exists already, is a duplicate or is refused, if its Wait fails, or if the
// database cannot store it.
func TestCreateRuns_EachFailsAlone(t *testing.T) {
	t.Parallel()
	for name, poisoned := range map[string]bool{"in one transaction": false,
		"with a text that the database refuses": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s := openNew(t)
			free, none, full := store.Unlimited(), store.Unlimited(), store.Unlimited()
			none.Project.MaxActive = 0
			full.Project.MaxActive, full.Project.MaxWaiting = 0, 0
			old := newQueuedRun(1, "t1", "p1", free, 5)
			if _, _, err := s.CreateRun(ctx, old.NewRun); err != nil {
				t.Fatal(err)
			}
			again, other := newQueuedRun(2, "t1", "p1", free, 5), newQueuedRun(1, "t1", "p1", free, 5)
			again.Run.RequestKey = old.Run.RequestKey
			other.Run.RequestKey = "another request with the same id"
			failing := newQueuedRun(5, "t1", "p2", none, 5)
			failing.Wait = func(store.Admission) ([]run.Draft, error) { return nil, errors.New("wait failed") }
			crowd := []*queuedRun{
				again, newQueuedRun(3, "t1", "p1", free, 5), other, newQueuedRun(4, "t1", "p3", full, 5), failing,
				newQueuedRun(6, "t1", "p4", none, 5), newQueuedRun(3, "t1", "p1", free, 5),
			}
			if poisoned {
				bad := newQueuedRun(7, "t1", "p1", free, 5)
				bad.Run.RequestID = "a NUL: \x00"
				crowd = append(crowd, bad)
			}
			runs := make([]store.NewRun, len(crowd))
			for i, a := range crowd {
				runs[i] = a.NewRun
			}
			out, err := s.CreateRuns(ctx, runs)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range out {
				err := r.Err
				for _, known := range []error{store.ErrConflict, run.ErrSchema} {
					if errors.Is(err, known) {
						err = known
					}
				}
				if full := (*store.RefusedError)(nil); errors.As(err, &full) {
					err = errors.New(string(full.Code))
				}
				got = append(got, fmt.Sprint(r.Run.RunID, " ", r.Created, " ", err))
			}
			want := []string{
				"r001 false <nil>", "r003 true <nil>", " false " + store.ErrConflict.Error(), " false QUEUE_FULL",
				" false postgres: create run: wait failed",
				"r006 true <nil>", "r003 false <nil>",
			}
			if poisoned {
				want = append(want, " false "+run.ErrSchema.Error())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			u, err := s.Usage(ctx, "t1")
			if err != nil || u.Tenant.Active != 2 || u.Tenant.Waiting != 1 {
				t.Errorf("%d runs are active and %d wait, %v; want 2 and 1", u.Tenant.Active, u.Tenant.Waiting, err)
			}
		})
	}
}

// Two processes create runs of the same requests in different orders, without deadlocks.
func TestCreateRuns_SameRequestsFromTwoProcesses(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := openNew(t)
	const rounds, each = 20, 200
	made := make(chan int)
	create := func(round, process int) {
		n := 0
		defer func() { made <- n }()
		random := rand.New(rand.NewPCG(uint64(process), uint64(round)))
		runs := make([]store.NewRun, each)
		for i := range runs {
			a := newQueuedRun(round*each+i, "t1", "p1", store.Unlimited(), 5)
			a.Run.RunID += fmt.Sprint("-", process)
			runs[i] = a.NewRun
		}
		random.Shuffle(each, func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
		out, err := s.CreateRuns(ctx, runs)
		if err != nil {
			t.Error(err)
			return
		}
		for _, r := range out {
			if r.Err != nil {
				t.Error(r.Err)
			} else if r.Created {
				n++
			}
		}
	}
	for round := range rounds {
		go create(round, 0)
		go create(round, 1)
		if n := <-made + <-made; n != each {
			t.Errorf("%d runs were created for %d requests, want one for each", n, each)
		}
	}
	time.Sleep(1200 * time.Millisecond) // idle sessions report their statistics once a second
	var deadlocks int
	if err := s.pool.Load().QueryRow(
		ctx, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks); err != nil {
		t.Fatal(err)
	}
	if deadlocks != 0 {
		t.Errorf("%d deadlocks, want none", deadlocks)
	}
}
