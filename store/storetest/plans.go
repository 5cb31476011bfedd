package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var planCases = []testCase{
	// contract: T101
	{"ListPlansEqualsAGroupingInGo", testListPlansEqualsAGroupingInGo},
	{"ListPlansPagesByActivity", testListPlansPagesByActivity},
	{"ListPlansKeepsTheNewestRun", testListPlansKeepsTheNewestRun},
	{"PlanRunsAreNewestFirst", testPlanRunsAreNewestFirst},
	// contract: T101
	{"StepEventsAreThoseOfTheStep", testStepEventsAreThoseOfTheStep},
}

func (f *fixture) plans(filter store.PlanFilter) []store.PlanRow {
	f.Helper()
	rows, err := f.store.ListPlans(f.ctx(), filter)
	f.ok(err)
	return rows
}

// planRow is the part of a store.PlanRow that the tests compare.
type planRow struct {
	Key  store.PlanKey
	Open int
	Runs []string
}

func planRows(rows []store.PlanRow) []planRow {
	out := []planRow{}
	for _, r := range rows {
		out = append(out, planRow{Key: r.PlanKey, Open: r.Open, Runs: runIDs(r.Runs)})
	}
	return out
}

// groupRuns computes in Go what ListPlans returns.
func groupRuns(all []run.State, f store.PlanFilter) []planRow {
	byKey := map[store.PlanKey][]run.State{}
	for _, s := range all {
		if s.TenantID != f.TenantID || f.ProjectIDs != nil && !slices.Contains(f.ProjectIDs, s.ProjectID) ||
			f.EnvironmentID != "" && f.EnvironmentID != s.EnvironmentID || !f.Scopes.Contains(s.ProjectID, s.EnvironmentID) ||
			f.PlanID != "" && f.PlanID != s.PlanID || !strings.Contains(s.PlanID, f.Text) {
			continue
		}
		k := store.PlanKey{TenantID: s.TenantID, ProjectID: s.ProjectID, EnvironmentID: s.EnvironmentID, PlanID: s.PlanID}
		byKey[k] = append(byKey[k], s)
	}
	plans := make([][]run.State, 0, len(byKey))
	for _, runs := range byKey {
		slices.SortFunc(runs, func(a, b run.State) int {
			return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.RunID, a.RunID))
		})
		plans = append(plans, runs)
	}
	slices.SortFunc(plans, func(a, b []run.State) int {
		x, y := a[0], b[0]
		return cmp.Or(y.CreatedAt.Compare(x.CreatedAt), cmp.Compare(y.ProjectID, x.ProjectID),
			cmp.Compare(y.EnvironmentID, x.EnvironmentID), cmp.Compare(y.PlanID, x.PlanID))
	})
	out := []planRow{}
	for _, runs := range plans[:min(len(plans), f.Limit)] {
		s := runs[0]
		row := planRow{Key: store.PlanKey{TenantID: s.TenantID, ProjectID: s.ProjectID, EnvironmentID: s.EnvironmentID,
			PlanID: s.PlanID}}
		for i, s := range runs {
			if !s.Status.Terminal() {
				row.Open++
			}
			if i < f.Runs {
				row.Runs = append(row.Runs, s.RunID)
			}
		}
		out = append(out, row)
	}
	return out
}

// The test compares ListPlans with a grouping in Go over random runs and filters.
func testListPlansEqualsAGroupingInGo(f *fixture) {
	r := rand.New(rand.NewPCG(5, 11))
	all := make([]run.State, 200)
	for n := range all {
		all[n] = f.createRandom(r, n)
	}
	listed, longest := 0, 0
	for n := range 200 {
		filter := store.PlanFilter{TenantID: pick(r, "t1", "t1", "t1", "T1", "nobody"), Runs: pick(r, 1, 3, 30),
			Limit: pick(r, 1, 5, 100), Text: pick(r, "", "", "plan", "_", "9")}
		if r.IntN(3) == 0 {
			filter.ProjectIDs = pick(r, []string{"p1"}, []string{"p2", "p3"}, []string{})
		}
		if r.IntN(3) == 0 {
			filter.EnvironmentID = pick(r, "prod", "dev", "none")
		}
		if r.IntN(3) == 0 {
			filter.Scopes = pick(r, store.Scopes{{ProjectID: "p1"}, {EnvironmentID: "dev"}},
				store.Scopes{{ProjectID: "p2", EnvironmentID: "prod"}}, store.Scopes{})
		}
		if r.IntN(5) == 0 {
			filter.PlanID = pick(r, "nightly", "a_b", "night")
		}
		got := planRows(f.plans(filter))
		f.equal(groupRuns(all, filter), got, fmt.Sprintf("plans %d: %+v", n, filter))
		listed += len(got)
		for _, row := range got {
			longest = max(longest, len(row.Runs))
		}
	}
	if listed < 500 || longest < 10 {
		f.Errorf("%d plans were listed, the most runs of one were %d; want at least 500 and 10 for a meaningful comparison",
			listed, longest)
	}
}

// The cursor of a page is the position of its last row, and every plan is on one page.
func testListPlansPagesByActivity(f *fixture) {
	for n := range 7 {
		id := identity(n)
		id.PlanID = fmt.Sprint("plan-", n)
		made := newRun(id)
		made.Run.CreatedAt = runtest.Epoch // the same time for all: the names decide
		f.ok(f.store.Import(f.ctx(), made, nil))
	}
	var got []string
	var after *store.PlanPos
	for {
		page := f.plans(store.PlanFilter{TenantID: "t1", Runs: 1, Limit: 3, After: after})
		if len(page) == 0 {
			break
		}
		for _, p := range page {
			got = append(got, p.PlanID)
		}
		at := page[len(page)-1].Pos()
		after = &at
	}
	f.equal([]string{"plan-6", "plan-5", "plan-4", "plan-3", "plan-2", "plan-1", "plan-0"}, got, "plans of all pages")
}

// An import of an old run does not move a plan back, and a new run moves it to the front.
func testListPlansKeepsTheNewestRun(f *fixture) {
	first, second := identity(1), identity(2)
	second.PlanID = "other"
	f.create(newRun(first))
	f.create(newRun(second))
	old := identity(3)
	old.PlanID = "other"
	imported := newRun(old)
	imported.Run.CreatedAt = runtest.Epoch
	f.ok(f.store.Import(f.ctx(), imported, nil))
	order := func() (out []string) {
		for _, p := range f.plans(store.PlanFilter{TenantID: "t1", Runs: 5, Limit: 10}) {
			out = append(out, p.PlanID)
			f.equal(p.Runs[0].Header.CreatedAt, p.LastRunAt, "time of the newest run of "+p.PlanID)
		}
		return out
	}
	f.equal([]string{"other", first.PlanID}, order(), "after the import of an old run")
	f.create(newRun(identity(4)))
	f.equal([]string{first.PlanID, "other"}, order(), "after a new run of the first plan")
}

func testPlanRunsAreNewestFirst(f *fixture) {
	for n := range 5 {
		id := identity(n)
		id.PlanVersion = fmt.Sprint(n)
		if n == 3 {
			id.EnvironmentID = "elsewhere"
		}
		made := newRun(id, runtest.Draft(run.RunApproved, "", 1))
		made.Run.TriggeredBy = fmt.Sprint("person-", n)
		f.create(made)
	}
	k := store.PlanKey{TenantID: "t1", ProjectID: runtest.ID.ProjectID, EnvironmentID: runtest.ID.EnvironmentID,
		PlanID: runtest.ID.PlanID}
	runs, err := f.store.PlanRuns(f.ctx(), k, 3)
	f.ok(err)
	got := []store.PlanRun{}
	for _, r := range runs {
		if r.CreatedAt.IsZero() {
			f.Errorf("run %s has no time of creation", r.RunID)
		}
		r.CreatedAt = runtest.Epoch
		got = append(got, r)
	}
	want := []store.PlanRun{}
	for _, n := range []int{4, 2, 1} {
		want = append(want, store.PlanRun{RunID: identity(n).RunID, CreatedAt: runtest.Epoch, PlanVersion: fmt.Sprint(n),
			PlanSHA256: sha, TriggeredBy: fmt.Sprint("person-", n)})
	}
	f.equal(want, got, "the newest runs of the plan in its scope")
	k.TenantID = "T1"
	runs, err = f.store.PlanRuns(f.ctx(), k, 3)
	f.ok(err)
	f.equal(0, len(runs), "runs for another tenant")
}

func testStepEventsAreThoseOfTheStep(f *fixture) {
	a, b := f.run(), f.run()
	other := identity(50)
	other.TenantID = "t2"
	f.create(newRun(other, runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1")))
	for _, id := range []run.Identity{b, a, other} {
		f.append(id, stepStarted("s1", 1))
		f.append(id, runtest.Draft(run.StepFailedEvent, "s1", 1))
		f.append(id, stepStarted("s1", 2))
	}
	f.append(a, runtest.Draft(run.StepCompletedEvent, "s1", 2))
	evs, err := f.store.StepEvents(f.ctx(), "t1", "s1", []string{b.RunID, a.RunID, other.RunID, "unknown"})
	f.ok(err)
	got := []string{}
	for _, e := range evs {
		got = append(got, fmt.Sprintf("%s %s %d", e.RunID, e.Type, e.LogicalAttempt))
		f.equal("t1", e.TenantID, "tenant of the event")
	}
	f.equal([]string{
		a.RunID + " StepStarted 1", a.RunID + " StepFailed 1", a.RunID + " StepStarted 2", a.RunID + " StepCompleted 2",
		b.RunID + " StepStarted 1", b.RunID + " StepFailed 1", b.RunID + " StepStarted 2",
	}, got, "events of the step")
	whole, err := f.store.Events(f.ctx(), a.RunID, 0, 100)
	f.ok(err)
	f.equal(whole[len(whole)-1], evs[3], "the event as the log has it")
}
