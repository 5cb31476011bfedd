package watch_test

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/run"
)

// Regression: a time that JSON cannot represent ended the process.
func TestAdmitRuns_ATimeThatJSONCannotWriteIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, year := range []int{-1, 10_000} {
		at := time.Date(year, 12, 31, 0, 0, 0, 0, time.UTC)
		_, err := w.AdmitRuns(t.Context(), w.Engineer(), control.RunsQuery{Filter: control.RunFilter{CreatedTo: at}})
		controltest.Refusal(t, err, run.CodeBadInput)
		_, err = w.WatchRuns(t.Context(), w.Engineer(), control.RunsQuery{Filter: control.RunFilter{CreatedTo: at}})
		controltest.Refusal(t, err, run.CodeBadInput)
	}
}
