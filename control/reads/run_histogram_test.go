package reads_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/run"
)

// The histogram counts only the runs that lists show to the viewer.
func TestRunHistogram_CountsWhatTheViewerMayRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	from := w.Clock.Now().Add(-30 * time.Minute)
	w.CreateEnded("h1", nil, run.RunCompleted, nil)
	w.Clock.Advance(time.Hour)
	w.CreateEnded("h2", nil, run.RunFailed, nil)
	w.CreateEnded("h3", controltest.M{"scope.environmentId": "prod"}, run.RunCompleted, nil)
	w.CreateEnded("h4", controltest.M{"scope.projectId": "bank"}, run.RunCompleted, nil)
	in := reads.RunHistogram{From: from, To: from.Add(3 * time.Hour), Buckets: 3}
	for who, want := range map[string][]reads.RunCount{
		"dev-viewer": {{Total: 1}, {Total: 3, Failed: 1}, {}}, "shop-viewer": {{Total: 1}, {Total: 2, Failed: 1}, {}},
		"env-viewer": {{Total: 1}, {Total: 2, Failed: 1}, {}}, "nobody": {{}, {}, {}},
	} {
		if diff := cmp.Diff(want, controltest.Must[[]reads.RunCount](t)(w.RunHistogram(t.Context(), w.Principal(who),
			in))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", who, diff)
		}
	}
	if got := controltest.Must[[]reads.RunCount](t)(w.RunHistogram(t.Context(), w.ForeignPrincipal(), in)); cmp.Diff(
		make([]reads.RunCount, 3), got) != "" {
		t.Errorf("another tenant gets %v, want zeros", got)
	}
	in.Filter.PlanID = "none"
	if got := controltest.Must[[]reads.RunCount](t)(w.RunHistogram(t.Context(), w.Engineer(), in)); got[1].Total != 0 {
		t.Errorf("the histogram of an unknown plan is %v, want zeros", got)
	}
	for _, bad := range []reads.RunHistogram{{From: from, To: from, Buckets: 1}, {From: from,
		To: from.Add(32 * 24 * time.Hour), Buckets: 1}, {From: from, To: in.To}, {From: from, To: in.To, Buckets: 201}} {
		_, err := w.RunHistogram(t.Context(), w.Engineer(), bad)
		controltest.Refusal(t, err, run.CodeBadInput)
	}
}
