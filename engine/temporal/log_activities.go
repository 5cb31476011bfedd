package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Inputs and results of the activities that reach the log. A local activity leaves no input in the history, so its
// result holds the data that a replay and a Historian need.
type (
	startInput struct {
		Identity run.Identity `json:"identity"`
		At       time.Time    `json:"at"`
	}
	startResult struct {
		Skeleton engine.Skeleton `json:"skeleton"`
		Append   appendResult    `json:"append"`
	}
	appendInput struct {
		Batch  int          `json:"batch"`
		Append store.Append `json:"append"`
		// UnlessPaused asks for an answer that may be HeldBack.
		UnlessPaused bool `json:"unlessPaused,omitempty"`
		// Epoch is that of the store when the workflow read it last; see logActivities.fence.
		Epoch string `json:"epoch,omitempty"`
	}
	sealedAppend struct {
		Body []byte `json:"body"` // an appendInput
		Seal string `json:"seal"`
	}
	appendResult struct {
		Batch    int             `json:"batch"`
		Recorded interp.Recorded `json:"recorded"`
		Append   store.Append    `json:"append"` // the request, for a Historian
	}
	tailInput struct {
		RunID string  `json:"runId"`
		After run.Seq `json:"after"`
		// Claims are the attempts and hooks that Temporal reports as ended.
		Claims []claim `json:"claims,omitempty"`
		Epoch  string  `json:"epoch,omitempty"` // see appendInput
	}
	claim struct {
		StepID         string `json:"stepId"`
		LogicalAttempt int    `json:"logicalAttempt"`
		Hook           bool   `json:"hook,omitempty"`
	}
	signalsInput struct {
		RunID string `json:"runId"`
		After int64  `json:"after"`
		Hint  int64  `json:"hint,omitempty"`  // the highest signal number that Temporal delivered
		Epoch string `json:"epoch,omitempty"` // see appendInput
	}
	signalsResult struct {
		After   int64           `json:"after"`
		Signals []engine.Signal `json:"signals"`
	}
)

// Purposes of seals.
const (
	sealAppend    = "append"
	sealContinued = "continued"
)

// logActivities are the activities of control workers that reach the log on behalf of workflows. They are safe for
// concurrent use.
type logActivities struct {
	journal   engine.Journal
	keys      ticket.Keys
	namespace string
}

// register registers the activities on a worker of the log queue.
func (l *logActivities) register(w worker.ActivityRegistry) {
	for name, f := range map[string]any{
		activityAppend: l.appendSealed, activityTail: l.tail, activitySignals: l.signals, activitySkeleton: l.skeleton,
		activityStart: l.start,
		activitySleep: l.sleep, activityWakeUp: l.wakeUpSealed,
	} {
		w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

// fence refuses work of a workflow that has read a newer epoch than that of the store of this worker, so that a former
// primary neither reads nor writes for it. Temporal tries again, on any worker of the queue.
func (l *logActivities) fence(ctx context.Context, epoch string) error {
	if j, ok := l.journal.(interface {
		CheckEpoch(ctx context.Context, work string) error
	}); ok {
		return j.CheckEpoch(ctx, epoch)
	}
	return nil
}

// appendSealed is append for the log queue. It verifies the seal of its input.
func (l *logActivities) appendSealed(ctx context.Context, in sealedAppend) (appendResult, error) {
	var a appendInput
	if !l.keys.VerifySeal(in.Seal, sealAppend, string(in.Body)) || json.Unmarshal(in.Body, &a) != nil {
		return appendResult{}, sealError(l.keys, in.Seal, "no worker of this installation asked for this append")
	}
	return l.append(ctx, a)
}

// append writes a batch to the Journal. It is also a local activity, so its name is part of recorded histories; see
// localNames.
func (l *logActivities) append(ctx context.Context, in appendInput) (appendResult, error) {
	out := appendResult{Batch: in.Batch, Append: in.Append}
	if err := l.fence(ctx, in.Epoch); err != nil {
		return out, err
	}
	in.Append.Events = slices.Clone(in.Append.Events) // the Journal completes them
	if err := l.addRef(ctx, in.Append.Events); err != nil {
		return out, err
	}
	write := l.journal.Append
	if in.UnlessPaused {
		write = l.journal.AppendUnlessPaused
	}
	done, err := write(ctx, in.Append)
	var ok bool
	if out.Recorded, ok = interp.Outcome(interp.Append{UnlessPaused: in.UnlessPaused, Append: in.Append}, done, err); !ok {
		return out, retryError(err)
	}
	return out, nil
}

// addRef adds the engine's reference of the execution to RunStarted.
func (l *logActivities) addRef(ctx context.Context, events []run.Draft) error {
	for i := range events {
		if events[i].Type != run.RunStarted {
			continue
		}
		p, err := run.PayloadOf[run.RunStartedPayload](events[i].Payload)
		if err != nil {
			return err
		}
		info := activity.GetInfo(ctx)
		p.Engine = run.EngineRunRef{
			Provider: "temporal", Namespace: l.namespace, WorkflowID: info.WorkflowExecution.ID,
			EngineRunID: info.WorkflowExecution.RunID, TaskQueue: controlQueue(info.TaskQueue),
			PauseAhead: p.Engine.PauseAhead,
		}
		if events[i].Payload, err = json.Marshal(p); err != nil {
			return err
		}
	}
	return nil
}

// tail reads the log and reports the claims of Temporal that the log contradicts.
func (l *logActivities) tail(ctx context.Context, in tailInput) (engine.Tail, error) {
	if err := l.fence(ctx, in.Epoch); err != nil {
		return engine.Tail{}, err
	}
	out, err := l.journal.Tail(ctx, in.RunID, in.After)
	if err != nil {
		return out, retryError(err)
	}
	if out.Seq == out.Head.LastSeq {
		for _, c := range in.Claims {
			if !slices.ContainsFunc(out.Events, c.isMetBy) {
				l.report(ctx, in.RunID, fmt.Sprintf(
					"the engine claims that attempt %d of step %s has ended, but the log has no end of it",
					c.LogicalAttempt, c.StepID))
			}
		}
	}
	return out, nil
}

// isMetBy reports whether an event is the end that a claim asserts.
func (c claim) isMetBy(e engine.LogEvent) bool {
	if e.StepID != c.StepID {
		return false
	}
	if c.Hook {
		return e.Type == run.StepCompensated || e.Type == run.StepCompensationFailed
	}
	return e.LogicalAttempt == c.LogicalAttempt && e.Type.EndsAttempt()
}

// signals reads accepted signals. It reports a signal number that Temporal delivered and that no accepted signal has.
func (l *logActivities) signals(ctx context.Context, in signalsInput) (signalsResult, error) {
	if err := l.fence(ctx, in.Epoch); err != nil {
		return signalsResult{}, err
	}
	list, err := l.journal.Signals(ctx, in.RunID, in.After)
	if err != nil {
		return signalsResult{}, retryError(err)
	}
	last := in.After
	if len(list) > 0 {
		last = list[len(list)-1].No
	}
	if in.Hint > last && len(list) < store.MaxPage {
		l.report(ctx, in.RunID, fmt.Sprintf(
			"the engine received signal number %d, but the last accepted signal has number %d", in.Hint, last))
	}
	return signalsResult{After: in.After, Signals: list}, nil
}

// report reports a forgery to a Journal that accepts such reports.
func (l *logActivities) report(ctx context.Context, runID, what string) {
	if r, ok := l.journal.(engine.ForgeryReporter); ok {
		r.ReportForgery(ctx, runID, what)
	}
}

// loadBeatDetails is the content of the heartbeats of an activity that loads a plan; see engine.PlanLoad.
type loadBeatDetails struct {
	Try   int       `json:"try"`
	Tries int       `json:"tries"`
	Until time.Time `json:"until"`
}

// skeleton loads the plan of a run, which may fetch its document. It sends heartbeats meanwhile; those of a local
// activity go nowhere.
func (l *logActivities) skeleton(ctx context.Context, runID string) (engine.Skeleton, error) {
	beating, stop := context.WithCancel(ctx)
	defer stop()
	var load atomic.Pointer[loadBeatDetails]
	ctx = engine.WithLoadProgress(ctx, func(try, tries int, until time.Time) {
		load.Store(&loadBeatDetails{Try: try, Tries: tries, Until: until})
	})
	go func() {
		tick := time.NewTicker(loadBeat)
		defer tick.Stop()
		for {
			select {
			case <-beating.Done():
				return
			case <-tick.C:
				activity.RecordHeartbeat(beating, load.Load())
			}
		}
	}()
	sk, err := l.journal.Skeleton(ctx, runID)
	return sk, retryError(err)
}

// start reads the skeleton and then appends RunStarted.
func (l *logActivities) start(ctx context.Context, in startInput) (out startResult, err error) {
	if out.Skeleton, err = l.skeleton(ctx, in.Identity.RunID); err != nil {
		return out, err
	}
	if out.Skeleton.Failure != nil {
		return out, nil // the driver ends the run in one batch
	}
	first := firstAppend(in.Identity, in.At)
	out.Append, err = l.append(ctx, appendInput{Batch: first.Batch, Append: first.Append})
	return out, err
}

// retryError converts an error of the Journal for Temporal's retries. An overloaded store sets the delay of the next
// try. A missing run and a refusal of the Journal are not retried. Other errors follow the retry policy.
func retryError(err error) error {
	full, overloaded := errors.AsType[*store.OverloadedError](err)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return temporal.NewNonRetryableApplicationError("the run is not in the store", "NOT_FOUND", err)
	case errors.Is(err, engine.ErrRefused):
		return temporal.NewNonRetryableApplicationError("the Journal refused the call", "REFUSED", err)
	case overloaded:
		return temporal.NewApplicationErrorWithOptions(err.Error(), string(run.CodeStoreOverloaded),
			temporal.ApplicationErrorOptions{
				NextRetryDelay: min(full.RetryAfter, longestRetry), Cause: err,
			})
	}
	return err
}
