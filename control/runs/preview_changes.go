package runs

import (
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// previewing turns the result of the interpreter into an ActionPreview with sentences for people.
type previewing struct {
	st    run.State
	sk    plan.Skeleton
	sig   run.Signal
	found interp.Preview

	now     time.Time
	medians map[string]time.Duration // usual durations by stepId; may be nil

	out ActionPreview
}

func (v *previewing) warn(format string, args ...any) {
	v.out.Warnings = append(v.out.Warnings, fmt.Sprintf(format, args...))
}

func (v *previewing) answer() ActionPreview {
	d := v.found.Decision
	v.out.BasedOnSeq, v.out.Code, v.out.Reason = v.st.Seq, d.Code, d.Message
	if v.out.Reason == "" {
		v.out.Reason = codeMeaning(d.Code)
	}
	switch d.Outcome {
	case run.Accept:
		v.out.Outcome = "APPLY"
	case run.Noop:
		v.out.Outcome = "NOOP"
	default:
		v.out.Outcome = "REFUSED"
		return v.out
	}
	v.out.Status = v.found.Status
	v.changes()
	for _, o := range v.found.Blocked {
		v.out.Blocked = append(v.out.Blocked, v.sk.Steps[o].StepID)
	}
	if d.Outcome != run.Accept {
		return v.out
	}
	switch {
	case v.sig.Type.Overlays():
		v.overlay()
	case v.sig.Type == run.EmergencyStop && v.sig.Force:
		v.cutOff()
	case v.sig.Type.Stops() && !v.found.Status.Terminal():
		v.out.Status = run.Cancelled
		v.warn("The run stays %s until its active steps have stopped.", v.found.Status.Word())
	}
	v.warnings()
	return v.out
}

func codeMeaning(code run.Code) string {
	info, _ := code.Info()
	return info.Meaning
}

func (v *previewing) changes() {
	for _, c := range v.found.Changes {
		id := v.sk.Steps[c.Ord].StepID
		change := StepChange{StepID: id, From: v.status(id)}
		switch c.Kind {
		case interp.ChangeStart:
			change.Kind, change.To, change.Why = "SCHEDULE", run.StepRunning, "Ready to start."
			if c.LogicalAttempt > 1 {
				change.Kind, change.Why = "RERUN", fmt.Sprintf("Runs again, as Retry #%d.", c.LogicalAttempt-1)
			}
		case interp.ChangeCancel:
			change.Kind, change.To, change.Why = "CANCEL", run.StepFailed, "Asked to stop."
			if v.sig.Type == run.Pause {
				change.Why = "Asked to stop; it starts again when the run is resumed."
			}
		case interp.ChangeSkip:
			change.Kind, change.To, change.Why = "SKIP", run.StepSkipped, "Never starts, because the run fails."
			if id == v.sig.StepID {
				change.Why = "Its dependents can run."
			}
		case interp.ChangeEnd:
			change.Kind, change.To, change.Why = "CHANGE", run.StepSuccess, "Ends with the outcome that you chose."
			if v.sig.Outcome != run.ManualSucceeded {
				change.To = run.StepFailed
			}
		case interp.ChangeUndo:
			change.Kind, change.To, change.Why = "CHANGE", change.From, "Its work is undone, because the run fails."
		}
		v.out.Changes = append(v.out.Changes, change)
	}
}

// status returns the current status of a step, PENDING for a step that the log does not have.
func (v *previewing) status(id string) run.StepStatus {
	if step, ok := v.st.Step(id); ok {
		return step.Status
	}
	return run.StepPending
}

// overlay lists the steps that can still start an attempt, which would see the change (contract T197).
func (v *previewing) overlay() {
	for _, s := range v.sk.Steps {
		if v.sig.StepID != "" && v.sig.StepID != s.StepID {
			continue
		}
		var why string
		status := v.status(s.StepID)
		switch status {
		case run.StepPending:
			why = "Uses the change when it starts."
		case run.StepRunning:
			why = "The running attempt keeps its values; the next one uses the change."
		case run.StepFailed:
			why = "Uses the change if it is retried."
		default:
			continue
		}
		v.out.Changes = append(v.out.Changes, StepChange{StepID: s.StepID, Kind: "CHANGE", From: status, To: status,
			Why: why})
	}
}

// cutOff previews an EMERGENCY_STOP with forceKill, which waits for nothing (contract T99).
func (v *previewing) cutOff() {
	v.out.Status, v.out.Blocked, v.out.Changes = run.Cancelled, nil, nil
	for _, step := range v.st.Steps {
		if step.Status == run.StepRunning {
			v.out.Changes = append(v.out.Changes, StepChange{
				StepID: step.StepID, Kind: "CANCEL", From: run.StepRunning, To: run.StepFailed, Why: "Its attempt is terminated.",
			})
		}
	}
	if len(v.out.Changes) > 0 {
		v.warn("Running attempts are cut off. Their programs may continue outside dvt for a while.")
	}
}

// finishWords says until about when the steps run, in UTC, from their usual durations. It returns "" if one of them is
// unknown. A step that runs longer than usual may end at any time.
func (v *previewing) finishWords(stepIDs []string) string {
	var latest time.Time
	for _, id := range stepIDs {
		step, _ := v.st.Step(id)
		began := step.Attempts[len(step.Attempts)-1].StartedAt
		usual, known := v.medians[id]
		if !known || began == nil {
			return ""
		}
		if at := began.Add(usual); at.After(latest) {
			latest = at
		}
	}
	if !latest.After(v.now) {
		return " soon (longer than usual)"
	}
	return " by about " + latest.UTC().Format("15:04") + " UTC"
}

// warnings adds warnings about steps that delay the effect.
func (v *previewing) warnings() {
	cancelled := map[string]bool{}
	for _, c := range v.out.Changes {
		cancelled[c.StepID] = c.Kind == "CANCEL"
	}
	var stubborn, going []string
	for _, s := range v.sk.Steps {
		step, ok := v.st.Step(s.StepID)
		if !ok || step.Status != run.StepRunning || step.Substatus == run.WaitingManual {
			continue
		}
		switch {
		case cancelled[s.StepID] && !s.Cancellable:
			stubborn = append(stubborn, s.StepID)
		case !cancelled[s.StepID]:
			going = append(going, s.StepID)
		}
	}
	asks := v.sig.Type == run.Cancel || v.sig.Type == run.EmergencyStop && !v.sig.Force
	if asks && len(stubborn) > 0 {
		v.warn("May not stop at once: %s.", firstFew(stubborn))
	}
	if v.sig.Type == run.SkipStep {
		if waiting := v.dependents(); len(waiting) > 0 {
			v.warn("Steps that depend on it start without its outputs: %s.", firstFew(waiting))
		}
	}
	switch {
	case v.sig.Type == run.Pause && len(going) > 0:
		v.warn("Still running, will finish%s: %s.", v.finishWords(going), firstFew(going))
	case v.found.Later && v.sig.Type == run.Resume:
		v.out.Status = run.Running
		v.warn("The run stays paused until these steps have ended: %s.", firstFew(going))
	case v.found.Later:
		v.warn("It takes effect when the run is resumed.")
	}
}

// dependents returns the steps that depend directly on the step of the signal and have not succeeded.
func (v *previewing) dependents() (out []string) {
	for _, s := range v.sk.Steps {
		for _, on := range s.Deps {
			if v.sk.Steps[on].StepID == v.sig.StepID && v.status(s.StepID) != run.StepSuccess {
				out = append(out, s.StepID)
			}
		}
	}
	return out
}
