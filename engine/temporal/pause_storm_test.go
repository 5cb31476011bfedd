package temporal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store/postgres"
)

// The test pauses, resumes, retries, skips and cancels at random while a hundred short steps run. Some steps fail,
// workers stop and start, and the run rotates. judge checks the log afterwards.
// contract: G12, G14, E-05
func TestPause_RandomSignalsKeepThePromisesOfPauses(t *testing.T) {
	t.Parallel()
	for _, adapter := range []string{"sqlite", "postgres"} {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			o := options{limits: runs.Limits{SignalsPerMinute: -1}, rotateAfter: 30, workers: 1}
			if adapter == "postgres" {
				dsn := testserver.Postgres(t)
				must(t, postgres.Migrate(t.Context(), dsn))
				s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
				must(t, err)
				t.Cleanup(func() { _ = s.Close() })
				o.store = s
			}
			h := newHarness(t, o)
			h.patience = 2 * time.Minute
			ahead := 0
			// It depends on chance whether a pause is ahead of the engine.
			for i := 0; i < testtime.Rounds(2) || ahead == 0 && i < 10; i++ {
				seed := rand.Uint64()
				t.Logf("storm %d has the seed %d", i, seed)
				ahead += h.storm(rand.New(rand.NewPCG(seed, 1)), i%2 == 1)
			}
			if ahead == 0 {
				t.Error("no pause was applied ahead of the engine")
			}
		})
	}
}

// storm runs one run to its end with random signals, and returns the number of pauses that were applied ahead of the
// engine.
func (h *harness) storm(r *rand.Rand, cancelled bool) (ahead int) {
	h.t.Helper()
	const layers, wide = 10, 10
	var plan []step
	for i := range layers * wide {
		s := step{id: fmt.Sprintf("p%02d", i)}
		if i >= wide {
			s.deps = plan[i-wide].id
		}
		s.extra = map[string]any{"retry": map[string]any{"maxAttempts": 3, "initialBackoffMs": 100}}
		if r.IntN(4) == 0 {
			s.extra["dispatch"] = map[string]any{"cancellable": true, "allowCancelOnPause": true}
		}
		plan = append(plan, s)
		broken, lasts := r.IntN(40) == 0, time.Duration(r.IntN(40))*time.Millisecond
		h.steps.on(s.id, func(ctx context.Context, task executor.Task) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(lasts):
			}
			if broken && task.LogicalAttempt == 1 {
				return failure("BROKEN", false, "")
			}
			return nil
		})
	}
	id := h.start(document(600, plan...))
	h.waitFor(id, "started", func(s run.State) bool { return s.StartedAt != nil })
	stop := h.worker(16)
	pauses := 0
	send := func(sig run.Signal) {
		sig.ID = uuid.NewString()
		out, err := h.control.SignalRun(h.t.Context(), h.who, runs.SignalRun{RunID: id, Signal: sig, Payload: []byte(`{}`),
			Reason: "a storm"})
		var own *control.Error
		if err != nil && !errors.As(err, &own) {
			h.t.Fatal(err)
		}
		if sig.Type == run.Pause && !out.Rejected {
			pauses++
			if out.Application == run.SignalApplied {
				ahead++
				if out.AppliedSeq != out.AcceptedSeq+1 {
					h.t.Errorf("receipt %+v, want RunPaused directly after SignalAccepted", out.SignalReceipt)
				}
			}
		}
	}
	failed := func(s run.State) (ids []string) {
		for _, step := range s.Steps {
			if step.Status == run.StepFailed {
				ids = append(ids, step.StepID)
			}
		}
		return ids
	}
	deadline := time.Now().Add(testtime.Of(h.patience))
	for i := 0; ; i++ {
		st := h.operator().State(id)
		if st.Status.Terminal() {
			break
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("the run does not end; its log:\n%s", strings.Join(h.log(id), "\n"))
		}
		calm := i > 80
		paused := st.Status == run.Paused
		switch n := r.IntN(12); {
		case n < 4 && !calm && (!paused || r.IntN(8) == 0):
			send(run.Signal{Type: run.Pause})
		case n < 7 && (paused || r.IntN(16) == 0):
			send(run.Signal{Type: run.Resume})
		case n < 9 && (calm || r.IntN(3) == 0):
			for _, of := range failed(st) {
				send(run.Signal{Type: run.RetryStep, StepID: of, Force: true})
			}
		case n == 9 && !calm && r.IntN(4) == 0:
			send(run.Signal{Type: run.SkipStep, StepID: plan[r.IntN(len(plan))].id})
		case n == 10 && !calm:
			stop()
			stop = h.worker(16)
		case n == 11 && calm && cancelled:
			send(run.Signal{Type: run.Cancel})
		}
		time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
	}
	stop()
	h.waitUntilClosed(id)
	h.judge(id)
	for i, g := range h.chain(id) {
		if err := replay(g.history); err != nil {
			h.t.Errorf("execution %d does not replay: %v", i+1, err)
		}
	}
	h.t.Logf("%d events, %d pauses, %d of them ahead of the engine, %d executions; %s",
		len(h.events(id)), pauses, ahead, len(h.chain(id)), h.operator().State(id).Status)
	return ahead
}

// judge checks the log of a run that has ended, and its receipts: pauses and resumes alternate with the right epochs,
// nothing starts or ends the run between them, no attempt ends twice, only signals follow the end of the run, and every
// receipt is final and names its effect.
func (h *harness) judge(id string) {
	h.t.Helper()
	paused, epoch, ended := false, 0, map[string]bool{}
	all := h.events(id)
	for i, e := range all {
		bad := func(why string) {
			h.t.Errorf("%d %s: %s; the log is\n%s", e.Seq, e.Notation(), why, strings.Join(h.log(id), "\n"))
		}
		switch {
		case e.Type == run.RunPaused:
			if epoch++; paused || e.LogicalAttempt != epoch {
				bad("the run is already paused, or the epoch is wrong")
			}
			paused = true
		case e.Type == run.RunResumed:
			if !paused || e.LogicalAttempt != epoch {
				bad("the run is not paused, or the epoch is wrong")
			}
			paused = false
		case paused && (e.Type == run.StepStartedEvent || e.Type == run.RunCompleted || e.Type == run.RunFailed ||
			e.Type == run.RunCompensationStarted):
			bad("the run is paused")
		case e.Type.EndsAttempt():
			of := fmt.Sprintf("%s/%d", e.StepID, e.LogicalAttempt)
			if ended[of] {
				bad("the attempt ends a second time")
			}
			ended[of] = true
		case e.Type.EndsRun() && i != len(all)-1:
			if rest := all[i+1:]; !rest[0].Type.OfSignal() {
				bad("an event other than a signal follows the end of the run")
			}
		}
	}
	receipts, err := h.store.Receipts(h.t.Context(), id, "", 1000)
	must(h.t, err)
	for _, r := range receipts {
		if r.Rejected {
			continue
		}
		if !r.Application.Final() {
			h.t.Errorf("the receipt of %s %s is %s, want a final one", r.Signal.Type, r.Signal.ID, r.Application)
		}
		if r.Signal.Type == run.Pause && r.Application == run.SignalApplied {
			if e := all[r.AppliedSeq-1]; e.Type != run.RunPaused || !strings.Contains(string(e.Payload), r.Signal.ID) {
				h.t.Errorf("PAUSE %s is applied by %d %s %s, want its own RunPaused", r.Signal.ID, e.Seq, e.Notation(), e.Payload)
			}
		}
	}
}
