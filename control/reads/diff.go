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

// RunDiff is what changed in a run from one moment of its log to a later one.
type RunDiff struct {
	From, To  control.RunView
	Steps     []StepDiff  // those that changed, in plan order
	Decisions []run.Event // about the run, not of its steps: at most 200
}

// StepDiff is a step at both moments.
type StepDiff struct{ From, To *run.Step } // From is nil before RunStarted

// decisions are events that say what people and dvt decided about a run.
var decisions = []string{
	string(run.RunQueued), string(run.RunApproved), string(run.RunStarted), string(run.RunPaused), string(run.RunResumed),
	string(run.RunCompleted), string(run.RunFailed), string(run.RunCancelled), string(run.RunCompensationStarted),
	string(run.SignalAccepted), string(run.SignalRejected),
}

// DiffRun compares a run as it was after event a with how it was after event b (the
// time machine). NOT_FOUND, and BAD_USER_INPUT when a is above b or b above the head.
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
