package journal

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// KnownLog caches facts of a run's log in this process. It may lag behind the log, but its facts stay true, because
// attempts that started or ended are never undone. A restore may replace the log; another epoch, or a head below the
// known one, shows that, and KnownLog then forgets everything. It is safe for concurrent use.
type KnownLog struct {
	reading chan struct{} // a lock that a context can abandon: holds one value during a read

	mu           sync.Mutex
	epoch        string
	seen         run.Seq // every event up to this one is known
	top          run.Seq // the highest known event
	readAt       time.Time
	steps        []knownStep // in the order of the plan
	compensating bool        // RunCompensationStarted is in the log
	over         bool        // the end of the run is in the log
}

// knownStep holds the highest logical attempt that began, ended or succeeded; 0 for none.
type knownStep struct {
	begun, ended, succeeded int
	skipped                 bool
	hookEnd                 run.Seq
}

// NewKnownLog returns an empty KnownLog for a run with a number of steps.
func NewKnownLog(steps int) *KnownLog {
	return &KnownLog{reading: make(chan struct{}, 1), steps: make([]knownStep, steps)}
}

// Satisfied reports whether steps that depend on this one may start.
func (s knownStep) Satisfied() bool { return s.succeeded > 0 || s.skipped }

// Step returns the known facts of the step at an index of the plan.
func (k *KnownLog) Step(i int) knownStep {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.steps[i]
}

// missing returns the first of the given steps that is not known to be satisfied, or -1 when all are.
func (k *KnownLog) missing(steps []int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, i := range steps {
		if !k.steps[i].Satisfied() {
			return i
		}
	}
	return -1
}

// phase reports whether the log has the start of the compensation and the end of the run.
func (k *KnownLog) phase() (compensating, over bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.compensating, k.over
}

// Position returns the sequence number up to which every event is known.
func (k *KnownLog) Position() run.Seq {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen
}

// note adds one event of the log. at is the index of its step in the plan, or -1 for an event of the run.
func (k *KnownLog) note(t run.EventType, at, logicalAttempt int, seq run.Seq) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.take(t, at, logicalAttempt, seq)
}

// take is note for a caller that holds mu.
func (k *KnownLog) take(t run.EventType, at, logicalAttempt int, seq run.Seq) {
	k.top = max(k.top, seq)
	if at < 0 {
		k.compensating = k.compensating || t == run.RunCompensationStarted
		k.over = k.over || t.EndsRun()
		return
	}
	s := &k.steps[at]
	switch t {
	case run.StepStartedEvent, run.StepAwaitingManualCompletion:
		s.begun = max(s.begun, logicalAttempt)
	case run.StepCompletedEvent:
		s.ended, s.succeeded = max(s.ended, logicalAttempt), max(s.succeeded, logicalAttempt)
	case run.StepFailedEvent:
		s.ended = max(s.ended, logicalAttempt)
	case run.StepSkippedEvent:
		s.ended, s.skipped = max(s.ended, logicalAttempt), true
	case run.StepCompensated, run.StepCompensationFailed:
		if s.hookEnd == 0 || seq < s.hookEnd {
			s.hookEnd = seq
		}
	}
}

// Highest returns the sequence number of the highest known event. Callers read it before a call of the store and pass
// it to Observe afterwards.
func (k *KnownLog) Highest() run.Seq {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.top
}

// Observe forgets everything when a call returned a head below the event that was known before the call: the log was
// replaced. Events that became known during the call prove nothing, because concurrent answers arrive in any order.
func (k *KnownLog) Observe(before, head run.Seq) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if head < before {
		k.forget()
	}
}

// forget discards all facts. The caller holds mu.
func (k *KnownLog) forget() {
	clear(k.steps)
	k.epoch, k.seen, k.top, k.compensating, k.over, k.readAt = "", 0, 0, false, false, time.Time{}
}

// stepIndex returns the index of an event's step in the plan, or -1 for an event of the run. ok is false when the plan
// has no such step.
func (f *RunFacts) stepIndex(stepID string) (i int, ok bool) {
	if stepID == "" {
		return -1, true
	}
	i, ok = f.Steps[stepID]
	return i, ok
}

// NoteEvents adds consecutive events of the log; the first one directly follows after.
func (f *RunFacts) NoteEvents(epoch string, after run.Seq, evs []run.Event) {
	k := f.Log
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.epoch != "" && k.epoch != epoch {
		k.forget()
	}
	k.epoch = epoch
	for i := range evs {
		if at, ok := f.stepIndex(evs[i].StepID); ok {
			k.take(evs[i].Type, at, evs[i].LogicalAttempt, evs[i].Seq)
		}
	}
	if after <= k.seen && len(evs) > 0 {
		k.seen = max(k.seen, evs[len(evs)-1].Seq)
	}
}

// reach marks every event up to seq as known.
func (k *KnownLog) reach(seq run.Seq) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen, k.top = max(k.seen, seq), max(k.top, seq)
}

// NoteState adds the facts of a folded state. A state does not contain the ends of hooks.
func (f *RunFacts) NoteState(st run.State) {
	k := f.Log
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range st.Steps {
		i, ok := f.Steps[s.StepID]
		if !ok {
			continue
		}
		for _, a := range s.Attempts {
			switch a.Status {
			case run.StepSuccess:
				k.take(run.StepCompletedEvent, i, a.LogicalAttempt, a.EndedSeq)
			case run.StepFailed:
				k.take(run.StepFailedEvent, i, a.LogicalAttempt, a.EndedSeq)
			case run.StepSkipped:
				k.take(run.StepSkippedEvent, i, a.LogicalAttempt, a.EndedSeq)
			case run.StepPending, run.StepRunning:
				k.take(run.StepStartedEvent, i, a.LogicalAttempt, a.StartedSeq)
			}
		}
	}
	k.compensating = k.compensating || st.Compensating
	k.over = k.over || st.CompletedAt != nil
	k.seen, k.top = max(k.seen, st.Seq), max(k.top, st.Seq)
}

// learn reports whether says holds for the log. It reads the log only when says does not hold for the known facts, and
// only when the last read is at least age old. Callers that arrive during a read wait for it and share its result. It
// returns the error of the read, or of ctx while it waits.
func (j *Journal) learn(ctx context.Context, f *RunFacts, age time.Duration, says func(*KnownLog) bool) (bool, error) {
	if says(f.Log) {
		return true, nil
	}
	select {
	case f.Log.reading <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-f.Log.reading }()
	f.Log.mu.Lock()
	fresh := age > 0 && j.cfg.Now().Sub(f.Log.readAt) < age
	f.Log.mu.Unlock()
	if fresh || says(f.Log) {
		return says(f.Log), nil
	}
	if err := j.readLog(ctx, f); err != nil {
		return false, err
	}
	return says(f.Log), nil
}

// readLog reads the events that follow the known ones, in one query. When they do not fit into one answer, it reads the
// state instead.
func (j *Journal) readLog(ctx context.Context, f *RunFacts) error {
	now, after, before := j.cfg.Now(), f.Log.Position(), f.Log.Highest()
	tails, err := j.cfg.Store.Log.Tails(ctx, []store.TailRequest{{RunID: f.run.RunID, Seq: after}})
	if err != nil {
		return err
	}
	tail, known := tails.ByRun[f.run.RunID]
	if !known {
		return fmt.Errorf("%w: run %s", store.ErrNotFound, f.run.RunID)
	}
	f.Log.Observe(before, tail.Head.LastSeq)
	f.NoteEvents(tails.Epoch, after, tail.Events)
	if len(tail.Events) < store.MaxTail {
		f.Log.reach(tail.Head.LastSeq)
	}
	if f.Log.Position() < tail.Head.LastSeq {
		if err := j.readState(ctx, f); err != nil {
			return err
		}
	}
	f.Log.mu.Lock()
	f.Log.readAt = now
	f.Log.mu.Unlock()
	return nil
}

// readState learns from the folded state of a long log. The state lacks the ends of hooks; hooks run at the end of a
// log, so the newest page of events has them.
func (j *Journal) readState(ctx context.Context, f *RunFacts) error {
	l, err := j.cfg.Store.Runs.Load(ctx, f.run.RunID)
	if err != nil {
		return err
	}
	f.NoteState(l.State)
	if !l.State.Compensating {
		return nil
	}
	newest, err := j.cfg.Store.Log.EventsBefore(ctx, f.run.RunID, l.State.Seq+1, store.MaxPage)
	for i := range newest {
		if at, ok := f.stepIndex(newest[i].StepID); ok {
			f.Log.note(newest[i].Type, at, newest[i].LogicalAttempt, newest[i].Seq)
		}
	}
	return err
}
