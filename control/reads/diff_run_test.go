package reads_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/run"
)

// The difference of two positions is what the log contains between them.
func TestDiffRun_HasTheChangesBetweenTwoPositions(t *testing.T) {
	w := newWorld(t)
	id := w.CreateRunning("diff", "a", "b", "c<a") // seq 1 RunApproved, 2 RunStarted
	w.FinishStep(id, "a", 1, run.StepCompletedEvent)
	w.BeginStep(id, "b", 1) // seq 5
	pause := w.Send(w.Engineer(), controltest.SignalOf(id, "p1", run.Pause))
	show := func(a, b run.Seq) (out []string) {
		t.Helper()
		d := controltest.Must[reads.RunDiff](t)(w.DiffRun(t.Context(), w.Principal("dev-viewer"), id, a, b))
		if d.From.State.Seq != a || d.To.State.Seq != b {
			t.Errorf("asked for %d to %d, got %d to %d", a, b, d.From.State.Seq, d.To.State.Seq)
		}
		for _, s := range d.Steps {
			from := "-"
			if s.From != nil {
				from = string(s.From.Status)
			}
			out = append(out, s.To.StepID+" "+from+" "+string(s.To.Status))
		}
		for _, e := range d.Decisions {
			out = append(out, string(e.Type))
		}
		return out
	}
	for _, c := range []struct {
		a, b run.Seq
		want []string
	}{
		{1, 2, []string{"a - PENDING", "b - PENDING", "c - PENDING", "RunStarted"}},
		{2, 4, []string{"a PENDING SUCCESS"}},
		{3, pause.AcceptedSeq, []string{"a RUNNING SUCCESS", "b PENDING RUNNING", "SignalAccepted"}},
		{4, 4, nil},
	} {
		if diff := cmp.Diff(c.want, show(c.a, c.b)); diff != "" {
			t.Errorf("%d to %d (-want +got):\n%s", c.a, c.b, diff)
		}
	}
	_, err := w.DiffRun(t.Context(), w.Engineer(), id, 4, 3)
	controltest.Refusal(t, err, run.CodeBadInput)
	_, err = w.DiffRun(t.Context(), w.Engineer(), id, 1, 4000)
	controltest.Refusal(t, err, run.CodeBadInput)
	_, err = w.DiffRun(t.Context(), w.Principal("dev-mallory"), id, 1, 2)
	if e := controltest.Refusal(t, err, run.CodeNotFound); strings.Contains(e.Message, "shop") {
		t.Errorf("the refusal for another tenant says %q, want no scope in it", e.Message)
	}
}
