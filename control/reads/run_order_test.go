package reads_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// A cursor names its order. A list in another order would continue at a place that means nothing there.
func TestRuns_CursorsCarryTheOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.CreateQueued("ordered", "s1")
	viewer := w.Principal("dev-viewer")
	plain := controltest.Must[control.RunsPage](t)(w.Runs(t.Context(), viewer, control.RunsQuery{})).Cursors[0]
	orders := []control.RunSort{store.SortEnded, store.SortDuration, store.SortTimeLeft}
	for _, by := range orders {
		pos := store.RunPos{CreatedAt: time.UnixMicro(1_700_000_000_000_001).UTC(), Took: 12 * time.Second, RunID: "a b"}
		c := control.EncodeSortedCursor(by, pos)
		got, err := control.DecodeSortedCursor(by, c)
		if err != nil {
			t.Fatalf("decode the cursor of %s: %v", by, err)
		}
		if diff := cmp.Diff(&pos, got); diff != "" {
			t.Errorf("the position of %s (-want +got):\n%s", by, diff)
		}
		for _, other := range append(orders, "") {
			if other == by {
				continue
			}
			_, err := w.Runs(t.Context(), viewer, control.RunsQuery{After: c,
				Filter: control.RunFilter{Sort: other, PlanID: "p"}})
			controltest.Refusal(t, err, run.CodeCursorInvalid)
		}
		_, err = w.Runs(t.Context(), viewer, control.RunsQuery{After: plain,
			Filter: control.RunFilter{Sort: by, PlanID: "p"}})
		controltest.Refusal(t, err, run.CodeCursorInvalid)
	}
}

// An order that no index serves for the filter is refused with the field that is in its way.
func TestRuns_RefusesAnOrderThatReadsAllRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for path, f := range map[string]control.RunFilter{
		"filter.planId":      {Sort: store.SortDuration},
		"filter.text":        {Sort: store.SortEnded, Text: "x"},
		"filter.triggeredBy": {Sort: store.SortEnded, TriggeredBy: control.Me},
		"filter.tag":         {Sort: store.SortTimeLeft, Tag: "x"},
	} {
		_, err := w.Runs(t.Context(), w.Principal("dev-viewer"), control.RunsQuery{Filter: f})
		if e := controltest.Refusal(t, err, run.CodeBadInput); len(e.Violations) != 1 || e.Violations[0].Path != path {
			t.Errorf("%+v: the violations are %+v, want one of %s", f, e.Violations, path)
		}
	}
}
