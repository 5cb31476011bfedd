package storetest

import (
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// onHold returns terms that hold all admissions, so that runs queue up.
func onHold() store.Terms {
	return termsWith(func(t *store.Terms) { t.Hold = true })
}

// admissionOrder admits runs one by one until none is left. It returns of(row) for each, in the order of admission.
func (f *fixture) admissionOrder(terms func(string, string) store.Terms,
	of func(store.QueueRow) string) (out []string) {
	f.Helper()
	f.eventually(10*time.Second, "the hold is over", func() bool {
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

// createWaiting creates n waiting runs.
func (f *fixture) createWaiting(n int, tenant, project string) {
	f.Helper()
	f.mustWait(n, tenant, project, onHold())
}

func testOneTenantDoesNotWaitBehindAnothersBacklog(f *fixture) {
	f.createWaiting(200, "a", "p1")
	f.createWaiting(1, "b", "p1")
	order := f.admissionOrder(sameTerms(store.Unlimited()), tenantOf)
	f.equal(201, len(order), "admitted")
	if order[0] != "b" && order[1] != "b" {
		f.Errorf("the first admissions are of %v, want the only run of b among the first two", order[:5])
	}
	f.checkLanes()
}

func testWeightsShareAdmissions(f *fixture) {
	f.createWaiting(200, "a", "p1")
	f.createWaiting(200, "b", "p1")
	order := f.admissionOrder(func(tenant, _ string) store.Terms {
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
				f.Fatalf("b has %d of the first %d admissions, want 65 %% to 85 %%", count["b"], i+1)
			}
		}
	}
	f.equal(map[string]int{"a": 200, "b": 200}, count, "admitted")
}

func testProjectsTakeTurns(f *fixture) {
	f.createWaiting(20, "t1", "p1")
	f.createWaiting(5, "t1", "p2")
	f.createWaiting(5, "t1", "p3")
	order := f.admissionOrder(func(_, project string) store.Terms {
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
		f.Errorf("the first eight admissions by project: %v, want 5 of p3 and some of p1 and p2", count)
	}
	f.equal(30, len(order), "admitted")
}

func testPriorityOrdersALane(f *fixture) {
	var want []string
	first := map[int]string{}
	for _, priority := range []int{0, 5, 9, 5} {
		a, err := f.request("t1", "p1", onHold(), priority)
		f.ok(err)
		if at := map[int]int{0: 1, 5: 1, 9: 1}[priority]; first[priority] == "" {
			f.equal(at, a.admission.Position, fmt.Sprintf("position of priority %d", priority))
			first[priority] = a.RunID
		} else {
			f.equal(3, a.admission.Position, "position of the second run with the same priority")
			want = []string{first[9], first[5], a.RunID, first[0]}
		}
	}
	f.equal(want, f.admissionOrder(sameTerms(store.Unlimited()), func(q store.QueueRow) string { return q.RunID }),
		"order")
}

// Admission skips a lane whose own limit is reached, so that the lane does not block others.
func testBlockedLanesDoNotBlockOthers(f *fixture) {
	for i := range 40 {
		f.createWaiting(1, fmt.Sprintf("t%02d", i), "p1")
	}
	f.createWaiting(2, "z", "p1")
	f.createWaiting(2, "z", "p2")
	asked := 0
	terms := func(tenant, project string) store.Terms {
		asked++
		if tenant == "z" && project == "p2" {
			return store.Unlimited()
		}
		return termsWith(func(t *store.Terms) { t.Project.MaxActive = 0 })
	}
	order := f.admissionOrder(terms, func(q store.QueueRow) string { return q.TenantID + q.ProjectID })
	f.equal([]string{"zp2", "zp2"}, order, "admitted")
	before := asked
	f.admit(terms, 10)
	if asked > before+1 {
		f.Errorf("the terms of %d lanes were read again, want at most 1", asked-before)
	}
}

// When two tenants wait, both get the same share, although one had the queue for itself before and the other was idle.
func testIdleTenantsGainNoCredit(f *fixture) {
	f.createWaiting(30, "a", "p1")
	f.admissionOrder(sameTerms(store.Unlimited()), tenantOf)
	f.createWaiting(10, "b", "p1")
	f.createWaiting(10, "a", "p1")
	order := f.admissionOrder(sameTerms(store.Unlimited()), tenantOf)
	count := map[string]int{}
	for _, tenant := range order[:10] {
		count[tenant]++
	}
	if count["a"] < 4 || count["b"] < 4 {
		f.Errorf("the first ten admissions by tenant: %v, want at least 4 of each", count)
	}
}

func testHoldKeepsRunsWaiting(f *fixture) {
	w := f.mustWait(1, "t1", "p1", onHold())[0]
	f.equal([]any{store.WaitHold, time.Duration(0)}, []any{w.admission.Why, w.admission.Estimate}, "reason and estimate")
	got := f.admit(sameTerms(onHold()), 10)
	f.equal(0, len(got.Rows), "admitted")
	if got.Next <= 0 || got.Next > 2*time.Second {
		f.Errorf("Next is %v, want one above 0 and at most 2s", got.Next)
	}
	reject := onHold()
	reject.Strategy = store.StrategyReject
	f.mustWait(1, "t2", "p1", reject)
	admitted := 0
	f.eventually(5*time.Second, "both are admitted after the hold", func() bool {
		admitted += len(f.admit(sameTerms(store.Unlimited()), 10).Rows)
		return admitted == 2
	})
	f.checkLanes()
}

func testInstallationLimitIsSharedInTurn(f *fixture) {
	terms := termsWith(func(t *store.Terms) { t.MaxActive = 2 })
	first, second := f.mustRequest("a", "p1", terms), f.mustRequest("a", "p1", terms)
	f.mustWait(2, "a", "p1", terms)
	f.mustWait(1, "b", "p1", terms)
	f.equal(0, len(f.admit(sameTerms(terms), 10).Rows), "over the limit")
	f.cancelRun(first.Identity)
	stealing := f.mustRequest("c", "p1", terms)
	f.equal([]any{true, store.WaitTurn}, []any{stealing.waiting, stealing.admission.Why},
		"a new run while others wait for the free slot")
	f.equal(1, len(f.admit(sameTerms(terms), 10).Rows), "admitted for one free slot")
	f.cancelRun(second.Identity)
	f.equal(1, len(f.admit(sameTerms(terms), 10).Rows), "admitted for another free slot")
	f.equal(int64(2), f.activeRuns(), "active")
	f.checkLanes()
}

func testWaitingRunCanBeCancelled(f *fixture) {
	w := f.mustWait(3, "t1", "p1", onHold())
	alone := f.mustWait(1, "t2", "p1", onHold())[0] // its row leaves the lane before its run ends
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
		f.ok(tx.SetQueue(f.ctx(), q)) // an unchanged row goes on waiting
		q.Status = store.QueueCancelled
		if err := tx.SetQueue(f.ctx(), q); err != nil {
			return err
		}
		_, err = tx.Append(f.ctx(), store.Append{Events: []run.Draft{runtest.Draft(run.RunCancelled, "", 1)}})
		return err
	}))
	f.equal([]any{store.QueueCancelled, false}, []any{f.queueRow(w[0].Identity).Status, f.queueRow(w[0].Identity).Waiting},
		"row")
	f.checkLanes()
	f.cancelRun(w[1].Identity) // the writer does not change the queue row itself
	f.checkLanes()
	f.equal(int64(1), f.usage("t1").Tenant.Waiting, "waiting")
	f.equal([]string{w[2].RunID}, f.admissionOrder(sameTerms(store.Unlimited()),
		func(q store.QueueRow) string { return q.RunID }),
		"admitted")
	f.cancelRun(w[2].Identity)
	f.equal(int64(0), f.activeRuns(), "active")
	f.checkLanes()
}

func testExistingRunCanBeEnqueued(f *fixture) {
	terms := termsWith(func(t *store.Terms) { t.Project.MaxActive = 1 })
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
	f.equal(int64(1), f.head(second).OpsRev, "opsRev after the queue row")
	if _, err = enqueue(first); err == nil {
		f.Error("a second Enqueue() succeeded, want an error")
	}
	full := terms
	full.Project.MaxWaiting = 1
	terms = full
	third := create()
	_, err = enqueue(third)
	f.wantRefused(err, run.CodeQueueFull)
	_, err = f.store.QueueRow(f.ctx(), third.RunID)
	f.wantError(err, store.ErrNotFound)
	f.cancelRun(first)
	f.equal([]string{second.RunID}, rowIDs(f.admit(sameTerms(terms), 10).Rows), "admitted later")
	f.checkLanes()
}

func testWaitingRunsAreListedInOrder(f *fixture) {
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
	f.createWaiting(1, "t2", "p1")
	var ids []string
	for _, p := range []struct {
		project  string
		priority int
	}{{"p1", 5}, {"p2", 5}, {"p1", 9}, {"p1", 5}, {"p2", 0}, {"p1", 0}} {
		a, err := f.request("t1", p.project, onHold(), p.priority)
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
		[]string{rows[0].EnvironmentID, rows[0].PlanID, rows[0].PlanVersion, rows[0].TriggeredBy},
		"environment, plan and starter of the waiting run")
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
	f.cancelRun(f.mustRequest("t3", "p1", store.Unlimited()).Identity)
	_, err = f.store.WaitingRuns(f.ctx(), store.WaitingFilter{TenantID: "t1", After: identity(f.runs).RunID, Limit: 1})
	f.wantError(err, store.ErrNotFound)
}

func testUsageCountsTenantAndProjects(f *fixture) {
	u := f.usage("nobody")
	f.equal([]any{store.LaneUsage{}, 0}, []any{u.Tenant, len(u.Projects)}, "usage of an unknown tenant")
	tenant := termsWith(func(t *store.Terms) { t.Tenant.PerMinute, t.Project.MaxActive = 6, 1 })
	own := termsWith(func(t *store.Terms) { t.Tenant.PerMinute, t.Project.PerMinute = 6, 60 })
	f.mustRequest("t1", "p1", tenant)
	f.mustWait(2, "t1", "p1", tenant)
	f.mustRequest("t1", "p2", own)
	u = f.usage("t1")
	f.equal([]int64{2, 2, 1, 2, 1, 0}, []int64{u.Tenant.Active, u.Tenant.Waiting, u.Projects["p1"].Active,
		u.Projects["p1"].Waiting,
		u.Projects["p2"].Active, u.Projects["p2"].Waiting}, "active and waiting")
	for what, d := range map[time.Duration]time.Time{10 * time.Second: u.Tenant.Full[store.BucketStart],
		time.Second: u.Projects["p2"].Full[store.BucketStart]} {
		if left := d.Sub(u.Now); left > what {
			f.Errorf("the bucket is full in %v, want at most %v, the time of one token", left, what)
		}
	}
	f.equal(0, len(u.Projects["p1"].Full), "buckets of p1")
}
