package interp

import (
	"errors"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Outcome translates a Journal's answer to an Append into a Recorded; the driver adds At and Batch. ok is false for an
// error that does not decide about the events, such as a lost connection; the driver then sends the Append again.
func Outcome(a Append, done store.Appended, err error) (r Recorded, ok bool) {
	var schema *run.SchemaError
	var closed *store.GateClosedError
	switch {
	case errors.As(err, &schema):
		// Nothing was written; the machine appends the refusal instead (contract T190).
		r.Ends = make([]RecordedEvent, len(a.Events))
		for i := range r.Ends {
			r.Ends[i].Rejected = true
		}
		return r, true
	case errors.As(err, &closed):
		r.HeldBack, r.Gate = true, closed.Gate
		return r, true
	case errors.Is(err, store.ErrAttemptEnded):
		r.Ended = true
		return r, true
	case a.UnlessPaused && errors.Is(err, engine.ErrPaused):
		r.HeldBack, r.Gate = true, run.GatePaused
		return r, true
	case err != nil:
		return r, false
	}
	r = Recorded{
		StillFailing: a.ClearGate&run.GateFailing != 0 && done.Head.Gate&run.GateFailing != 0,
		Head:         done.Head.LastSeq, Running: done.Head.Running, RunTerminal: done.Head.Terminal,
		WindowOpened: done.WindowOpened,
	}
	for i, o := range done.Outcomes {
		e := RecordedEvent{Seq: o.Seq, NotStarted: o.Refused == run.CodeStepNotStarted}
		at := o.EmittedAt
		if o.Existing != nil {
			at = o.Existing.EmittedAt
			e.replaceBy(o.Existing, o.Refused != "")
		}
		if i < len(a.Events) && at.After(a.Events[i].EmittedAt) {
			e.At = at
		}
		r.Ends = append(r.Ends, e)
	}
	return r, true
}

// replaceBy records the event that the log has instead of the batch's. If the store refused the batch's event, existing
// is another event, so its position and type replace the batch's.
func (e *RecordedEvent) replaceBy(existing *run.Event, refused bool) {
	if refused {
		e.Seq, e.Won = existing.Seq, existing.Type
	}
	switch {
	case existing.Type == run.StepFailedEvent:
		if p, err := run.PayloadOf[run.FailurePayload](existing.Payload); err == nil {
			e.Failure = &p
		}
	case existing.Type.EndsHook():
		if p, err := run.PayloadOf[run.CompensationPayload](existing.Payload); err == nil {
			p.Result = nil
			e.Hook = &p
		}
	}
}

// FailAtOnce returns the Append with the whole log of a run whose plan can never be loaded: RunStarted and RunFailed,
// both at the given time (contract T144). There is no Machine for such a run. An error means that f cannot be encoded.
func FailAtOnce(at time.Time, f run.FailurePayload) (Append, error) {
	started, err := encode(startedPayload{StartedAt: at})
	if err != nil {
		return Append{}, err
	}
	failed, err := encode(run.RunFailedPayload{FailurePayload: f})
	if err != nil {
		return Append{}, err
	}
	draft := run.Draft{LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: at, EmittedBy: run.ByEngine}
	first, last := draft, draft
	first.Type, first.Payload = run.RunStarted, started
	last.Type, last.Payload = run.RunFailed, failed
	return Append{Batch: 1, Append: store.Append{Events: []run.Draft{first, last}}}, nil
}
