package diagnosis_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/doctor"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// seeing is an engine that describes its runs and queues as a test sets them.
type seeing struct {
	*controltest.FakeEngine
	debug   engine.Debug
	err     error
	pollers engine.QueuePollers
	onDebug func() // what happens while the engine is asked
}

func (e *seeing) Debug(context.Context, run.Identity) (engine.Debug, error) {
	if e.onDebug != nil {
		e.onDebug()
	}
	return e.debug, e.err
}

func (e *seeing) Pollers(context.Context, string) (engine.QueuePollers, error) { return e.pollers, nil }

func newWorld(t *testing.T) (*controltest.World, *seeing) {
	t.Helper()
	e := &seeing{}
	w := controltest.New(t, func(c *usecases.Config) {
		e.FakeEngine = c.Engine.(*controltest.FakeEngine)
		c.Engine = e
	})
	e.pollers = engine.QueuePollers{Count: 1, LastSeen: w.Clock.Now()}
	e.debug = engine.Debug{Executions: []engine.Execution{{Status: "Running"}}}
	return w, e
}

func diagnose(t *testing.T, w *controltest.World, runID string) []doctor.Cause {
	t.Helper()
	return controltest.Must[[]doctor.Cause](t)(w.Diagnose(t.Context(), w.Principal("dev-viewer"), runID))
}

func first(causes []doctor.Cause) doctor.Code {
	if len(causes) == 0 {
		return ""
	}
	return causes[0].Code
}

func TestDiagnose_ReadsTheFactsOfARun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		make func(*controltest.World, *seeing) (runID string)
		want doctor.Code
	}{
		{"completed", func(w *controltest.World, _ *seeing) string {
			return w.CreateEnded("r", nil, run.RunCompleted, map[string]int{"s1": 1})
		}, ""},
		{"begun", func(w *controltest.World, _ *seeing) string { return w.CreateRunning("r", "s1") }, ""},
		{"a step failed", func(w *controltest.World, _ *seeing) string {
			return w.CreateRetryable("r", time.Hour,
				"s1")
		},
			"EXIT_STATUS"},
		{"failed", func(w *controltest.World, _ *seeing) string { return w.CreateFailed("r") }, "EXIT_STATUS"},
		{"paused", func(w *controltest.World, _ *seeing) string {
			id := w.CreateRunning("r", "s1")
			w.AppendEvents(id, runtest.Draft(run.SignalAccepted, "11111111-1111-4111-8111-111111111111", 1),
				runtest.Draft(run.RunPaused, "", 1))
			return id
		}, doctor.CodePaused},
		{"waits for a person", func(w *controltest.World, _ *seeing) string {
			id := w.CreateManual("r", "s1")
			w.WaitForPerson(id, "s1", 1)
			return id
		}, doctor.CodeWaitsForPerson},
		{"lost by the engine", func(w *controltest.World, e *seeing) string {
			e.err = engine.ErrNotStarted
			return w.CreateRunning("r", "s1")
		}, run.CodeEngineLost},
		{"ended in the engine", func(w *controltest.World, e *seeing) string {
			e.debug.Executions[0].ClosedAt = new(w.Clock.Now())
			return w.CreateRunning("r", "s1")
		}, run.CodeEngineTerminated},
		{"without a worker", func(w *controltest.World, e *seeing) string {
			e.pollers = engine.QueuePollers{LastSeen: w.Clock.Now().Add(-time.Hour), Waiting: 2}
			return w.CreateRunning("r", "s1")
		}, run.CodeNoWorker},
		{"with a silent worker", func(w *controltest.World, e *seeing) string {
			id := w.CreateSteps("r", "COMMAND s1")
			w.BeginStep(id, "s1", 1)
			e.debug.Pending = []engine.Pending{{ID: "s1/1.1", State: "Started", Attempt: 1,
				LastHeartbeat: new(w.Clock.Now().Add(-time.Hour))}}
			return id
		}, doctor.CodeWorkerSilent},
		{"while the engine does not answer", func(w *controltest.World, e *seeing) string {
			id := w.CreateRunning("r", "s1")
			e.err = engine.ErrUnavailable
			e.Set(func(f *controltest.FakeEngine) { f.DescribeError = engine.ErrUnavailable })
			return id
		}, doctor.CodePartDown},
		{"without the journal", func(w *controltest.World, e *seeing) string {
			e.Set(func(f *controltest.FakeEngine) {
				f.OnWaits = func(run.Identity) (engine.Waits, error) {
					return engine.Waits{Steps: []engine.StepWait{{StepID: "s1", Cause: engine.WaitJournal, Status: 403}}}, nil
				}
			})
			return w.CreateSteps("r", "COMMAND s1")
		}, doctor.CodeJournal},
		{"without the journal when a step has ended", func(w *controltest.World, e *seeing) string {
			e.Set(func(f *controltest.FakeEngine) {
				f.OnWaits = func(run.Identity) (engine.Waits, error) {
					return engine.Waits{Steps: []engine.StepWait{{StepID: "s1", Cause: engine.WaitJournal, Status: 403,
						Ended: true}}}, nil
				}
			})
			id := w.CreateSteps("r", "COMMAND s1")
			w.BeginStep(id, "s1", 1)
			return id
		}, doctor.CodeJournal},
		{"while the engine is silent about it", func(w *controltest.World, e *seeing) string {
			e.Set(func(f *controltest.FakeEngine) {
				f.OnWaits = func(run.Identity) (engine.Waits, error) { return engine.Waits{}, engine.ErrUnavailable }
			})
			return w.CreateRunning("r", "s1")
		}, doctor.CodePartDown},
		{"queued, and due for long", func(w *controltest.World, _ *seeing) string {
			id := w.CreateQueued("r", "s1")
			w.Clock.Advance(10 * time.Minute)
			return id
		}, doctor.CodeNotDispatched},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, e := newWorld(t)
			got := diagnose(t, w, c.make(w, e))
			if c.want == "" && slices.ContainsFunc(got, func(c doctor.Cause) bool { return c.Kind == doctor.Fault }) ||
				c.want != "" && first(got) != c.want {
				t.Errorf("the first cause is %q, want %q; all: %v", first(got), c.want, titles(got))
			}
		})
	}
}

func titles(causes []doctor.Cause) (out []string) {
	for _, c := range causes {
		out = append(out, fmt.Sprintf("%s: %s", c.Code, c.Title))
	}
	return out
}

// The diagnosis and the waits of a run are read beside each other, so they say one thing in one sentence.
func TestDiagnose_SaysAWaitInTheSentenceOfTheWaits(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t)
	e.Set(func(f *controltest.FakeEngine) {
		f.OnWaits = func(run.Identity) (engine.Waits, error) {
			return engine.Waits{Steps: []engine.StepWait{{StepID: "s1", Cause: engine.WaitQuota}}}, nil
		}
	})
	id := w.CreateSteps("r", "COMMAND s1")
	waits := controltest.Must[[]reads.RunWait](t)(w.RunWaits(t.Context(), w.Principal("dev-viewer"), id))
	causes := diagnose(t, w, id)
	if len(waits) != 1 || len(causes) != 1 || causes[0].Title != waits[0].Message || causes[0].Kind != doctor.Wait {
		t.Errorf("the causes are %v, want the one wait %+v", titles(causes), waits)
	}
}

// A run of another tenant does not exist, and one of a project that the caller may not read neither.
func TestDiagnose_HidesOtherRuns(t *testing.T) {
	t.Parallel()
	w, _ := newWorld(t)
	id := w.CreateFailed("r")
	_, err := w.Diagnose(t.Context(), w.ForeignPrincipal(), id)
	controltest.Refusal(t, err, run.CodeNotFound)
}

// The execution of a run closes between the read of the log and the question to the engine. That is no fault.
func TestDiagnose_ARunThatEndsWhileItIsDiagnosedIsHealthy(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t)
	id := w.CreateRunning("r", "s1")
	e.onDebug = func() {
		w.AppendEvents(id, runtest.Draft(run.StepStartedEvent, "s1", 1), runtest.Draft(run.StepCompletedEvent, "s1", 1),
			runtest.Draft(run.RunCompleted, "", 1))
		e.debug.Executions[0].ClosedAt = new(w.Clock.Now())
	}
	if got := diagnose(t, w, id); len(got) > 0 {
		t.Errorf("the causes are %v, want none", titles(got))
	}
}

// The engine is asked before it knows the run, which begins meanwhile. That is no fault either.
func TestDiagnose_ARunThatStartsWhileItIsDiagnosedIsHealthy(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t)
	id := w.CreateQueued("r", "s1")
	e.err = engine.ErrNotStarted
	e.onDebug = func() {
		w.HandOver()
		w.AppendEvents(id, runtest.Draft(run.RunStarted, "", 1))
	}
	if got := diagnose(t, w, id); len(got) > 0 {
		t.Errorf("the causes are %v, want none", titles(got))
	}
}

// mute is an engine that accepts calls and never answers them, like a process that is stopped.
type mute struct{ *controltest.FakeEngine }

func (mute) Debug(ctx context.Context, _ run.Identity) (engine.Debug, error) {
	<-ctx.Done()
	return engine.Debug{}, engine.ErrUnavailable
}

func (mute) Pollers(ctx context.Context, _ string) (engine.QueuePollers, error) {
	<-ctx.Done()
	return engine.QueuePollers{}, engine.ErrUnavailable
}

func (mute) Waits(ctx context.Context, _ run.Identity) (engine.Waits, error) {
	<-ctx.Done()
	return engine.Waits{}, engine.ErrUnavailable
}

func (mute) Describe(ctx context.Context, _ run.Identity) (engine.Description, error) {
	<-ctx.Done()
	return engine.Description{}, engine.ErrUnavailable
}

// An engine that takes every call and answers none delays the diagnosis by the longest question, not by all of them.
// The diagnosis names it.
func TestDiagnose_NamesAnEngineThatNeverAnswersWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	w := controltest.New(t, func(c *usecases.Config) { c.Engine = mute{c.Engine.(*controltest.FakeEngine)} })
	id := w.CreateSteps("r", "COMMAND s1", "COMMAND s2")
	w.BeginStep(id, "s1", 1)
	began := time.Now()
	got := diagnose(t, w, id)
	if took := time.Since(began); took > testtime.Of(5*time.Second) {
		t.Errorf("the diagnosis took %s, want 5 s or less", took)
	}
	if first(got) != doctor.CodePartDown {
		t.Errorf("the first cause is %q, want the engine; all: %v", first(got), titles(got))
	}
}

// A plan that was sent in other bytes is the same plan; one with another step is named with what changed.
func TestDiagnose_ComparesThePlanWithTheLastGreenByContent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change controltest.M
		want   string // the evidence; "" for no cause
	}{
		{"the same in other bytes", nil, ""},
		{"another content", controltest.M{"steps": []controltest.M{
			{"stepId": "s1", "type": "NOOP", "inputs": controltest.M{}, "timeout": "2m"},
			{"stepId": "s2", "type": "NOOP", "inputs": controltest.M{}, "timeout": "1m"}}},
			"completed with the same version 1.0 and other content. Changed: s1 (timeout)."},
		{"another version only", controltest.M{"metadata.planVersion": "1.1"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, _ := newWorld(t)
			w.CreateEnded("green", nil, run.RunCompleted, map[string]int{"s1": 1})
			w.Clock.Advance(time.Minute)
			var doc bytes.Buffer
			if err := json.Indent(&doc, controltest.Document(c.change, "s1", "s2"), "", " "); err != nil {
				t.Fatal(err)
			}
			id := controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Engineer(),
				controltest.StartOf("r", doc.Bytes()))).View.Run.RunID
			w.HandOver()
			w.AppendEvents(id, runtest.Start("s1", "s2"))
			w.FinishStep(id, "s1", 1, run.StepFailedEvent)
			w.AppendEvents(id, runtest.Draft(run.RunFailed, "", 1))
			got := diagnose(t, w, id)
			at := slices.IndexFunc(got, func(c doctor.Cause) bool { return c.Code == doctor.CodePlanChanged })
			if (at >= 0) != (c.want != "") || at >= 0 && !strings.HasSuffix(got[at].Evidence[0].Text, c.want) {
				t.Errorf("the causes are %+v, want the change of the plan %q", got, c.want)
			}
		})
	}
}

// The diagnosis names the people whom its reader can ask, without those who have decided or are excluded.
func TestDiagnose_NamesWhoCanDecide(t *testing.T) {
	t.Parallel()
	w := controltest.NewWithApprovals(t, 2)
	id := w.CreateQueued("r1", "s1")
	advice := func(id string) string { return diagnose(t, w, id)[0].Next[0].Text }
	if got := advice(id); !strings.Contains(got, "dev-planner") {
		t.Errorf("the advice before an approval is %q, want it to name dev-planner", got)
	}
	if _, err := w.ApproveRun(t.Context(), w.Principal("dev-planner"), controltest.ApprovalOf(id, "a")); err != nil {
		t.Fatal(err)
	}
	if got := advice(id); strings.Contains(got, "dev-planner") {
		t.Errorf("the advice is %q, want it without dev-planner, who has approved", got)
	}
	if got := diagnose(t, w, id)[0].Evidence[0].Text; got != "1 more person must approve." {
		t.Errorf("the evidence is %q, want one more person", got)
	}
	other := controltest.New(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")))
	manual := other.CreateManual("r2", "look")
	other.TaskOf(other.Principal("dev-admin"), manual, "look", 1)
	got := diagnose(t, other, manual)[0].Next[0].Text
	if !strings.Contains(got, "dev-admin") || strings.Contains(got, "dev-engineer") {
		t.Errorf("the advice is %q, want dev-admin and not dev-engineer, who started the run", got)
	}
}

// Everybody reads that the workers are drained; who did it and why is for those who may see the installation.
func TestDiagnose_NamesADrainToThoseWhoSeeTheInstallation(t *testing.T) {
	t.Parallel()
	w, _ := newWorld(t)
	in := controltest.StartOf("r", controltest.Document(controltest.M{"steps": []controltest.M{{"stepId": "s1",
		"type": "COMMAND", "timeout": "1m", "inputs": controltest.M{"argv": []string{"true"}}}}}))
	id := controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Engineer(), in)).View.Run.RunID
	w.HandOver()
	w.AppendEvents(id, runtest.Draft(run.RunStarted, "", 1, runtest.M{"steps": []runtest.M{{"stepId": "s1",
		"type": "COMMAND", "taskQueue": "tq-data-dev"}}}))
	controltest.Must[engine.WorkerOrder](t)(w.ReporterOf("acme-worker").Report(t.Context(), controltest.ReportOf("w1")))
	if got := diagnose(t, w, id); len(got) > 0 {
		t.Fatalf("before the drain the causes are %v, want none", titles(got))
	}
	controltest.Must[store.WorkerDrain](t)(w.Raw.DrainWorker(t.Context(), store.WorkerDrain{Account: "acme-worker",
		Worker: "w1", RequestID: "d", Actor: "dev-sre", Reason: "new kernel"}))
	got := diagnose(t, w, id)
	if len(got) == 0 || got[0].Title != "The only worker of the queue tq-data-dev is drained." ||
		strings.Contains(fmt.Sprint(got), "dev-sre") {
		t.Errorf("a viewer reads %+v, want the drain without its author", got)
	}
	of := controltest.Must[[]doctor.Cause](t)(w.Diagnose(t.Context(), w.Principal("dev-sre"), id))
	if !strings.HasPrefix(of[0].Evidence[0].Text, "acme-worker/w1 was drained by dev-sre ") {
		t.Errorf("an SRE reads %+v, want who drained the worker", of)
	}
	waits := controltest.Must[[]reads.RunWait](t)(w.RunWaits(t.Context(), w.Principal("dev-viewer"), id))
	if want := "The run waits for a worker: all workers that serve the queue tq-data-dev are drained."; len(waits) != 1 ||
		waits[0].Message != want {
		t.Errorf("the waits are %+v, want %q", waits, want)
	}
}
