package storetest

import (
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// held are terms of a tenant that admits nothing for now, so that runs pile up.
func held() store.Terms {
	return quota(func(t *store.Terms) { t.Hold = true })
}

// order admits one by one until nothing is left and says whose each was.
func (f *fixture) order(terms func(string, string) store.Terms, of func(store.QueueRow) string) (out []string) {
	f.Helper()
	f.within(10*time.Second, "the hold is over", func() bool {
		got := f.admit(terms, 1)
		for _, q := range got.Rows {
			out = append(out, of(q))
		}
		return len(got.Rows) > 0
	})
	for {
		got := f.admit(terms, 1)
		if len(got.Rows) == 0 {
			return out
		}
		out = append(out, of(got.Rows[0]))
	}
}

func tenantOf(q store.QueueRow) string { return q.TenantID }

func projectOf(q store.QueueRow) string { return q.ProjectID }

// fill makes waiting runs without their events, fast.
func (f *fixture) fill(n int, tenant, project string) {
	f.Helper()
	f.mustWait(n, tenant, project, held())
}

func admitFair(f *fixture) {
	f.fill(200, "a", "p1")
	f.fill(1, "b", "p1")
	order := f.order(always(store.Unlimited()), tenantOf)
	f.equal(201, len(order), "admitted")
	if order[0] != "b" && order[1] != "b" {
		f.Errorf("b's only run is behind %v", order[:5])
	}
	f.lanesHold()
}

func admitWeights(f *fixture) {
	f.fill(200, "a", "p1")
	f.fill(200, "b", "p1")
	order := f.order(func(tenant, _ string) store.Terms {
		t := store.Unlimited()
		if tenant == "b" {
			t.Tenant.Weight = 3
		}
		return t
	}, tenantOf)
	count := map[string]int{}
	for i, tenant := range order {
		if count[tenant]++; i >= 8 && count["b"] < 200 {
			if share := float64(count["b"]) / float64(i+1); share < 0.65 || share > 0.85 {
				f.Fatalf("after %d runs b has %d", i+1, count["b"])
			}
		}
	}
	f.equal(map[string]int{"a": 200, "b": 200}, count, "admitted")
}

func admitProjects(f *fixture) {
	f.fill(20, "t1", "p1")
	f.fill(5, "t1", "p2")
	f.fill(5, "t1", "p3")
	order := f.order(func(_, project string) store.Terms {
		t := store.Unlimited()
		if project == "p3" {
			t.Project.Weight = 5
		}
		return t
	}, projectOf)
	count := map[string]int{}
	for _, project := range order[:8] {
		count[project]++
	}
	if count["p3"] != 5 || count["p2"] == 0 || count["p1"] == 0 {
		f.Errorf("the first eight: %v", count)
	}
	f.equal(30, len(order), "admitted")
}

func admitPriority(f *fixture) {
	var want []string
	first := map[int]string{}
	for _, priority := range []int{0, 5, 9, 5} {
		a, err := f.ask("t1", "p1", held(), priority)
		f.ok(err)
		if at := map[int]int{0: 1, 5: 1, 9: 1}[priority]; first[priority] == "" {
			f.equal(at, a.told.Position, fmt.Sprintf("position of priority %d", priority))
			first[priority] = a.RunID
		} else {
			f.equal(3, a.told.Position, "position behind its equal")
			want = []string{first[9], first[5], a.RunID, first[0]}
		}
	}
	f.equal(want, f.order(always(store.Unlimited()), func(q store.QueueRow) string { return q.RunID }), "order")
}

// Those who lack something of their own are passed by.
func admitBlocked(f *fixture) {
	for i := range 40 {
		f.fill(1, fmt.Sprintf("t%02d", i), "p1")
	}
	f.fill(2, "z", "p1")
	f.fill(2, "z", "p2")
	asked := 0
	terms := func(tenant, project string) store.Terms {
		asked++
		if tenant == "z" && project == "p2" {
			return store.Unlimited()
		}
		return quota(func(t *store.Terms) { t.Project.MaxActive = 0 })
	}
	order := f.order(terms, func(q store.QueueRow) string { return q.TenantID + q.ProjectID })
	f.equal([]string{"zp2", "zp2"}, order, "admitted")
	before := asked
	f.admit(terms, 10)
	if asked > before+1 {
		f.Errorf("%d lanes were asked again", asked-before)
	}
}

// Who waited alone for long has no less, and who never waited no more, when both wait.
func admitNoSavings(f *fixture) {
	f.fill(30, "a", "p1")
	f.order(always(store.Unlimited()), tenantOf)
	f.fill(10, "b", "p1")
	f.fill(10, "a", "p1")
	order := f.order(always(store.Unlimited()), tenantOf)
	count := map[string]int{}
	for _, tenant := range order[:10] {
		count[tenant]++
	}
	if count["a"] < 4 || count["b"] < 4 {
		f.Errorf("the first ten: %v", count)
	}
}

func admitHold(f *fixture) {
	w := f.mustWait(1, "t1", "p1", held())[0]
	f.equal([]any{store.WaitHold, time.Duration(0)}, []any{w.told.Why, w.told.Estimate}, "told")
	got := f.admit(always(held()), 10)
	f.equal(0, len(got.Rows), "admitted")
	if got.Next <= 0 || got.Next > 2*time.Second {
		f.Errorf("asked again after %v", got.Next)
	}
	reject := held()
	reject.Strategy = store.StrategyReject
	f.mustWait(1, "t2", "p1", reject)
	admitted := 0
	f.within(5*time.Second, "both are admitted when they are held no more", func() bool {
		admitted += len(f.admit(always(store.Unlimited()), 10).Rows)
		return admitted == 2
	})
	f.lanesHold()
}

func admitInstallation(f *fixture) {
	terms := quota(func(t *store.Terms) { t.MaxActive = 2 })
	first, second := f.mustAsk("a", "p1", terms), f.mustAsk("a", "p1", terms)
	f.mustWait(2, "a", "p1", terms)
	f.mustWait(1, "b", "p1", terms)
	f.equal(0, len(f.admit(always(terms), 10).Rows), "over the limit")
	f.end(first.Identity)
	stealing := f.mustAsk("c", "p1", terms)
	f.equal([]any{true, store.WaitTurn}, []any{stealing.waiting, stealing.told.Why},
		"one that comes when others wait for that place")
	f.equal(1, len(f.admit(always(terms), 10).Rows), "for one place")
	f.end(second.Identity)
	f.equal(1, len(f.admit(always(terms), 10).Rows), "for another")
	f.equal(int64(2), f.active(), "active")
	f.lanesHold()
}

func admitCancelled(f *fixture) {
	w := f.mustWait(3, "t1", "p1", held())
	alone := f.mustWait(1, "t2", "p1", held())[0] // its row leaves the lane before its run ends
	f.ok(f.store.InRun(f.ctx(), alone.RunID, func(tx store.RunTx) error {
		return tx.SetQueue(f.ctx(), store.QueueRow{Status: store.QueueCancelled})
	}))
	f.equal(int64(0), f.usage("t2").Tenant.Waiting, "waiting in t2")
	f.ok(f.store.InRun(f.ctx(), w[0].RunID, func(tx store.RunTx) error {
		q, err := tx.Queue(f.ctx())
		if err != nil {
			return err
		}
		f.equal([]any{true, store.QueuePending}, []any{q.Waiting, q.Status}, "row")
		f.ok(tx.SetQueue(f.ctx(), q)) // as it is: it goes on waiting
		q.Status = store.QueueCancelled
		if err := tx.SetQueue(f.ctx(), q); err != nil {
			return err
		}
		_, err = tx.Append(f.ctx(), store.Append{Events: []run.Draft{runtest.Draft(run.RunCancelled, "", 1)}})
		return err
	}))
	f.equal([]any{store.QueueCancelled, false}, []any{f.queueRow(w[0].Identity).Status, f.queueRow(w[0].Identity).Waiting},
		"row")
	f.lanesHold()
	f.end(w[1].Identity) // by somebody who knows nothing of queues
	f.lanesHold()
	f.equal(int64(1), f.usage("t1").Tenant.Waiting, "waiting")
	f.equal([]string{w[2].RunID}, f.order(always(store.Unlimited()), func(q store.QueueRow) string { return q.RunID }),
		"admitted")
	f.end(w[2].Identity)
	f.equal(int64(0), f.active(), "active")
	f.lanesHold()
}

func admitLater(f *fixture) {
	terms := quota(func(t *store.Terms) { t.Project.MaxActive = 1 })
	enqueue := func(id run.Identity) (a store.Admission, err error) {
		err = f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
			a, err = tx.Enqueue(f.ctx(), store.Enqueue{Terms: terms, Priority: 5})
			return err
		})
		return a, err
	}
	create := func() run.Identity {
		f.runs++
		id := identity(f.runs)
		id.TenantID = "t9"
		return f.create(newRun(id))
	}
	first, second := create(), create()
	a, err := enqueue(first)
	f.ok(err)
	f.equal(store.Admission{}, a, "admitted")
	a, err = enqueue(second)
	f.ok(err)
	f.equal([]any{true, store.WaitSlot, 1}, []any{a.Waiting, a.Why, a.Position}, "waits")
	f.equal(int64(1), f.head(second).OpsRev, "opsRev (T204)")
	if _, err = enqueue(first); err == nil {
		f.Error("enqueued twice")
	}
	full := terms
	full.Project.MaxWaiting = 1
	terms = full
	third := create()
	_, err = enqueue(third)
	f.refused(err, run.CodeQueueFull)
	_, err = f.store.QueueRow(f.ctx(), third.RunID)
	f.is(err, store.ErrNotFound)
	f.end(first)
	f.equal([]string{second.RunID}, rowIDs(f.admit(always(terms), 10).Rows), "admitted later")
	f.lanesHold()
}

func admitWaitingRuns(f *fixture) {
	list := func(filter store.WaitingFilter) (out []string) {
		f.Helper()
		filter.TenantID = "t1"
		if filter.Limit == 0 {
			filter.Limit = 100
		}
		rows, err := f.store.WaitingRuns(f.ctx(), filter)
		f.ok(err)
		for _, q := range rows {
			out = append(out, fmt.Sprintf("%s %s %d", q.ProjectID, q.RunID, q.Position))
		}
		return out
	}
	f.fill(1, "t2", "p1")
	var ids []string
	for _, p := range []struct {
		project  string
		priority int
	}{{"p1", 5}, {"p2", 5}, {"p1", 9}, {"p1", 5}, {"p2", 0}, {"p1", 0}} {
		a, err := f.ask("t1", p.project, held(), p.priority)
		f.ok(err)
		ids = append(ids, a.RunID)
	}
	want := []string{"p1 " + ids[2] + " 1", "p1 " + ids[0] + " 2", "p1 " + ids[3] + " 3", "p1 " + ids[5] + " 4", "p2 " +
		ids[1] + " 1", "p2 " + ids[4] + " 2"}
	f.equal(want, list(store.WaitingFilter{}), "all")
	rows, err := f.store.WaitingRuns(f.ctx(), store.WaitingFilter{TenantID: "t1", Limit: 1})
	f.ok(err)
	first, err := f.store.Get(f.ctx(), ids[2])
	f.ok(err)
	f.equal([]string{first.EnvironmentID, first.PlanID, first.PlanVersion, first.TriggeredBy},
		[]string{rows[0].EnvironmentID, rows[0].PlanID, rows[0].PlanVersion, rows[0].TriggeredBy}, "what is to be run")
	var paged []string
	after := ""
	for range want {
		page := list(store.WaitingFilter{Limit: 1, After: after})
		f.equal(1, len(page), "page")
		paged = append(paged, page...)
		_, _ = fmt.Sscanf(page[0], "%s %s", new(string), &after)
	}
	f.equal(want, paged, "one by one")
	f.equal(0, len(list(store.WaitingFilter{After: after})), "after the last")
	f.equal(want[4:], list(store.WaitingFilter{ProjectIDs: []string{"p2", "p3"}}), "of a project")
	f.equal(0, len(list(store.WaitingFilter{ProjectIDs: []string{}})), "of no project")
	f.equal(want[2:3], list(store.WaitingFilter{RunID: ids[3]}), "one")
	f.end(f.mustAsk("t3", "p1", store.Unlimited()).Identity)
	_, err = f.store.WaitingRuns(f.ctx(), store.WaitingFilter{TenantID: "t1", After: identity(f.runs).RunID, Limit: 1})
	f.is(err, store.ErrNotFound)
}

func admitUsage(f *fixture) {
	u := f.usage("nobody")
	f.equal([]any{store.LaneUsage{}, 0}, []any{u.Tenant, len(u.Projects)}, "of nobody")
	tenant := quota(func(t *store.Terms) { t.Tenant.PerMinute, t.Project.MaxActive = 6, 1 })
	own := quota(func(t *store.Terms) { t.Tenant.PerMinute, t.Project.PerMinute = 6, 60 })
	f.mustAsk("t1", "p1", tenant)
	f.mustWait(2, "t1", "p1", tenant)
	f.mustAsk("t1", "p2", own)
	u = f.usage("t1")
	f.equal([]int64{2, 2, 1, 2, 1, 0}, []int64{u.Tenant.Active, u.Tenant.Waiting, u.Projects["p1"].Active,
		u.Projects["p1"].Waiting,
		u.Projects["p2"].Active, u.Projects["p2"].Waiting}, "active and waiting")
	for what, d := range map[time.Duration]time.Time{10 * time.Second: u.Tenant.Full[store.BucketStart],
		time.Second: u.Projects["p2"].Full[store.BucketStart]} {
		if left := d.Sub(u.Now); left > what {
			f.Errorf("full in %v, a token is %v", left, what)
		}
	}
	f.equal(0, len(u.Projects["p1"].Full), "buckets of p1")
}
