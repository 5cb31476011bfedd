package controltest

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// StartOf returns a request that starts a plan in the scope that the plan names.
func StartOf(requestID string, doc []byte) runs.StartRun {
	var d struct {
		Scope struct{ ProjectID, EnvironmentID string }
	}
	_ = json.Unmarshal(doc, &d)
	return runs.StartRun{RequestID: requestID, ProjectID: d.Scope.ProjectID, EnvironmentID: d.Scope.EnvironmentID,
		Inline: doc}
}

// StartOneStep starts a run and returns the answer to its request.
func (w *World) StartOneStep(request string, change ...func(*runs.StartRun)) runs.StartedRun {
	w.T.Helper()
	in := StartOf(request, Document(nil, "s1"))
	for _, f := range change {
		f(&in)
	}
	return Must[runs.StartedRun](w.T)(w.StartRun(w.T.Context(), w.Engineer(), in))
}

// Waits reports whether the answer to a start says that the run waits in the queue.
func Waits(s runs.StartedRun) bool { return s.View.Queue != nil && s.View.Queue.Waiting }

// CreateQueued makes a run that no engine has seen.
func (w *World) CreateQueued(requestID string, steps ...string) string {
	w.T.Helper()
	return Must[runs.StartedRun](w.T)(
		w.StartRun(w.T.Context(), w.Engineer(), StartOf(requestID, Document(nil, steps...)))).View.Run.RunID
}

// CreateRunning makes a run in the state that an engine leaves after RunStarted.
func (w *World) CreateRunning(requestID string, steps ...string) string {
	w.T.Helper()
	id := w.CreateQueued(requestID, steps...)
	w.HandOver()
	w.AppendEvents(id, runtest.Start())
	return id
}

// CreateRunningPlan makes a run of a plan in the state that an engine leaves after RunStarted.
func (w *World) CreateRunningPlan(requestID string, doc []byte) string {
	w.T.Helper()
	id := Must[runs.StartedRun](w.T)(w.StartRun(w.T.Context(), w.Engineer(), StartOf(requestID, doc))).View.Run.RunID
	w.HandOver()
	w.AppendEvents(id, runtest.Start())
	return id
}

// CreateInProject makes a run of one step in a project and environment.
func (w *World) CreateInProject(requestID, projectID, environment string) string {
	w.T.Helper()
	doc := Document(M{"scope.projectId": projectID, "scope.environmentId": environment}, "s1")
	return Must[runs.StartedRun](w.T)(w.StartRun(w.T.Context(), w.Engineer(), StartOf(requestID, doc))).View.Run.RunID
}

// CreateEnded makes a run of the steps in took and ends it. The value is the duration of the step in minutes, long
// enough that the speed of the machine does not matter; a step with 0 fails.
func (w *World) CreateEnded(requestID string, change M, end run.EventType, took map[string]int) string {
	w.T.Helper()
	doc := Document(change, "s1", "s2")
	id := Must[runs.StartedRun](w.T)(w.StartRun(w.T.Context(), w.Engineer(), StartOf(requestID,
		doc))).View.Run.RunID
	w.HandOver()
	w.AppendEvents(id, runtest.Draft(run.RunStarted, "", 1, runtest.M{
		"startedAt": w.Clock.Now(), "steps": []runtest.M{{"stepId": "s1", "type": "NOOP"},
			{"stepId": "s2", "type": "NOOP"}},
	}))
	for _, step := range []string{"s1", "s2"} {
		switch minutes, ok := took[step]; {
		case !ok:
		case minutes == 0:
			w.FinishStep(id, step, 1, run.StepFailedEvent)
		default:
			w.BeginStep(id, step, 1)
			w.Clock.Advance(time.Duration(minutes) * time.Minute)
			w.AppendEvents(id, runtest.Draft(run.StepCompletedEvent, step, 1))
		}
	}
	if end != "" {
		w.AppendEvents(id, runtest.Draft(end, "", 1))
	}
	Eventually(w.T, "the projection of "+id, func() bool {
		rows := Must[[]store.RunRow](w.T)(w.Raw.List(w.T.Context(), store.RunFilter{TenantID: "acme",
			Limit: 200}))
		for _, r := range rows {
			if r.Header.RunID == id {
				return r.Header.Seq == r.Head
			}
		}
		return false
	})
	return id
}

// CreateRetryable makes a run whose step s1 failed and whose retry window is open for d.
func (w *World) CreateRetryable(requestID string, d time.Duration, steps ...string) string {
	w.T.Helper()
	id := w.CreateQueued(requestID, steps...)
	w.HandOver()
	w.AppendEvents(id, runtest.Start(steps...))
	w.BeginStep(id, "s1", 1)
	draft := runtest.Draft(run.StepFailedEvent, "s1", 1)
	draft.EmittedAt = w.Clock.Now()
	Must[store.Appended](w.T)(w.Store.Append(w.T.Context(), store.Append{RunID: id, Events: []run.Draft{draft},
		SetGate: run.GateFailing, RetryDeadline: w.Clock.Now().Add(d)}))
	return id
}

// CreateFailed makes a run of a, b<a, c<b, d in which b failed, c never ran, and d succeeded.
func (w *World) CreateFailed(requestID string) string {
	w.T.Helper()
	steps := []string{"a", "b<a", "c<b", "d"}
	id := w.CreateRunning(requestID, steps...)
	w.FinishStep(id, "a", 1, run.StepCompletedEvent, M{"result": M{"rows": 7},
		"artifactRefs": []M{{"uri": "artifact:acme/" + id + "/a/1/1/f", "kind": "log"}}})
	w.FinishStep(id, "d", 1, run.StepCompletedEvent)
	w.FinishStep(id, "b", 1, run.StepFailedEvent)
	w.AppendEvents(id, runtest.Draft(run.StepSkippedEvent, "c", 1, M{"reasonCode": "DEPENDENCY_FAILED"}),
		runtest.Draft(run.RunFailed, "", 1))
	return id
}

// CreateSteps makes a started run of independent steps, written "TYPE id".
func (w *World) CreateSteps(requestID string, steps ...string) string {
	w.T.Helper()
	return w.CreateStepsWith(requestID, nil, steps...)
}

// CreateStepsWith is CreateSteps with parameters.
func (w *World) CreateStepsWith(requestID string, params json.RawMessage, steps ...string) string {
	w.T.Helper()
	var list []M
	var outlines []M
	for _, s := range steps {
		stepType, id, _ := strings.Cut(s, " ")
		list = append(list, M{"stepId": id, "type": stepType, "inputs": inputsOf(stepType), "timeout": "1m",
			"dependsOn": []string{}})
		outlines = append(outlines, M{"stepId": id, "type": stepType})
	}
	in := StartOf(requestID, Document(M{"steps": list}))
	in.Params = params
	id := Must[runs.StartedRun](w.T)(w.StartRun(w.T.Context(), w.Engineer(), in)).View.Run.RunID
	w.HandOver()
	w.AppendEvents(id, runtest.Draft(run.RunStarted, "", 1, M{"steps": outlines}))
	return id
}

// HandOver marks every queued run as started in the engine.
func (w *World) HandOver() {
	w.T.Helper()
	for {
		rows := Must[[]store.QueueRow](w.T)(w.Store.Lease(w.T.Context(), "fixture", time.Minute, 1))
		if len(rows) == 0 {
			return
		}
		if err := w.Store.MarkStarted(w.T.Context(), rows[0].RunID, rows[0].Generation); err != nil {
			w.T.Fatal(err)
		}
	}
}

// RequestRerun asks for a rerun.
func (w *World) RequestRerun(in runs.Rerun) runs.StartedRun {
	w.T.Helper()
	return Must[runs.StartedRun](w.T)(w.Rerun(w.T.Context(), w.Engineer(), in))
}

// ReusedSteps returns the steps whose results a run takes over, as the skeleton names them.
func (w *World) ReusedSteps(runID string) string {
	w.T.Helper()
	sk := Must[engine.Skeleton](w.T)(w.Journal.Skeleton(w.T.Context(), runID))
	var out []string
	for _, o := range sk.Reused {
		out = append(out, []string{"a", "b", "c", "d"}[o])
	}
	return strings.Join(out, " ")
}

// CountTenantRuns counts the runs of a tenant in the store.
func (w *World) CountTenantRuns(tenant string) int {
	w.T.Helper()
	return len(Must[[]store.RunRow](w.T)(w.Raw.List(w.T.Context(), store.RunFilter{TenantID: tenant, Limit: 201})))
}

// QueueRow returns a run's row of the queue.
func (w *World) QueueRow(id string) store.QueueRow {
	w.T.Helper()
	return Must[store.QueueRow](w.T)(w.Raw.QueueRow(w.T.Context(), id))
}

// AwaitLeases waits until the dispatchers have leased all due runs, by waiting for the start of another tenant's run.
func (w *World) AwaitLeases() {
	w.T.Helper()
	in := StartOf(uuid.NewString(), Document(M{"scope.tenantId": "globex"}, "s1"))
	id := Must[runs.StartedRun](w.T)(w.StartRun(w.T.Context(), w.Principal("dev-mallory"), in)).View.Run.RunID
	Eventually(w.T, "another tenant's run is started", func() bool { return w.QueueRow(id).Status == store.QueueStarted })
}

// StateOf returns the state of a run at its head.
func (w *World) StateOf(runID string) run.State {
	w.T.Helper()
	return Must[store.Loaded](w.T)(w.Raw.Load(w.T.Context(), runID)).State
}
