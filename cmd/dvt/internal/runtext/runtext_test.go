package runtext_test

import (
	"slices"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/run"
)

func TestCompareIDs_OrdersNumbersAsPeopleCount(t *testing.T) {
	t.Parallel()
	want := []string{"", "extract", "model", "model_1", "model_2", "model_02", "model_10", "model_11", "model_11b"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, runtext.CompareIDs)
	if !slices.Equal(got, want) {
		t.Errorf("the order is %q, want %q", got, want)
	}
}

func TestSkipReason_HasWordsForEachCode(t *testing.T) {
	t.Parallel()
	for _, code := range []run.SkipReason{
		run.FailFast, run.DependencyFailed, run.DependencySkipped, run.ConditionFalse, run.OperatorSkip,
	} {
		if words := runtext.SkipReason(string(code)); words == string(code) {
			t.Errorf("the code %s has no words", code)
		}
	}
	if words := runtext.SkipReason("OF_A_LATER_SERVER"); words != "OF_A_LATER_SERVER" {
		t.Errorf("an unknown code reads %q, want the code itself", words)
	}
}

func TestMilliseconds_RoundsLongTimesToSeconds(t *testing.T) {
	t.Parallel()
	for ms, want := range map[float64]string{46: "46ms", 1793: "1.793s", 59_999: "59.999s", 1_203_225: "20m3s"} {
		if got := runtext.Milliseconds(ms); got != want {
			t.Errorf("%v ms read %q, want %q", ms, got, want)
		}
	}
}

// The words follow the lateness that the server computed, not the clock of this machine.
func TestEnd_SaysTheLatenessOfTheServer(t *testing.T) {
	t.Parallel()
	due := time.Now().Add(time.Hour)
	when := func(*time.Time) string { return "at six" }
	for late, want := range map[client.RunLateness]string{
		client.RunLatenessDue: "due at six", client.RunLatenessLate: "was due at six",
		client.RunLatenessMet: "ended in time, due at six", client.RunLatenessMissed: "was due at six",
	} {
		of := &client.ShowRunRun{Late: &late}
		of.Deadline = &due
		if got := runtext.End(of, when); got != want {
			t.Errorf("the end of a run that is %s reads %q, want %q", late, got, want)
		}
	}
}

func TestCancelledBy_CallsAnEmergencyStopByItsName(t *testing.T) {
	t.Parallel()
	who, why, stop := "ana", "wrong cluster", client.SignalTypeEmergencyStop
	got := runtext.CancelledBy(&client.RunRowCancellation{SignalType: &stop, Actor: &who, Reason: &why})
	if want := "stopped by an emergency stop of ana: wrong cluster"; got != want {
		t.Errorf("the end is called %q, want %q", got, want)
	}
	if got := runtext.CancelledBy(&client.RunRowCancellation{Actor: &who}); got != "cancelled by ana" {
		t.Errorf("a cancellation is called %q, want it cancelled by ana", got)
	}
}
