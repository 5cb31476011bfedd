package run

import (
	"encoding/json"
	"slices"
	"time"
)

// announce puts the steps of the plan into canonical order (contract T145, T156). It keeps the attempts of steps that
// started before their announcement.
func (f *folding) announce(e *Event, outlines []StepOutline) {
	early := f.s.Steps
	if len(outlines) == 0 && len(early) == 0 {
		return
	}
	before := make(map[string]*Step, len(early))
	for _, step := range early {
		before[step.StepID] = step
	}
	f.s.Steps = make([]*Step, 0, max(len(outlines), len(early)))
	f.own = make(map[Ord]*Step, len(outlines))
	f.copied = true
	announced := make(map[string]bool, len(outlines))
	for _, o := range outlines {
		if announced[o.StepID] {
			f.anomaly(e, "step %q is announced twice", o.StepID)
			continue
		}
		announced[o.StepID] = true
		step := before[o.StepID]
		if step == nil {
			step = &Step{Status: StepPending}
			f.s.Counts.Total++
			f.s.Counts.Pending++
		}
		f.appendStep(e, step, o)
	}
	for _, step := range early {
		if !announced[step.StepID] {
			f.appendStep(e, step, step.StepOutline)
		}
	}
}

// appendStep appends a copy of step with outline o and marks it as changed by e.
func (f *folding) appendStep(e *Event, step *Step, o StepOutline) *Step {
	own := *step
	own.Attempts = slices.Clone(step.Attempts)
	own.StepOutline = o
	own.DependsOn = nilIfEmpty(o.DependsOn)
	own.Ord = Ord(len(f.s.Steps))
	own.ChangedSeq = e.Seq
	f.s.Steps = append(f.s.Steps, &own)
	f.own[own.Ord] = &own
	if f.index != nil {
		f.index[o.StepID] = own.Ord
	}
	return &own
}

// step applies an event about one logical attempt. The status of an attempt only advances, from PENDING to RUNNING to
// terminal, so that late events cannot undo it (contract T42). The step mirrors only its latest attempt (contract T60).
func (f *folding) step(e *Event) {
	ord, known := f.find(e.StepID)
	if !known {
		if f.s.StartedAt != nil {
			f.anomaly(e, "%s of step %q, which the plan does not have", e.Type, e.StepID)
		}
		f.copySteps()
		f.s.Counts.Total++
		f.s.Counts.Pending++
		ord = f.appendStep(e, &Step{Status: StepPending}, StepOutline{StepID: e.StepID}).Ord
	}
	was, existed := f.s.Steps[ord].attempt(e.LogicalAttempt)
	now := was
	if !existed {
		now = Attempt{LogicalAttempt: e.LogicalAttempt, EngineAttempt: e.EngineAttempt, Status: StepPending}
	}
	var changed bool
	if e.Type == StepStartedEvent {
		changed = f.begin(e, ord, &now)
	} else if !was.Status.Terminal() {
		changed = f.advance(e, &now)
	} else if e.Type.EndsAttempt() {
		f.anomaly(e, "%s of %s/%d, which ended at %d", e.Type, e.StepID, e.LogicalAttempt, was.EndedSeq)
	}
	if changed {
		f.put(e, ord, now)
	}
}

// begin applies StepStarted. It reports whether it changed a.
func (f *folding) begin(e *Event, ord Ord, a *Attempt) bool {
	if a.StartedSeq != 0 {
		return false
	}
	at := occurredAt(e)
	a.StartedAt, a.StartedSeq = &at, e.Seq
	if a.Status.Terminal() {
		f.anomaly(e, "StepStarted of %s/%d after its end at %d", e.StepID, e.LogicalAttempt, a.EndedSeq)
		a.setDuration()
		return true
	}
	a.EngineAttempt = e.EngineAttempt
	a.Status = StepRunning
	f.s.RetryDeadline = nil
	for _, id := range f.s.Steps[ord].DependsOn {
		if dep, ok := f.find(id); ok && !f.s.Steps[dep].Status.Unblocks() {
			f.anomaly(e, "StepStarted of %s/%d before %s ended", e.StepID, e.LogicalAttempt, id)
			break
		}
	}
	return true
}

// advance applies every event other than StepStarted to an attempt that has not ended. It reports whether it changed a.
func (f *folding) advance(e *Event, a *Attempt) bool {
	if e.Type == StepAwaitingManualCompletion {
		if a.Substatus == WaitingManual {
			return false
		}
		a.Status, a.Substatus = StepRunning, WaitingManual
		f.openWindow(a.startWait(e))
		return true
	}
	at := occurredAt(e)
	a.CompletedAt, a.EndedSeq, a.EngineAttempt, a.Substatus = &at, e.Seq, e.EngineAttempt, ""
	switch e.Type {
	case StepCompletedEvent:
		p, _ := PayloadOf[StepCompletedPayload](e.Payload)
		a.Status, a.Result, a.Artifacts, a.DurationMS = StepSuccess, canonical(p.Result), nilIfEmpty(p.ArtifactRefs),
			p.DurationMS
		a.Manual, a.Reused = p.Manual.normalize(), p.Reused
		f.collect(p.ArtifactRefs)
		f.openWindow(p.RetryDeadline)
	case StepFailedEvent:
		p, _ := PayloadOf[FailurePayload](e.Payload)
		a.Status, a.Artifacts, a.DurationMS = StepFailed, nilIfEmpty(p.ArtifactRefs), p.DurationMS
		a.Error = &StepError{Code: p.ErrorCode, Message: p.ErrorMessage, Retryable: p.Retryable, Category: p.FailureCategory,
			Source: p.FailureSource, Line: p.ErrorLine}
		a.Manual = p.Manual.normalize()
		f.collect(p.ArtifactRefs)
		f.openWindow(p.RetryDeadline)
	case StepSkippedEvent:
		p, _ := PayloadOf[StepSkippedPayload](e.Payload)
		a.Status, a.Skip = StepSkipped, &Skip{Reason: p.Reason, ReasonCode: p.ReasonCode}
		f.s.RetryDeadline = nil
	}
	a.Nodes = a.Nodes.ended()
	if a.EngineAttempt > 1 {
		a.LastTryMS = max(0, a.DurationMS)
	}
	a.setDuration()
	return true
}

// startWait applies the start and the deadline of a wait for a person. It returns the retry deadline of the event, if
// any.
func (a *Attempt) startWait(e *Event) *time.Time {
	p, _ := PayloadOf[AwaitingPayload](e.Payload)
	since := instantOf(p.Since)
	if since.IsZero() {
		since = occurredAt(e)
	}
	a.WaitingSince, a.WaitDeadline = &since, nil
	if p.Deadline != nil {
		at := instantOf(*p.Deadline)
		a.WaitDeadline = &at
	}
	return p.RetryDeadline
}

// normalize returns m in the form that it has after a round trip through the store.
func (m *ManualEnd) normalize() *ManualEnd {
	if m != nil {
		m.EvidenceRefs = nilIfEmpty(m.EvidenceRefs)
	}
	return m
}

// setDuration sets the duration if both times are known. Clocks of different machines may disagree, so it is never
// negative (contract T19).
func (a *Attempt) setDuration() {
	if a.StartedAt != nil && a.CompletedAt != nil {
		a.DurationMS = max(0, a.CompletedAt.Sub(*a.StartedAt).Milliseconds())
	}
	a.DurationMS = max(0, a.DurationMS)
}

// put stores a in its step and updates the data that the step and the header derive from it.
func (f *folding) put(e *Event, ord Ord, a Attempt) {
	f.copySteps()
	step := f.own[ord]
	if step == nil {
		mine := *f.s.Steps[ord]
		mine.Attempts = slices.Clone(mine.Attempts)
		step = &mine
		f.own[ord], f.s.Steps[ord] = step, step
	}
	step.ChangedSeq = e.Seq
	before := step.latest()
	i, found := step.position(a.LogicalAttempt)
	if found {
		step.Attempts[i] = a
	} else {
		step.Attempts = slices.Insert(step.Attempts, i, a)
	}
	if i < len(step.Attempts)-1 {
		return
	}
	f.s.Counts.add(step, -1)
	f.s.Counts.addEnd(before, -1)
	f.failures = f.failures || step.Status == StepFailed || a.Status == StepFailed
	step.LogicalAttempt, step.Status, step.Substatus = a.LogicalAttempt, a.Status, a.Substatus
	f.s.Counts.add(step, 1)
	f.s.Counts.addEnd(a, 1)
}

// copySteps copies the slice of steps if it is shared.
func (f *folding) copySteps() {
	if !f.copied {
		f.s.Steps = slices.Clone(f.s.Steps)
		f.copied = true
	}
	if f.own == nil {
		f.own = make(map[Ord]*Step)
	}
}

// add adds by, which is 1 or -1, to the counts that the status of step belongs to.
func (c *StepCounts) add(step *Step, by int) {
	switch step.Status {
	case StepPending:
		c.Pending += by
	case StepRunning:
		c.Running += by
	case StepSuccess:
		c.Success += by
	case StepFailed:
		c.Failed += by
	case StepSkipped:
		c.Skipped += by
	}
	if step.Substatus == WaitingManual {
		c.Manual += by
	}
}

// addEnd adds by, which is 1 or -1, to the counts that the end of the latest attempt of a step belongs to.
func (c *StepCounts) addEnd(a Attempt, by int) {
	switch {
	case a.Status == StepFailed && a.Error.IsStop():
		c.Stopped += by
	case a.Status == StepSuccess && a.Reused != nil:
		c.Kept += by
	}
}

// IsStop reports whether an attempt FAILED only because its run was cancelled, stopped or paused.
func (e *StepError) IsStop() bool {
	return e != nil && (e.Code == string(CodeCancelled) || e.Code == string(CodeTerminated) ||
		e.Code == string(CodeCancelledByPause))
}

// MaxRunArtifacts is the maximum number of artifacts in a Header. Further artifacts are only in their attempts.
const MaxRunArtifacts = 10000

// collect adds the artifacts that the run does not list yet (contract T150).
func (f *folding) collect(refs []ArtifactRef) {
	if len(refs) == 0 {
		return
	}
	if f.uris == nil {
		f.uris = make(map[string]bool, len(f.s.Artifacts)+len(refs))
		for _, ref := range f.s.Artifacts {
			f.uris[ref.URI] = true
		}
		f.s.Artifacts = slices.Clip(f.s.Artifacts)
	}
	for _, ref := range refs {
		if !f.uris[ref.URI] && len(f.s.Artifacts) < MaxRunArtifacts {
			f.uris[ref.URI] = true
			f.s.Artifacts = append(f.s.Artifacts, ref)
		}
	}
}

// rootCause returns RootCause in the form of a RunFailed payload, or nil.
func (s State) rootCause() *RootCause {
	ref := s.RootCause
	if ref == nil {
		return nil
	}
	cause := &RootCause{StepID: ref.StepID, LogicalAttempt: ref.LogicalAttempt}
	if ref.Error != nil {
		cause.ErrorCode, cause.ErrorMessage = ref.Error.Code, ref.Error.Message
	}
	return cause
}

// canonical returns raw in the form that it has after a round trip through the store, so that folded and loaded
// states are equal.
func canonical(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	b, err := json.Marshal(raw)
	if err != nil {
		return nil
	}
	return b
}

// nilIfEmpty returns nil for an empty list, because that is the form of a list after a round trip through the store.
func nilIfEmpty[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}
