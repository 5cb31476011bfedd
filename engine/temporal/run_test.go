package temporal_test

import (
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
)

var quietLog = slog.New(slog.DiscardHandler)

func TestRun_A01_HappyLinear(t *testing.T) {
	h := newHarness(t, options{})
	id := h.start(document(0, step{id: "s1"}, step{id: "s2", deps: "s1"}, step{id: "s3", deps: "s2"}))
	st := h.ended(id)
	want := []string{
		"RunApproved", "RunStarted", "StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s2,1)", "StepCompleted(s2,1)",
		"StepStarted(s3,1)", "StepCompleted(s3,1)", "RunCompleted",
	}
	if d := cmp.Diff(want, h.log(id)); d != "" {
		t.Fatal(d)
	}
	if st.Status != run.Completed || st.Seq != 9 || len(st.Steps) != 3 || st.Counts.Success != 3 {
		t.Fatalf("state %+v", st.Header)
	}
}
