package reads

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
)

// Differ compares two states of a run. It is safe for concurrent use.
type Differ struct {
	views  *runs.Views
	events *EventReader
}

// NewDiffer makes a Differ.
func NewDiffer(views *runs.Views, events *EventReader) *Differ {
	return &Differ{views: views, events: events}
}

// RunDiff is the change of a run between two positions of its log.
type RunDiff struct {
	From, To  control.RunView
	Steps     []StepDiff  // changed steps in plan order
	Decisions []run.Event // events about the run and not its steps, at most 200
}

// StepDiff is a step at both positions.
type StepDiff struct{ From, To *run.Step } // From is nil before RunStarted

// decisions are the types of events that record what people and dvt decided about a run.
var decisions = []string{
	string(run.RunQueued), string(run.RunApproved), string(run.RunStarted), string(run.RunPaused), string(run.RunResumed),
	string(run.RunCompleted), string(run.RunFailed), string(run.RunCancelled), string(run.RunCompensationStarted),
	string(run.SignalAccepted), string(run.SignalRejected),
}

// DiffRun compares the state of a run after event a with its state after event b. Errors: NOT_FOUND, BAD_USER_INPUT
// when a is above b or b is above the head.
func (s *Differ) DiffRun(ctx context.Context, p authz.Principal, runID string, a, b run.Seq) (RunDiff, error) {
	to, err := s.views.Run(ctx, p, runID, &b)
	if err != nil {
		return RunDiff{}, err
	}
	if a > b {
		return RunDiff{}, control.Refuse(run.CodeBadInput, "a is %d and b is %d; give the earlier moment as a.", a, b)
	}
	from, err := s.views.Run(ctx, p, runID, &a)
	if err != nil {
		return RunDiff{}, err
	}
	out := RunDiff{From: from, To: to}
	for i, step := range to.State.Steps {
		if step.ChangedSeq <= a {
			continue
		}
		d := StepDiff{To: step}
		if i < len(from.State.Steps) { // the plan never changes
			d.From = from.State.Steps[i]
		}
		out.Steps = append(out.Steps, d)
	}
	if a == b {
		return out, nil
	}
	page, err := s.events.Events(ctx, p, runID, EventPage{After: a, Before: b + 1, First: control.MaxPageSize,
		Types: decisions})
	out.Decisions = page.Events
	return out, err
}
