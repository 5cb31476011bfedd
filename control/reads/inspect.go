package reads

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Bounds of a RunInspection and of DebugStepLogs.
const (
	maxInspectedSteps     = 1000
	maxInspectedArtifacts = 1000
	recentLogLines        = 200
)

// RunInspection is a report about a run for an SRE. It has no outputs, parameters or log lines, because these can have
// secrets.
type RunInspection struct {
	RunDebug
	InspectedAt time.Time         `json:"inspectedAt"`
	Snapshot    InspectedRun      `json:"snapshot"`
	Artifacts   []run.ArtifactRef `json:"artifacts"` // at most maxInspectedArtifacts, in the order of the log
	// EngineTrouble says why Engine is absent although the run was started.
	EngineTrouble string `json:"engineTrouble,omitempty"`
}

// InspectedRun is the state of a run at RunDebug.Seq.
type InspectedRun struct {
	PlanRef   *run.PlanRef    `json:"planRef,omitempty"`
	CreatedAt time.Time       `json:"createdAt"`
	StartedAt *time.Time      `json:"startedAt,omitempty"`
	EndedAt   *time.Time      `json:"completedAt,omitempty"`
	Pause     *run.PauseInfo  `json:"pause,omitempty"`
	Failure   *run.RunFailure `json:"failure,omitempty"`
	Counts    run.StepCounts  `json:"counts"`
	Steps     []InspectedStep `json:"steps"` // the first maxInspectedSteps of the plan
	Omitted   int             `json:"stepsOmitted"`
}

// InspectedStep is the state of one step.
type InspectedStep struct {
	StepID         string         `json:"stepId"`
	Status         run.StepStatus `json:"status"`
	Substatus      run.Substatus  `json:"substatus,omitempty"`
	LogicalAttempt int            `json:"logicalAttemptId"`
	EngineAttempt  int            `json:"engineAttemptId,omitempty"`
	ErrorCode      string         `json:"errorCode,omitempty"`
	TaskQueue      string         `json:"taskQueue,omitempty"`
}

// InspectRun reports on a run: its state, the artifacts that it named, its executions in the engine and their pending
// activities. It changes nothing but writes one audit row. An engine that does not answer is part of the report.
// Errors: NOT_FOUND, FORBIDDEN without DEBUG on the scope of the run.
func (s *Debugger) InspectRun(ctx context.Context, p authz.Principal, runID string) (RunInspection, error) {
	r, loaded, err := s.loadRun(ctx, p, runID)
	if err != nil {
		return RunInspection{}, err
	}
	row := store.AuditRow{Action: string(authz.Debug), RunID: runID, Reason: "inspection"}
	s.rights.Stamp(p, &row, "ACCEPTED", fmt.Sprintf(`{"runSeq":%d}`, loaded.State.Seq))
	if err := s.rights.Store.Audit(ctx, row); err != nil {
		return RunInspection{}, control.Translate(err)
	}
	out := RunInspection{
		InspectedAt: s.rights.Now(), Snapshot: inspectedRun(&loaded.State),
		Artifacts: artifactsOf(&loaded.State, maxInspectedArtifacts),
	}
	out.RunDebug, err = s.debug(ctx, r, loaded)
	if refused := (*control.Error)(nil); errors.As(err, &refused) {
		out.EngineTrouble = refused.Message
	} else if err != nil {
		out.EngineTrouble = "The engine does not answer."
	}
	return out, nil
}

func inspectedRun(state *run.State) InspectedRun {
	out := InspectedRun{
		PlanRef: state.PlanRef, CreatedAt: state.CreatedAt, StartedAt: state.StartedAt, EndedAt: state.CompletedAt,
		Pause: state.Pause, Failure: state.Failure, Counts: state.Counts, Steps: []InspectedStep{},
		Omitted: max(0, len(state.Steps)-maxInspectedSteps),
	}
	for _, step := range state.Steps[:len(state.Steps)-out.Omitted] {
		one := InspectedStep{StepID: step.StepID, Status: step.Status, Substatus: step.Substatus,
			LogicalAttempt: step.LogicalAttempt, TaskQueue: step.TaskQueue}
		if n := len(step.Attempts); n > 0 {
			last := step.Attempts[n-1]
			one.EngineAttempt = last.EngineAttempt
			if last.Error != nil {
				one.ErrorCode = last.Error.Code
			}
		}
		out.Steps = append(out.Steps, one)
	}
	return out
}

// artifactsOf lists at most limit artifacts that the log of a run names: those of steps, then those of the run alone.
func artifactsOf(state *run.State, limit int) []run.ArtifactRef {
	out, seen := []run.ArtifactRef{}, map[string]bool{}
	add := func(refs []run.ArtifactRef) {
		for _, ref := range refs {
			if !seen[ref.URI] && len(out) < limit {
				seen[ref.URI] = true
				out = append(out, ref)
			}
		}
	}
	for _, step := range state.Steps {
		for _, a := range step.Attempts {
			add(a.Artifacts)
		}
	}
	add(state.Artifacts)
	return out
}

// StepLogPointers says where the logs and artifacts of a step are, with the last lines of its latest attempt.
type StepLogPointers struct {
	RunID    string           `json:"runId"`
	StepID   string           `json:"stepId"`
	Status   run.StepStatus   `json:"status"`
	Attempts []AttemptPointer `json:"attempts"` // ascending
	Recent   []artifact.Line  `json:"recentLines"`
	Total    int64            `json:"totalLines"` // of the latest attempt
}

// AttemptPointer says where the log and the artifacts of one logical attempt are.
type AttemptPointer struct {
	LogicalAttempt int               `json:"logicalAttemptId"`
	EngineAttempt  int               `json:"engineAttemptId"`
	Status         run.StepStatus    `json:"status"`
	LogPath        string            `json:"log"` // a path of this server; the whole log as text
	Artifacts      []run.ArtifactRef `json:"artifacts"`
}

// DebugStepLogs returns pointers to the logs of a step and the last recentLogLines lines of its latest attempt. Errors:
// NOT_FOUND, also for an unknown step; FORBIDDEN without DEBUG on the scope of the run.
func (s *Debugger) DebugStepLogs(ctx context.Context, p authz.Principal, runID, stepID string) (StepLogPointers,
	error) {
	r, loaded, err := s.loadRun(ctx, p, runID)
	if err != nil {
		return StepLogPointers{}, err
	}
	step, ok := loaded.State.Step(stepID)
	if !ok {
		return StepLogPointers{}, control.Refuse(run.CodeNotFound, "The run has no such step.")
	}
	out := StepLogPointers{RunID: runID, StepID: stepID, Status: step.Status, Attempts: []AttemptPointer{}}
	for _, a := range step.Attempts {
		one := AttemptPointer{LogicalAttempt: a.LogicalAttempt, EngineAttempt: a.EngineAttempt, Status: a.Status,
			LogPath: fmt.Sprintf("/logs/%s/%s/%d", runID, stepID, a.LogicalAttempt), Artifacts: []run.ArtifactRef{}}
		one.Artifacts = append(one.Artifacts, a.Artifacts...)
		out.Attempts = append(out.Attempts, one)
	}
	id := artifact.AttemptID{TenantID: r.TenantID, RunID: runID, StepID: stepID,
		LogicalAttempt: max(1, step.LogicalAttempt)}
	page, err := s.logs.Read(ctx, id, 1, 1) // for the total
	if err == nil {
		page, err = s.logs.Read(ctx, id, max(1, page.Total-recentLogLines+1), recentLogLines)
	}
	if err != nil {
		return StepLogPointers{}, control.Translate(err)
	}
	out.Total, out.Recent = page.Total, append([]artifact.Line{}, page.Lines...)
	return out, nil
}
