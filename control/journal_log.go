package control

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// knownLog is what this process knows that the log of a run says. It only ever lags behind the log, and what it says
// stays true: an attempt that began or ended stays so. A log that was replaced by a restore is noticed by its epoch or by a
// head below what is known; everything is forgotten then.
type knownLog struct {
	reading chan struct{} // holds one value while somebody reads

	mu           sync.Mutex
	epoch        string
	seen         run.Seq // every event up to here is known
	top          run.Seq // the highest event that is known
	readAt       time.Time
	steps        []knownStep // in the order of the plan
	compensating bool        // RunCompensationStarted is in the log
	over         bool        // the end of the run is in the log
}

// knownStep holds logical attempts, 0 for none.
type knownStep struct {
	begun, ended, succeeded int
	skipped                 bool
	hookEnd                 run.Seq
}

func newKnownLog(steps int) *knownLog {
	return &knownLog{reading: make(chan struct{}, 1), steps: make([]knownStep, steps)}
}

// satisfied reports whether steps that depend on this one may start.
func (s knownStep) satisfied() bool { return s.succeeded > 0 || s.skipped }

// step is what is known of the step at an index of the plan.
func (k *knownLog) step(i int) knownStep {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.steps[i]
}

// missing is the first of the steps that is not known to be satisfied, -1 for none.
func (k *knownLog) missing(steps []int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, i := range steps {
		if !k.steps[i].satisfied() {
			return i
		}
	}
	return -1
}

func (k *knownLog) phase() (compensating, over bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.compensating, k.over
}

// position is the place up to which every event is known.
func (k *knownLog) position() run.Seq {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen
}

// note takes one event that is in the log. Its place in the plan is at, -1 for an event of the run.
func (k *knownLog) note(t run.EventType, at, logicalAttempt int, seq run.Seq) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.take(t, at, logicalAttempt, seq)
}

func (k *knownLog) take(t run.EventType, at, logicalAttempt int, seq run.Seq) {
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

// highest is the highest event that is known. It is what observe takes for the time before a call.
func (k *knownLog) highest() run.Seq {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.top
}

// observe forgets everything when a call answers with a head below what was known before the call: the log was replaced.
// What became known during the call says nothing, as answers of calls at the same time come in any order.
func (k *knownLog) observe(before, head run.Seq) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if head < before {
		k.forget()
	}
}

func (k *knownLog) forget() {
	clear(k.steps)
	k.epoch, k.seen, k.top, k.compensating, k.over, k.readAt = "", 0, 0, false, false, time.Time{}
}

// at is the index of an event's step in the plan: -1 of an event of the run, ok unless the plan has no such step.
func (f *runFacts) at(stepID string) (i int, ok bool) {
	if stepID == "" {
		return -1, true
	}
	i, ok = f.steps[stepID]
	return i, ok
}

// noteEvents takes events of the log that follow the place after. Nothing is between them.
func (f *runFacts) noteEvents(epoch string, after run.Seq, evs []run.Event) {
	k := f.log
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.epoch != "" && k.epoch != epoch {
		k.forget()
	}
	k.epoch = epoch
	for i := range evs {
		if at, ok := f.at(evs[i].StepID); ok {
			k.take(evs[i].Type, at, evs[i].LogicalAttempt, evs[i].Seq)
		}
	}
	if after <= k.seen && len(evs) > 0 {
		k.seen = max(k.seen, evs[len(evs)-1].Seq)
	}
}

// reach says that nothing more is to be read up to a place.
func (k *knownLog) reach(seq run.Seq) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen, k.top = max(k.seen, seq), max(k.top, seq)
}

// noteState takes a state of the log. The ends of hooks are not in it.
func (f *runFacts) noteState(st run.State) {
	k := f.log
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range st.Steps {
		i, ok := f.steps[s.StepID]
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

// learn reports whether the log says something, and reads what this process does not know of it unless that is known
// already. It reads no log that was read less than age ago, and not for every caller: those who come while it reads wait
// for that.
func (j *Journal) learn(ctx context.Context, f *runFacts, age time.Duration, says func(*knownLog) bool) (bool, error) {
	if says(f.log) {
		return true, nil
	}
	select {
	case f.log.reading <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-f.log.reading }()
	f.log.mu.Lock()
	fresh := age > 0 && j.cfg.Now().Sub(f.log.readAt) < age
	f.log.mu.Unlock()
	if fresh || says(f.log) {
		return says(f.log), nil
	}
	if err := j.readLog(ctx, f); err != nil {
		return false, err
	}
	return says(f.log), nil
}

// readLog reads the events that follow what is known, in one query; where they are more than fit, the state.
func (j *Journal) readLog(ctx context.Context, f *runFacts) error {
	now, after, before := j.cfg.Now(), f.log.position(), f.log.highest()
	tails, err := j.cfg.Store.Tails(ctx, []store.Known{{RunID: f.run.RunID, Seq: after}})
	if err != nil {
		return err
	}
	tail, known := tails.ByRun[f.run.RunID]
	if !known {
		return fmt.Errorf("%w: run %s", store.ErrNotFound, f.run.RunID)
	}
	f.log.observe(before, tail.Head.LastSeq)
	f.noteEvents(tails.Epoch, after, tail.Events)
	if len(tail.Events) < store.MaxTail {
		f.log.reach(tail.Head.LastSeq)
	}
	if f.log.position() < tail.Head.LastSeq {
		if err := j.readState(ctx, f); err != nil {
			return err
		}
	}
	f.log.mu.Lock()
	f.log.readAt = now
	f.log.mu.Unlock()
	return nil
}

// readState reads what a long log says. Hooks run at the end of a log, so the newest page of it has their ends.
func (j *Journal) readState(ctx context.Context, f *runFacts) error {
	l, err := j.cfg.Store.Load(ctx, f.run.RunID)
	if err != nil {
		return err
	}
	f.noteState(l.State)
	if !l.State.Compensating {
		return nil
	}
	newest, err := j.cfg.Store.EventsBefore(ctx, f.run.RunID, l.State.Seq+1, store.MaxPage)
	for i := range newest {
		if at, ok := f.at(newest[i].StepID); ok {
			f.log.note(newest[i].Type, at, newest[i].LogicalAttempt, newest[i].Seq)
		}
	}
	return err
}
