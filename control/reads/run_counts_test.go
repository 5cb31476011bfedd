package reads_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/run"
)

func TestCountRuns_StopsAtTheLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.CreateRetryable("a", time.Hour, "s1", "s2<")
	w.CreateQueued("b", "s1")
	both := control.RunFilter{Statuses: []run.Status{run.Failed}, AwaitingOperator: true}
	controltest.Eventually(t, "the projection", func() bool {
		got := controltest.Must[[]int](t)(w.CountRuns(t.Context(), w.Engineer(),
			[]control.RunFilter{{}, both, {PlanID: "none"}}))
		return cmp.Equal([]int{2, 1, 0}, got)
	})
	if got := controltest.Must[[]int](t)(w.CountRuns(t.Context(), w.ForeignPrincipal(),
		[]control.RunFilter{{}})); got[0] != 0 {
		t.Errorf("another tenant counts %d runs, want 0", got[0])
	}
	_, err := w.CountRuns(t.Context(), w.Engineer(), make([]control.RunFilter, 25))
	controltest.Refusal(t, err, run.CodeBadInput)
}
