package watch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// formatAttention returns the items as "KIND run/step actions".
func formatAttention(items []watch.AttentionItem) (out []string) {
	for _, i := range items {
		line := fmt.Sprintf("%s %s/%s", i.Kind, i.RunID, i.StepID)
		for _, a := range i.Actions {
			line += " " + string(a)
		}
		out = append(out, line)
	}
	return out
}

func (w *world) attention(p authz.Principal) []string {
	w.T.Helper()
	return formatAttention(controltest.Must[watch.AttentionPage](w.T)(w.Attention(w.T.Context(), p, 0, "")).Items)
}

func (w *world) awaitAttention(p authz.Principal, n int) {
	w.T.Helper()
	controltest.Eventually(w.T, fmt.Sprintf("%d items that need attention", n), func() bool {
		return controltest.Must[int](w.T)(w.AttentionCount(w.T.Context(), p)) == n
	})
}

// createLate makes a run that is late, and returns when it is shown.
func (w *world) createLate() string {
	w.T.Helper()
	for i := range 6 { // each takes two minutes
		w.CreateEnded(fmt.Sprintf("past-%d", i), nil, run.RunCompleted, map[string]int{"s1": 1, "s2": 1})
	}
	id := w.CreateRunning("late", "s1", "s2")
	controltest.Eventually(w.T, "the late run "+id, func() bool {
		w.Clock.Advance(30 * time.Minute) // past what is remembered of a time when the projector had not seen all
		return cmp.Equal(w.attention(w.Engineer()), []string{"LATE " + id + "/ PAUSE CANCEL"})
	})
	return id
}

func TestAttention_OrdersByTimeLeftAndLoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")))
	late := w.createLate()
	long := w.CreateRetryable("long", time.Hour, "s1", "s2<", "s3<")
	soon := w.CreateRetryable("soon", time.Minute, "s1", "s2<")
	task := w.CreateManual("task", "m1")
	want := []string{
		"FAILED_WAITING " + soon + "/s1 RETRY_STEP SKIP_STEP CANCEL", "FAILED_WAITING " + long +
			"/s1 RETRY_STEP SKIP_STEP CANCEL",
		"LATE " + late + "/ PAUSE CANCEL", "MANUAL_TASK " + task + "/m1", // another person must complete it
	}
	var got []string
	controltest.Eventually(t, "four items with the task of "+task, func() bool {
		got = w.attention(w.Engineer())
		return len(got) == 4 && slices.Contains(got, want[3])
	})
	slices.Sort(got[2:]) // neither has a deadline
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attention of the engineer (-want +got):\n%s", diff)
	}
	page := controltest.Must[watch.AttentionPage](t)(w.Attention(t.Context(), w.Engineer(), 0, ""))
	at := slices.IndexFunc(page.Items, func(item watch.AttentionItem) bool { return item.Kind == watch.NeedsTask })
	if at < 0 || page.Items[at].StepName != "Step m1" {
		t.Errorf("the items are %+v, want the task with the name of its step", page.Items)
	}
	for _, line := range w.attention(w.Principal("dev-viewer")) {
		if strings.Count(line, " ") != 1 {
			t.Errorf("the viewer sees %q, want no action", line)
		}
	}
	if got := w.attention(w.ForeignPrincipal()); got != nil {
		t.Errorf("another tenant sees %v, want nothing", got)
	}
	if got := w.attention(w.GrantTo("dev-operator", controltest.ViewerOf("lab", "*"))); got != nil {
		t.Errorf("a viewer of another project sees %v, want nothing", got)
	}
}

// The search for late runs is older than the rest of the page.
func TestAttention_ALateRunThatWaitsForAPersonIsOneItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")))
	id := w.createLate()
	w.WaitForPerson(id, "s1", 1)
	var got []string
	controltest.Eventually(t, "the task of "+id, func() bool {
		got = w.attention(w.Engineer())
		return slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, "MANUAL_TASK ") })
	})
	if len(got) != 1 {
		t.Errorf("the items are %v, want the task alone", got)
	}
}

func TestAttention_PagesAndNamesTheCause(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")))
	first, second := w.CreateRetryable("a", time.Minute, "s1", "s2<", "s3<"), w.CreateRetryable("b", time.Hour, "s1")
	w.awaitAttention(w.Engineer(), 2)
	page := controltest.Must[watch.AttentionPage](t)(w.Attention(t.Context(), w.Engineer(), 1, ""))
	if len(page.Items) != 1 || page.Items[0].RunID != first || !page.HasNext || page.Count != 2 {
		t.Fatalf("the first page is %+v, want one of two items", page)
	}
	item := page.Items[0]
	if item.Deadline == nil || item.Code == "" || item.HeldSteps != 2 || item.FailedSteps != 1 || item.PlanID != "plan-3" {
		t.Errorf("the item is %+v, want a deadline, the error's code, 2 held steps, 1 failed step and the plan", item)
	}
	next := controltest.Must[watch.AttentionPage](t)(w.Attention(t.Context(), w.Engineer(), 1, page.Cursors[0]))
	if len(next.Items) != 1 || next.Items[0].RunID != second || next.HasNext {
		t.Errorf("the second page is %+v, want the last item", next)
	}
	_, err := w.Attention(t.Context(), w.Engineer(), 1, "none")
	controltest.Refusal(t, err, run.CodeCursorInvalid)
	_, err = w.Attention(t.Context(), w.Engineer(), 201, "")
	controltest.Refusal(t, err, run.CodeBadInput)
}

// contract: T101
func TestAttention_NamesWhomTheViewerCouldAsk(t *testing.T) {
	t.Parallel()
	w := staffed(t)
	w.ask(w.Engineer(), "asked")
	whoCould := func(p authz.Principal) []string {
		page := controltest.Must[watch.AttentionPage](t)(w.Attention(t.Context(), p, 0, ""))
		if len(page.Items) != 1 {
			t.Fatalf("the items are %+v, want the approval", page.Items)
		}
		return page.Items[0].WhoCould
	}
	if diff := cmp.Diff([]string{"dev-admin", "dev-operator", "dev-planner"}, whoCould(w.Engineer())); diff != "" {
		t.Errorf("the requester could ask (-want +got):\n%s", diff)
	}
	if got := whoCould(w.Principal("dev-admin")); len(got) > 0 {
		t.Errorf("somebody who may approve is told to ask %v, want nobody", got)
	}
}

func TestAttention_CountsTheStepsThatNeedTheFailedOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.CreateRetryable("a", time.Hour, "s1", "s2<s1", "s3<s2", "other")
	w.awaitAttention(w.Engineer(), 1)
	page := controltest.Must[watch.AttentionPage](t)(w.Attention(t.Context(), w.Principal("dev-viewer"), 0, ""))
	item := page.Items[0]
	if item.HeldSteps != 3 || item.BlockedSteps != 2 {
		t.Errorf("%d steps wait and %d need the failed one, want 3 and 2", item.HeldSteps, item.BlockedSteps)
	}
	if diff := cmp.Diff([]string{"dev-admin", "dev-engineer"}, item.WhoCould); diff != "" {
		t.Errorf("a viewer could ask for the retry (-want +got):\n%s", diff)
	}
}

func TestAttention_AnApprovalSaysHowManyAreThereAndWhen(t *testing.T) {
	t.Parallel()
	w := staffed(t)
	id := w.ask(w.Engineer(), "asked")
	page := controltest.Must[watch.AttentionPage](t)(w.Attention(t.Context(), w.Principal("dev-admin"), 0, ""))
	if len(page.Items) != 1 {
		t.Fatalf("the items are %+v, want the approval", page.Items)
	}
	item := page.Items[0]
	if item.Kind != watch.NeedsApproval || item.RunID != id || item.Required != 2 || item.Approvals != 0 ||
		item.Deadline == nil || item.PlanID != "plan-3" || len(item.Actions) != 1 {
		t.Errorf("the item is %+v, want 0 of 2 approvals, a deadline and the action APPROVE", item)
	}
	if got, want := w.attention(w.Engineer()), []string{"APPROVAL " + id + "/"}; cmp.Diff(want, got) != "" {
		t.Errorf("the requester sees %v, want %v", got, want)
	}
}

// A run that needs more approvals than people are left cannot start, which everybody reads, also who can give one.
func TestAttention_SaysThatTooFewPeopleCanApprove(t *testing.T) {
	t.Parallel()
	w := staffed(t)
	id := w.ask(w.Engineer(), "asked")
	item := func(who string) watch.AttentionItem {
		return controltest.Must[watch.AttentionPage](t)(w.Attention(t.Context(), w.Principal(who), 0, "")).Items[0]
	}
	if got := item("dev-viewer"); got.Stuck {
		t.Errorf("%v could approve, and the item says that it is stuck", got.WhoCould)
	}
	w.ChangePolicy(func(d *authz.Document) {
		d.Grants = slices.DeleteFunc(d.Grants, func(g authz.PrincipalGrant) bool {
			return g.Role == authz.Planner && (g.Principal == "dev-admin" || g.Principal == "dev-operator")
		})
	})
	for _, who := range []string{"dev-viewer", "dev-planner"} {
		if got := item(who); !got.Stuck {
			t.Errorf("%s reads of %s: %d of %d approvals by %v, want that it is stuck", who, id, got.Approvals, got.Required,
				got.WhoCould)
		}
	}
}

func TestWatchAttention_SendsEachChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")))
	s := controltest.OpenStream[watch.AttentionFrame](t)(w.WatchAttention(t.Context(), w.Engineer(), 10))
	f := controltest.TakeFrame(t, s, "the first frame", func(f watch.AttentionFrame) bool { return f.Count != nil })
	if f.Items == nil || len(f.Items) != 0 || *f.Count != 0 || f.Sync != live.Live {
		t.Fatalf("the first frame is %+v, want LIVE, an empty list and the count 0", f)
	}
	id := w.CreateRetryable("a", time.Hour, "s1", "s2<")
	f = controltest.TakeFrame(t, s, "the failed run", func(f watch.AttentionFrame) bool { return len(f.Items) == 1 })
	if f.Items[0].RunID != id || *f.Count != 1 {
		t.Errorf("the frame is %+v, want the run %s and the count 1", f, id)
	}
	w.AppendEvents(id, runtest.Draft(run.RunFailed, "", 1))
	controltest.TakeFrame(t, s, "the end of the run",
		func(f watch.AttentionFrame) bool { return f.Items != nil && len(f.Items) == 0 })
	_, err := w.WatchAttention(t.Context(), w.GrantTo("dev-operator"), 10)
	controltest.Refusal(t, err, run.CodeForbidden)
}
