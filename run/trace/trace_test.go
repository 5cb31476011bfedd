package trace_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/run/trace"
)

// outline shows a trace as an indented tree: the name, the seconds since the first event, the status, the code and the
// links. Siblings are in the order of their start.
func outline(spans []trace.Span) string {
	children, names := map[trace.SpanID][]trace.Span{}, map[trace.SpanID]string{}
	for _, s := range spans {
		children[s.Parent] = append(children[s.Parent], s)
		names[s.ID] = s.Name
	}
	var b strings.Builder
	var show func(of trace.SpanID, depth int)
	show = func(of trace.SpanID, depth int) {
		below := children[of]
		slices.SortStableFunc(below, func(x, y trace.Span) int { return x.Start.Compare(y.Start) })
		for _, s := range below {
			fmt.Fprintf(&b, "%s%s [%.0f,%.0f]", strings.Repeat("  ", depth), s.Name, s.Start.Sub(runtest.Epoch).Seconds(),
				s.End.Sub(runtest.Epoch).Seconds())
			for _, key := range []string{"status", "code"} {
				if v := value(s, key); v != "" {
					b.WriteString(" " + v)
				}
			}
			if s.Failed {
				b.WriteString(" !")
			}
			for _, l := range s.Links {
				to := names[l.Span]
				if to == "" {
					to = "another trace"
				}
				fmt.Fprintf(&b, " (%s %s)", l.Relation, to)
			}
			b.WriteByte('\n')
			show(s.ID, depth+1)
		}
	}
	show(trace.SpanID{}, 0)
	return b.String()
}

func TestTrace_ShowsWhereARunSpentItsTime(t *testing.T) {
	t.Parallel()
	signal := func(id string, of run.SignalType) run.Draft {
		return runtest.Draft(run.SignalAccepted, id, 1, runtest.M{"signalType": of})
	}
	by := func(id string) runtest.M { return runtest.M{"signalId": id} }
	spans := trace.Of(runtest.ID, runtest.Epoch.Add(-time.Minute), runtest.Log(
		runtest.Draft(run.RunApproved, "", 1, runtest.M{"approvers": []runtest.M{{"principal": "kim"}},
			"rerun": runtest.M{"runId": "earlier", "from": runtest.M{"start": true}}}),
		runtest.Draft(run.RunQueued, "", 1),
		runtest.Start("a", "b<a", "c<b", "d"), // 3
		runtest.Draft(run.StepStartedEvent, "a", 1),
		signal("sig-p", run.Pause),
		runtest.Draft(run.RunPaused, "", 1, by("sig-p")),
		runtest.Draft(run.StepFailedEvent, "a", 1), // 7: drained
		signal("sig-u", run.UpdateParams),
		signal("sig-r", run.Resume),
		runtest.Draft(run.RunResumed, "", 1, by("sig-r")), // 10
		signal("sig-t", run.RetryStep),
		runtest.Draft(run.StepStartedEvent, "a", 2, by("sig-t"), runtest.M{"paramsSeq": 8}),
		runtest.Draft(run.StepCompletedEvent, "a", 2),
		runtest.Draft(run.StepStartedEvent, "b", 1),
		runtest.Draft(run.StepAwaitingManualCompletion, "b", 1), // 15
		runtest.Draft(run.StepCompletedEvent, "b", 1),
		runtest.Draft(run.StepCompletedEvent, "d", 1, runtest.M{"reused": runtest.M{"runId": "earlier", "runSeq": 9}}),
		runtest.Draft(run.StepStartedEvent, "c", 1),
		signal("sig-c", run.Cancel),
		runtest.Draft(run.RunCancelled, "", 1, by("sig-c")), // 20
	))
	want := `run plan-3 [-60,20] CANCELLED (caused by signal CANCEL) (rerun of another trace)
  wait for approval [-60,1]
  start [1,3]
  wait in the queue [2,3]
  step a [3,13] SUCCESS
    wait for a worker [3,4]
    attempt 1 [4,7] FAILED EXIT_STATUS !
    wait for a retry [7,12]
    attempt 2 [12,13] SUCCESS (caused by signal RETRY_STEP) (parameters signal UPDATE_PARAMS)
  step d [3,17] SUCCESS (reuses another trace)
    attempt 1 [17,17] SUCCESS
  signal PAUSE [5,6] ACCEPTED (caused pause)
  pause [6,10] (caused by signal PAUSE) (caused by signal RESUME)
    drain [6,7]
  signal UPDATE_PARAMS [8,8] ACCEPTED
  signal RESUME [9,10] ACCEPTED (caused pause)
  signal RETRY_STEP [11,12] ACCEPTED (caused attempt 2)
  step b [13,16] SUCCESS
    wait for a worker [13,14]
    attempt 1 [14,16] SUCCESS
      wait for a person [15,16]
  step c [16,20] CANCELLED
    wait for a worker [16,18]
    attempt 1 [18,20] CANCELLED
  signal CANCEL [19,20] ACCEPTED (caused run plan-3)
`
	if diff := cmp.Diff(want, outline(spans)); diff != "" {
		t.Errorf("the trace (-want +got):\n%s", diff)
	}
}

// Workers and services continue a trace by ids that they compute, so the ids must never change.
func TestParent_IsStable(t *testing.T) {
	t.Parallel()
	const want = "00-c91ebccbcb1f7f55a71151888bd71bb6-05d5d8e132a58249-01"
	if got := trace.Parent(runtest.ID.RunID, "load", 2, 1); got != want {
		t.Errorf("Parent = %s, want %s", got, want)
	}
	if got := trace.Parent(runtest.ID.RunID, "load", 2, 0); got != strings.TrimSuffix(want, "1")+"0" {
		t.Errorf("Parent of a trace that is not sampled = %s, want the flag 00", got)
	}
}

func TestIsSampled_TakesItsShare(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, ratio := range []float64{0, 0.1, 0.5, 1} {
		n := 0
		for range 10_000 {
			if trace.IsSampled(trace.IDOf(fmt.Sprint(r.Uint64())), ratio) {
				n++
			}
		}
		if got := float64(n) / 10_000; got < ratio-0.02 || got > ratio+0.02 {
			t.Errorf("ratio %.1f sampled %.3f of the traces", ratio, got)
		}
	}
}
