package control_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// failed makes a run whose step s1 failed and whose retry window is open for d.
func (w *world) failed(requestID string, d time.Duration, steps ...string) string {
	w.t.Helper()
	id := w.queued(requestID, steps...)
	w.handOver()
	w.append(id, runtest.Start(steps...))
	w.begin(id, "s1", 1)
	draft := runtest.Draft(run.StepFailedEvent, "s1", 1)
	draft.EmittedAt = w.clock.now()
	must[store.Appended](w.t)(w.store.Append(w.t.Context(), store.Append{RunID: id, Events: []run.Draft{draft},
		SetGate: run.GateFailing, RetryDeadline: w.clock.now().Add(d)}))
	return id
}

// attention returns the items as "KIND run/step actions".
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
	w.t.Helper()
	return formatAttention(must[watch.AttentionPage](w.t)(w.Attention(w.t.Context(), p, 0, "")).Items)
}

func (w *world) awaitAttention(p authz.Principal, n int) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%d items that need attention", n), func() bool {
		return must[int](w.t)(w.AttentionCount(w.t.Context(), p)) == n
	})
}

func TestAttention_OrdersByTimeLeftAndLoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t, manualKeys(t, "k1:"+secret("a")))
	for i := range 6 { // each takes a minute
		w.ended(fmt.Sprintf("past-%d", i), nil, run.RunCompleted, map[string]int{"s1": 1, "s2": 1})
	}
	late := w.running("late", "s1", "s2")
	w.clock.advance(30 * time.Minute)
	long := w.failed("long", time.Hour, "s1", "s2<", "s3<")
	soon := w.failed("soon", time.Minute, "s1", "s2<")
	task := w.manual("task", "m1")
	w.awaitAttention(w.eng(), 4)
	want := []string{
		"FAILED_WAITING " + soon + "/s1 RETRY_STEP SKIP_STEP CANCEL", "FAILED_WAITING " + long +
			"/s1 RETRY_STEP SKIP_STEP CANCEL",
		"LATE " + late + "/ PAUSE CANCEL", "MANUAL_TASK " + task + "/m1", // another person must complete it
	}
	got := w.attention(w.eng())
	if strings.HasPrefix(got[2], "MANUAL") { // neither has a deadline
		got[2], got[3] = got[3], got[2]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attention of the engineer (-want +got):\n%s", diff)
	}
	for _, line := range w.attention(w.who("dev-viewer")) {
		if strings.Count(line, " ") != 1 {
			t.Errorf("the viewer sees %q, want no action", line)
		}
	}
	if got := w.attention(w.foreign()); got != nil {
		t.Errorf("another tenant sees %v, want nothing", got)
	}
	if got := w.attention(w.grant("dev-operator", viewerOf("lab", "*"))); got != nil {
		t.Errorf("a viewer of another project sees %v, want nothing", got)
	}
}

func TestAttention_PagesAndNamesTheCause(t *testing.T) {
	t.Parallel()
	w := newWorld(t, manualKeys(t, "k1:"+secret("a")))
	first, second := w.failed("a", time.Minute, "s1", "s2<", "s3<"), w.failed("b", time.Hour, "s1")
	w.awaitAttention(w.eng(), 2)
	page := must[watch.AttentionPage](t)(w.Attention(t.Context(), w.eng(), 1, ""))
	if len(page.Items) != 1 || page.Items[0].RunID != first || !page.HasNext || page.Count != 2 {
		t.Fatalf("the first page is %+v, want one of two items", page)
	}
	item := page.Items[0]
	if item.Deadline == nil || item.Code == "" || item.HeldSteps != 2 || item.FailedSteps != 1 || item.PlanID != "plan-3" {
		t.Errorf("the item is %+v, want a deadline, the error's code, 2 held steps, 1 failed step and the plan", item)
	}
	next := must[watch.AttentionPage](t)(w.Attention(t.Context(), w.eng(), 1, page.Cursors[0]))
	if len(next.Items) != 1 || next.Items[0].RunID != second || next.HasNext {
		t.Errorf("the second page is %+v, want the last item", next)
	}
	_, err := w.Attention(t.Context(), w.eng(), 1, "none")
	refusal(t, err, run.CodeCursorInvalid)
	_, err = w.Attention(t.Context(), w.eng(), 201, "")
	refusal(t, err, run.CodeBadInput)
}

func TestAttention_AnApprovalSaysHowManyAreThereAndWhen(t *testing.T) {
	t.Parallel()
	w := staffed(t)
	id := w.ask(w.eng(), "asked")
	page := must[watch.AttentionPage](t)(w.Attention(t.Context(), w.who("dev-admin"), 0, ""))
	if len(page.Items) != 1 {
		t.Fatalf("the items are %+v, want the approval", page.Items)
	}
	item := page.Items[0]
	if item.Kind != watch.NeedsApproval || item.RunID != id || item.Required != 2 || item.Approvals != 0 ||
		item.Deadline == nil || item.PlanID != "plan-3" || len(item.Actions) != 1 {
		t.Errorf("the item is %+v, want 0 of 2 approvals, a deadline and the action APPROVE", item)
	}
	if got, want := w.attention(w.eng()), []string{"APPROVAL " + id + "/"}; cmp.Diff(want, got) != "" {
		t.Errorf("the requester sees %v, want %v", got, want)
	}
}

func TestWatchAttention_SendsEachChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, manualKeys(t, "k1:"+secret("a")))
	s := open[watch.AttentionFrame](t)(w.WatchAttention(t.Context(), w.eng(), 10))
	f := take(t, s, "the first frame", func(f watch.AttentionFrame) bool { return f.Count != nil })
	if f.Items == nil || len(f.Items) != 0 || *f.Count != 0 || f.Sync != live.Live {
		t.Fatalf("the first frame is %+v, want LIVE, an empty list and the count 0", f)
	}
	id := w.failed("a", time.Hour, "s1", "s2<")
	f = take(t, s, "the failed run", func(f watch.AttentionFrame) bool { return len(f.Items) == 1 })
	if f.Items[0].RunID != id || *f.Count != 1 {
		t.Errorf("the frame is %+v, want the run %s and the count 1", f, id)
	}
	w.append(id, runtest.Draft(run.RunFailed, "", 1))
	take(t, s, "the end of the run", func(f watch.AttentionFrame) bool { return f.Items != nil && len(f.Items) == 0 })
	_, err := w.WatchAttention(t.Context(), w.grant("dev-operator"), 10)
	refusal(t, err, run.CodeForbidden)
}

func TestCountRuns_StopsAtTheLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.failed("a", time.Hour, "s1", "s2<")
	w.queued("b", "s1")
	both := control.RunFilter{Statuses: []run.Status{run.Failed}, AwaitingOperator: true}
	eventually(t, "the projection", func() bool {
		got := must[[]int](t)(w.CountRuns(t.Context(), w.eng(), []control.RunFilter{{}, both, {PlanID: "none"}}))
		return cmp.Equal([]int{2, 1, 0}, got)
	})
	if got := must[[]int](t)(w.CountRuns(t.Context(), w.foreign(), []control.RunFilter{{}})); got[0] != 0 {
		t.Errorf("another tenant counts %d runs, want 0", got[0])
	}
	_, err := w.CountRuns(t.Context(), w.eng(), make([]control.RunFilter, 25))
	refusal(t, err, run.CodeBadInput)
}
