package reads_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// planOf returns the key of the plan that the fixtures run.
func (w *world) planOf(runID string) store.PlanKey {
	h := w.header(runID)
	return store.PlanKey{TenantID: h.TenantID, ProjectID: h.ProjectID, EnvironmentID: h.EnvironmentID, PlanID: h.PlanID}
}

// minutes formats a duration to a minute; "-" for none.
func minutes(d *time.Duration) string {
	if d == nil {
		return "-"
	}
	return d.Round(time.Minute).String()
}

func TestPlans_SummariseTheNewestRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	viewer := w.Principal("dev-engineer")
	w.CreateEnded("a0", nil, run.RunCancelled, map[string]int{"s1": 10})
	w.CreateEnded("a1", nil, run.RunCompleted, map[string]int{"s1": 10})
	w.CreateEnded("a2", nil, run.RunCompleted, map[string]int{"s1": 30})
	failed := w.CreateEnded("a3", nil, run.RunFailed, map[string]int{"s1": 1, "s2": 0})
	open := w.CreateEnded("b1", controltest.M{"metadata.planId": "other"}, "", map[string]int{"s1": 1})
	page := controltest.Must[reads.PlansPage](t)(w.Plans(t.Context(), viewer, reads.PlansQuery{}))
	var got []string
	for _, p := range page.Plans {
		got = append(got, fmt.Sprintf("%s runs %d, open %d, %d of %d, median %s, work %s, next %s %v", p.PlanID,
			len(p.Runs), p.Open, p.Succeeded, p.Ended, minutes(p.Took.Median), minutes(p.Work.Median), p.Next,
			p.NextRunID == failed || p.NextRunID == open))
	}
	want := []string{
		"other runs 1, open 1, 0 of 0, median -, work -, next WATCH true",
		w.planOf(failed).PlanID + " runs 4, open 0, 2 of 3, median 20m0s, work 20m0s, next RERUN true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plans (-want +got):\n%s", diff)
	}
	if page := controltest.Must[reads.PlansPage](t)(w.Plans(t.Context(), w.ForeignPrincipal(),
		reads.PlansQuery{})); len(page.Plans) > 0 {
		t.Errorf("another tenant sees %d plans, want none", len(page.Plans))
	}
	first := controltest.Must[reads.PlansPage](t)(w.Plans(t.Context(), viewer, reads.PlansQuery{First: 1}))
	second := controltest.Must[reads.PlansPage](t)(w.Plans(t.Context(), viewer,
		reads.PlansQuery{First: 1, After: first.Cursors[0]}))
	if !first.HasNext || second.HasNext || len(second.Plans) != 1 || second.Plans[0].PlanID == "other" {
		t.Errorf("pages of one plan: %+v and %+v, want one plan each", first, second)
	}
	controltest.Refusal(t, controltest.ErrorOf(w.Plans(t.Context(), viewer, reads.PlansQuery{After: "nonsense"})),
		run.CodeCursorInvalid)
	controltest.Refusal(t, controltest.ErrorOf(w.Plans(t.Context(), viewer, reads.PlansQuery{First: 51})),
		run.CodeBadInput)
}

// The most urgent open run decides what is next, also when newer runs are green; nobody is sent to what they may not
// do.
func TestPlans_NextIsTheMostUrgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	waits := w.CreateEnded("w1", nil, "", map[string]int{"s1": 1})
	deadline := time.Now().Add(time.Hour)
	w.BeginStep(waits, "s2", 1)
	w.AppendEvents(waits, runtest.Draft(run.StepFailedEvent, "s2", 1, runtest.M{"retryDeadline": deadline}))
	w.CreateEnded("w2", nil, run.RunCompleted, map[string]int{"s1": 1})
	next := func(who string) reads.PlanNext {
		page := controltest.Must[reads.PlansPage](t)(w.Plans(t.Context(), w.Principal(who), reads.PlansQuery{}))
		if page.Plans[0].NextRunID != waits {
			return ""
		}
		return page.Plans[0].Next
	}
	controltest.Eventually(t, "the retry window in the list",
		func() bool { return next("dev-engineer") == reads.NextRetry })
	if got := next("dev-viewer"); got != reads.NextWatch {
		t.Errorf("next for a Viewer, who may not retry, is %s, want %s", got, reads.NextWatch)
	}
}

// A person who requested a run may not complete its manual step, so the page does not send them there.
func TestPlans_NextIsOnlyWhatThePersonMayDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")))
	w.CreateManual("manual", "m1")
	plan := func(p authz.Principal) reads.PlanSummary {
		return controltest.Must[reads.PlansPage](t)(w.Plans(t.Context(), p, reads.PlansQuery{})).Plans[0]
	}
	controltest.Eventually(t, "the manual step in the list", func() bool {
		return plan(w.Principal("dev-admin")).Next == reads.NextComplete
	})
	requester := authz.Principal{ID: "ola", TenantID: w.Engineer().TenantID} // the one of runtest.Start
	w.ChangePolicy(func(d *authz.Document) {
		d.Grants = append(d.Grants, authz.PrincipalGrant{Principal: requester.ID, Role: authz.Admin, ProjectID: "*",
			EnvironmentID: "*"})
	})
	if got := plan(requester); got.Next != reads.NextWatch || got.Open != 1 || got.Waiting != 1 {
		t.Errorf("for the person who requested the run: next %s, %d open, %d waiting; want %s, 1 and 1", got.Next,
			got.Open, got.Waiting, reads.NextWatch)
	}
}

// One person approves once: afterwards the run waits for others, and the page says so.
func TestPlans_NextIsNoSecondApproval(t *testing.T) {
	t.Parallel()
	w := &world{controltest.NewWithApprovals(t, 2)}
	id := w.CreateQueued("a1", "s1")
	next := func(who string) reads.PlanNext {
		return controltest.Must[reads.PlansPage](t)(w.Plans(t.Context(), w.Principal(who), reads.PlansQuery{})).Plans[0].Next
	}
	controltest.Eventually(t, "the approval in the list", func() bool { return next("dev-planner") == reads.NextApprove })
	if _, err := w.ApproveRun(t.Context(), w.Principal("dev-planner"), controltest.ApprovalOf(id, "p1")); err != nil {
		t.Fatal(err)
	}
	if got := next("dev-planner"); got != reads.NextWatch {
		t.Errorf("next for a person who has approved is %s, want %s", got, reads.NextWatch)
	}
	if got := next("dev-admin"); got != reads.NextApprove {
		t.Errorf("next for another person is %s, want %s", got, reads.NextApprove)
	}
	history := controltest.Must[reads.PlanHistory](t)(w.Plan(t.Context(), w.Principal("dev-planner"), w.planOf(id), 20))
	if history.Next != reads.NextWatch {
		t.Errorf("next on the page of the plan is %s, want %s", history.Next, reads.NextWatch)
	}
}

func TestPlan_ShowsVersionsPeopleAndAGrid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	viewer := w.Principal("dev-viewer")
	w.CreateEnded("v1", nil, run.RunCompleted, map[string]int{"s1": 10, "s2": 5})
	w.CreateEnded("v2", nil, run.RunFailed, map[string]int{"s1": 12, "s2": 0})
	newest := w.CreateEnded("v3", controltest.M{"metadata.planVersion": "2.0"}, run.RunCompleted, map[string]int{"s1": 11})
	k := w.planOf(newest)
	h := controltest.Must[reads.PlanHistory](t)(w.Plan(t.Context(), viewer, k, 20))
	var versions []string
	for _, v := range h.Versions {
		versions = append(versions, fmt.Sprintf("%s ×%d", v.PlanVersion, v.Runs))
	}
	if diff := cmp.Diff([]string{"2.0 ×1", "1.0 ×2"}, versions); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if h.Versions[1].FirstUsedAt.After(h.Versions[1].LastUsedAt) || h.Versions[1].LastRunID == newest {
		t.Errorf("version 1.0 is %+v, want its own first and last run", h.Versions[1])
	}
	if len(h.Starters) != 1 || h.Starters[0].Principal != w.Engineer().ID || h.Starters[0].Runs != 3 || h.Used != 3 ||
		h.More {
		t.Errorf("starters %+v of %d runs, want %s with 3 of 3", h.Starters, h.Used, w.Engineer().ID)
	}
	var rows []string
	for _, s := range h.Grid.Steps {
		row := s.StepID
		for _, c := range s.Cells {
			row += fmt.Sprintf(" %s/%s/%d", c.Status, minutes(c.Duration), c.Attempts)
		}
		rows = append(rows, row)
	}
	want := []string{"s1 SUCCESS/11m0s/1 SUCCESS/12m0s/1 SUCCESS/10m0s/1",
		"s2 PENDING/-/0 FAILED/0s/1 SUCCESS/5m0s/1"}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("grid (-want +got):\n%s", diff)
	}
	if one := controltest.Must[reads.PlanHistory](t)(w.Plan(t.Context(), viewer, k, 1)); len(one.Grid.Runs) != 1 ||
		one.Grid.Runs[0].RunID != newest {
		t.Errorf("a grid of one run has %+v, want the newest run", one.Grid.Runs)
	}
	controltest.Refusal(t, controltest.ErrorOf(w.Plan(t.Context(), w.ForeignPrincipal(), k, 1)), run.CodeNotFound)
	elsewhere := k
	elsewhere.EnvironmentID = "none"
	controltest.Refusal(t, controltest.ErrorOf(w.Plan(t.Context(), viewer, elsewhere, 1)), run.CodeNotFound)
	controltest.Refusal(t, controltest.ErrorOf(w.Plan(t.Context(), viewer, k, 51)), run.CodeBadInput)
}

func TestPlanStep_CountsFailuresAndRetries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	viewer := w.Principal("dev-viewer")
	green := w.CreateEnded("h1", nil, run.RunCompleted, map[string]int{"s1": 10})
	flaky := w.CreateEnded("h2", nil, "", map[string]int{"s1": 0})
	w.BeginStep(flaky, "s1", 2)
	w.Clock.Advance(20 * time.Minute)
	w.AppendEvents(flaky, runtest.Draft(run.StepCompletedEvent, "s1", 2))
	failed := w.CreateEnded("h3", nil, run.RunFailed, map[string]int{"s1": 0})
	k := w.planOf(green)
	h := controltest.Must[reads.StepHistory](t)(w.PlanStep(t.Context(), viewer, k, "s1", 30))
	got := fmt.Sprintf("runs %d, ran %d, succeeded %d, flaky %d, median %s, attempts %d", h.Runs, h.Ran, h.Succeeded,
		h.Flaky,
		minutes(h.Median), len(h.Attempts))
	if want := "runs 3, ran 3, succeeded 2, flaky 1, median 15m0s, attempts 4"; got != want {
		t.Errorf("history: %s; want %s", got, want)
	}
	if len(h.Failures) != 1 || h.Failures[0].Count != 2 || h.Failures[0].Last.RunID != failed ||
		h.LastGreen == nil || h.LastGreen.RunID != flaky || h.LastGreen.LogicalAttempt != 2 {
		t.Errorf("failures %+v, last green %+v; want one code twice, last in %s, and %s/2", h.Failures, h.LastGreen, failed,
			flaky)
	}
	state := w.StateOf(flaky)
	i := slices.IndexFunc(h.Attempts, func(a reads.PastAttempt) bool { return a.RunID == flaky })
	if diff := cmp.Diff(state.Steps[0].Attempts[1], h.Attempts[i].Attempt); diff != "" {
		t.Errorf("the newest attempt of the retried run differs from that of its state (-state +history):\n%s", diff)
	}
	controltest.Refusal(t, controltest.ErrorOf(w.PlanStep(t.Context(), w.ForeignPrincipal(), k, "s1", 30)),
		run.CodeNotFound)
	controltest.Refusal(t, controltest.ErrorOf(w.PlanStep(t.Context(), viewer, k, "none", 30)), run.CodeNotFound)
}

// Within a tenant, plans of a project and environment that a principal may not read are absent.
// contract: T101
func TestPlans_RightsHideOtherScopes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dev := w.CreateEnded("r1", nil, run.RunCompleted, map[string]int{"s1": 1})
	prod := w.CreateEnded("r2", controltest.M{"scope.environmentId": "prod"}, run.RunCompleted, map[string]int{"s1": 1})
	k, hidden := w.planOf(dev), w.planOf(prod)
	p := w.GrantTo("nobody", controltest.ViewerOf(k.ProjectID, k.EnvironmentID))
	page := controltest.Must[reads.PlansPage](t)(w.Plans(t.Context(), p, reads.PlansQuery{}))
	if len(page.Plans) != 1 || page.Plans[0].PlanKey != k {
		t.Errorf("plans: %+v, want only %+v", page.Plans, k)
	}
	controltest.Must[reads.PlanHistory](t)(w.Plan(t.Context(), p, k, 1))
	controltest.Must[reads.StepHistory](t)(w.PlanStep(t.Context(), p, k, "s1", 1))
	controltest.Refusal(t, controltest.ErrorOf(w.Plan(t.Context(), p, hidden, 1)), run.CodeNotFound)
	controltest.Refusal(t, controltest.ErrorOf(w.PlanStep(t.Context(), p, hidden, "s1", 1)), run.CodeNotFound)
	controltest.Refusal(t, controltest.ErrorOf(w.CompareRuns(t.Context(), p, dev, prod)), run.CodeNotFound)
}

func TestCompareRuns_NamesEachDifference(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	viewer := w.Principal("dev-viewer")
	a := w.CreateEnded("c1", nil, run.RunCompleted, map[string]int{"s1": 10, "s2": 5})
	b := w.CreateEnded("c2", controltest.M{"metadata.planVersion": "2.0"}, run.RunFailed,
		map[string]int{"s1": 20, "s2": 0})
	c := controltest.Must[reads.RunComparison](t)(w.CompareRuns(t.Context(), viewer, a, b))
	if diff := cmp.Diff("s1 SLOWER; s2 STATUS ERROR FASTER", changesOf(c)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	same := controltest.Must[reads.RunComparison](t)(w.CompareRuns(t.Context(), viewer, a, a))
	if got := changesOf(same); got != "s1; s2" {
		t.Errorf("changes of a run to itself: %s; want none", got)
	}
	d := controltest.Must[*reads.PlanDiff](t)(w.ComparePlans(t.Context(), viewer, c.A.State.Header, c.B.State.Header))
	if d == nil || d.Previous.RunID != a || len(d.Parts) != 1 || d.Parts[0].Path != "metadata.planVersion" {
		t.Errorf("difference of the plans: %+v, want the version", d)
	}
	controltest.Refusal(t, controltest.ErrorOf(w.CompareRuns(t.Context(), viewer, a, "none")), run.CodeNotFound)
	controltest.Refusal(t, controltest.ErrorOf(w.CompareRuns(t.Context(), w.ForeignPrincipal(), a, b)), run.CodeNotFound)
}

// A run that fails, waits eight minutes for a retry and then runs for two waited eight minutes for people.
func TestCompareRuns_SaysHowLongARunWaitedForPeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	viewer := w.Principal("dev-viewer")
	green := w.CreateEnded("c1", nil, run.RunCompleted, map[string]int{"s1": 10, "s2": 5})
	retried := w.CreateEnded("c2", nil, "", map[string]int{"s1": 0})
	w.Clock.Advance(8 * time.Minute)
	w.BeginStep(retried, "s1", 2)
	w.Clock.Advance(2 * time.Minute)
	w.AppendEvents(retried, runtest.Draft(run.StepCompletedEvent, "s1", 2))
	w.Clock.Advance(time.Hour)
	c := controltest.Must[reads.RunComparison](t)(w.CompareRuns(t.Context(), viewer, green, retried))
	if got := minutes(&c.WaitedA) + " " + minutes(&c.WaitedB); got != "0s 8m0s" {
		t.Errorf("waited for people: %s; want nothing and 8 minutes", got)
	}
}

func changesOf(c reads.RunComparison) string {
	var out []string
	for _, s := range c.Steps {
		line := s.StepID
		for _, change := range s.Changes {
			line += " " + string(change)
		}
		out = append(out, line)
	}
	return strings.Join(out, "; ")
}
