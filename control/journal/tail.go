package journal

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Tail implements engine.Journal. store.ErrNotFound for an unknown run. store.ErrRegressed when the log ends before
// after: the store was restored from an older backup and is not repaired yet.
func (j *Journal) Tail(ctx context.Context, runID string, after run.Seq) (engine.Tail, error) {
	f, kept := j.runs.Get(runID)
	before := run.Seq(0)
	if kept {
		before = f.Log.Highest()
	}
	tails, err := j.cfg.Store.Log.Tails(ctx, []store.TailRequest{{RunID: runID, Seq: after}})
	if err != nil {
		return engine.Tail{}, err
	}
	read, known := tails.ByRun[runID]
	switch {
	case !known:
		return engine.Tail{}, fmt.Errorf("%w: run %s", store.ErrNotFound, runID)
	case read.Head.LastSeq < after:
		// Only a repair confirms that the shorter log is final, contract T194. The store returns ErrRegressed before
		// it.
		_, err := j.cfg.Store.Log.Append(ctx, store.Append{RunID: runID, MinHead: after})
		return engine.Tail{Seq: read.Head.LastSeq, Head: read.Head, Epoch: tails.Epoch}, err
	}
	if kept {
		f.Log.Observe(before, read.Head.LastSeq)
		f.NoteEvents(tails.Epoch, after, read.Events)
	}
	out := engine.Tail{Seq: after, Head: read.Head, Epoch: tails.Epoch}
	for i := range read.Events {
		e := &read.Events[i]
		out.Seq = e.Seq
		if event, ok := logEventOf(e); ok {
			out.Events = append(out.Events, event)
		}
	}
	if len(read.Events) < engine.MaxTail {
		out.Seq = read.Head.LastSeq
	}
	return out, nil
}

// logEventOf returns the part of an event that the interpreter needs; false when it does not need the event.
func logEventOf(e *run.Event) (engine.LogEvent, bool) {
	out := engine.LogEvent{
		Seq: e.Seq, Type: e.Type, StepID: e.StepID, LogicalAttempt: e.LogicalAttempt, EngineAttempt: e.EngineAttempt,
		At: e.EmittedAt,
	}
	switch e.Type {
	case run.StepFailedEvent, run.StepCompensated, run.StepCompensationFailed:
		out.Payload = e.Payload
	case run.StepStartedEvent, run.StepAwaitingManualCompletion, run.StepCompletedEvent, run.StepSkippedEvent:
		if out.Payload = e.Payload; len(out.Payload) > engine.MaxTailPayload {
			out.Payload = retryWindowOf(e.Payload)
		}
	case run.RunPaused, run.RunResumed, run.RunCompensationStarted, run.RunCompleted, run.RunFailed, run.RunCancelled:
	default:
		return engine.LogEvent{}, false
	}
	return out, true
}

// retryWindowOf reduces a payload longer than engine.MaxTailPayload to the retry window that it opened. It returns nil
// when it opened none.
func retryWindowOf(payload json.RawMessage) json.RawMessage {
	var p struct {
		RetryDeadline json.RawMessage `json:"retryDeadline,omitempty"`
	}
	if json.Unmarshal(payload, &p) != nil || p.RetryDeadline == nil {
		return nil
	}
	short, err := json.Marshal(p)
	if err != nil {
		return nil // cannot happen: the value was decoded from JSON
	}
	return short
}
