package trace

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Builder turns the log of one run into spans, event by event. Its memory grows with the steps of the plan, not with
// the log. It is not safe for concurrent use. Create it with New.
type Builder struct {
	id      run.Identity
	trace   TraceID
	root    SpanID
	common  []Attribute // of every span
	created time.Time
	seq     run.Seq
	now     time.Time // never decreases, so that a parent always encloses its children
	began   time.Time
	ended   bool
	failed  bool // a finished span is Failed
	out     []Span
	room    []Attribute // where the attributes of the next finished spans have place
	own     []Attribute // reused for the attributes that a span has beside the common ones

	queuedAt, approvedAt, startedAt time.Time
	queued                          bool // RunQueued is in the log
	rerun                           *run.Rerun

	steps   map[string]*step
	running int // attempts that execute, without those that wait for a person

	pausedEpoch, resumedEpoch int
	pause                     *open

	signals  map[string]*open   // accepted; nil when its span is finished
	refused  map[string]bool    // rejected signals
	overlays map[run.Seq]string // accepted overlays: the signal by its seq

	compensation *open
	hookAt       time.Time // end of the previous hook
	hooks        map[string]bool
}

// open is a span that is not finished.
type open struct {
	start time.Time
	attrs []Attribute
	links []Link
	epoch int  // of a pause
	drain bool // of a pause: steps were running when it began
}

// step is what the builder knows of a step.
type step struct {
	run.StepOutline
	began    time.Time // zero before the first event of the step
	waiting  time.Time // since when the next attempt could start; zero when unknown
	ended    time.Time // of the last attempt that ended
	closed   bool      // its span is finished
	latest   int       // highest logical attempt
	failed   bool      // of the last end
	status   string    // of the last end
	code     string
	links    []Link
	attempts []*attempt // by their number
}

// attempt is a logical attempt that has begun; done is set when its span is finished.
type attempt struct {
	open
	no     int
	manual time.Time // since when it waits for a person; zero when it does not
	done   bool
}

// New returns a builder at the begin of a log. created is the time at which the run was requested, by the store's
// clock: without it a run that waited for approval begins with its approval.
func New(id run.Identity, created time.Time) *Builder {
	return &Builder{id: id, trace: IDOf(id.RunID), root: RootSpan(id.RunID), common: []Attribute{
		text("runId", id.RunID), text("tenantId", id.TenantID), text("projectId", id.ProjectID),
		text("environmentId", id.EnvironmentID), text("planId", id.PlanID), text("planVersion", id.PlanVersion),
	}, created: created, steps: map[string]*step{}, signals: map[string]*open{},
		refused: map[string]bool{}, overlays: map[run.Seq]string{}, hooks: map[string]bool{}}
}

// Of returns the finished spans of a log, in the order in which its events finished them.
func Of(id run.Identity, created time.Time, events []run.Event) []Span {
	return New(id, created).Add(events)
}

// Add reads the next events of the log, in ascending order, and returns the spans that they finish. Events that were
// read before are ignored. The spans of a log are the same however it is divided. The end of the run finishes every
// open span, and the root last; events after it give no spans.
func (b *Builder) Add(events []run.Event) []Span {
	b.out = make([]Span, 0, len(events))
	for i := range events {
		if e := &events[i]; e.Seq > b.seq {
			b.seq = e.Seq
			if !b.ended {
				b.move(e)
				b.apply(e)
			}
		}
	}
	out := b.out
	b.out, b.room = nil, nil // the spans own them
	return out
}

// Seq returns the seq of the last event that was read.
func (b *Builder) Seq() run.Seq { return b.seq }

// Ended reports whether the run has ended, so that the root is finished.
func (b *Builder) Ended() bool { return b.ended }

// Failed reports whether a finished span is Failed.
func (b *Builder) Failed() bool { return b.failed }

// Weight estimates the memory of the builder, in steps and signals.
func (b *Builder) Weight() int {
	return 1 + len(b.steps) + len(b.signals) + len(b.refused) + len(b.overlays)
}

// move advances the clock to an event. A clock in the future cannot carry it past the store's clock, and one in the
// past cannot turn it back.
func (b *Builder) move(e *run.Event) {
	at := e.OccurredAt()
	if persisted := e.PersistedAt.UTC(); at.After(persisted) {
		at = persisted
	}
	if b.began.IsZero() {
		b.began = at
		if c := b.created.UTC(); !b.created.IsZero() && !c.After(e.PersistedAt) {
			b.began = c
		}
		b.now = b.began
	}
	b.now = run.Latest(b.now, at)
}

func (b *Builder) apply(e *run.Event) {
	switch e.Type {
	case run.RunQueued:
		p, _ := run.PayloadOf[run.RunQueuedPayload](e.Payload)
		b.rerun = firstOf(b.rerun, p.Rerun)
		if b.startedAt.IsZero() && !b.queued {
			b.queued, b.queuedAt = true, b.now
		}
	case run.RunApproved:
		b.approve(e)
	case run.RunStarted:
		b.start(e)
	case run.RunPaused:
		b.startPause(e)
	case run.RunResumed:
		b.resume(e)
	case run.RunCompleted, run.RunFailed, run.RunCancelled:
		b.end(e)
	case run.StepStartedEvent, run.StepAwaitingManualCompletion, run.StepCompletedEvent, run.StepFailedEvent,
		run.StepSkippedEvent:
		b.step(e)
	case run.SignalAccepted, run.SignalRejected:
		b.signal(e)
	case run.RunCompensationStarted:
		if b.compensation == nil {
			b.compensation, b.hookAt = &open{start: b.now}, b.now
		}
	case run.StepCompensated, run.StepCompensationFailed:
		b.hook(e)
	}
}

func firstOf[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

func (b *Builder) approve(e *run.Event) {
	p, _ := run.PayloadOf[run.RunApprovedPayload](e.Payload)
	if !b.approvedAt.IsZero() || !b.startedAt.IsZero() {
		return
	}
	if len(p.Approvers) > 0 {
		b.finish(e, Span{Kind: kindApproval, Name: "wait for approval", Start: b.began,
			Attributes: []Attribute{number("approvers", len(p.Approvers))}})
	}
	b.endQueue(e)
	b.rerun, b.approvedAt = firstOf(b.rerun, p.Rerun), b.now
}

// endQueue finishes the wait in the queue, if there is one.
func (b *Builder) endQueue(e *run.Event) {
	if !b.queuedAt.IsZero() {
		b.finish(e, Span{Kind: kindQueue, Name: "wait in the queue", Start: b.queuedAt})
		b.queuedAt = time.Time{}
	}
}

func (b *Builder) endStart(e *run.Event) {
	b.endQueue(e)
	if !b.approvedAt.IsZero() && b.startedAt.IsZero() {
		b.finish(e, Span{Kind: kindStart, Name: "start", Start: b.approvedAt})
	}
}

func (b *Builder) start(e *run.Event) {
	if !b.startedAt.IsZero() {
		return
	}
	b.endStart(e)
	b.startedAt = b.now
	p, _ := run.PayloadOf[run.RunStartedPayload](e.Payload)
	for _, o := range p.Steps {
		b.stepOf(o.StepID).StepOutline = o
	}
}

func (b *Builder) startPause(e *run.Event) {
	epoch := e.LogicalAttempt
	if epoch <= b.pausedEpoch {
		return
	}
	b.pausedEpoch = epoch
	if epoch <= b.resumedEpoch {
		return
	}
	b.endPause(e)
	b.pause = &open{start: b.now, epoch: epoch, drain: b.running > 0}
	b.causeBy(e, signalIn(e), spanID(b.id.RunID, kindPause, itoa(epoch)), b.pause)
}

func (b *Builder) resume(e *run.Event) {
	if e.LogicalAttempt <= b.resumedEpoch {
		return
	}
	b.resumedEpoch = e.LogicalAttempt
	if b.pause == nil || b.pause.epoch > b.resumedEpoch {
		return
	}
	b.causeBy(e, signalIn(e), spanID(b.id.RunID, kindPause, itoa(b.pause.epoch)), b.pause)
	b.endPause(e)
}

// endPause finishes the open pause and what is left of its drain.
func (b *Builder) endPause(e *run.Event) {
	if b.pause == nil {
		return
	}
	b.endDrain(e)
	epoch := itoa(b.pause.epoch)
	b.finish(e, Span{Kind: kindPause, Name: "pause", Start: b.pause.start, Links: b.pause.links,
		Attributes: []Attribute{number("epoch", b.pause.epoch)}}, epoch)
	b.pause = nil
}

// endDrain finishes the drain of the open pause.
func (b *Builder) endDrain(e *run.Event) {
	if b.pause == nil || !b.pause.drain {
		return
	}
	b.pause.drain = false
	epoch := itoa(b.pause.epoch)
	b.finish(e, Span{Kind: kindDrain, Name: "drain", Start: b.pause.start,
		Parent: spanID(b.id.RunID, kindPause, epoch)}, epoch)
}

// addRunning counts the attempts that execute. A pause has drained when there is none.
func (b *Builder) addRunning(e *run.Event, by int) {
	if b.running += by; b.running == 0 {
		b.endDrain(e)
	}
}

func (b *Builder) hook(e *run.Event) {
	p, _ := run.PayloadOf[run.CompensationPayload](e.Payload)
	if b.hooks[e.StepID] {
		return
	}
	b.hooks[e.StepID] = true
	s := Span{Kind: kindHook, Name: "compensate " + e.StepID, Start: b.now,
		Failed:     e.Type == run.StepCompensationFailed,
		Attributes: appendCode([]Attribute{text("stepId", e.StepID), number("attempts", p.Attempts)}, p.ErrorCode)}
	if b.compensation != nil {
		s.Start, s.Parent = b.hookAt, spanID(b.id.RunID, kindCompensation)
	}
	b.finish(e, s, e.StepID)
	b.hookAt = b.now
}

// end finishes what is open, and the root last.
func (b *Builder) end(e *run.Event) {
	status, code := endOf(e)
	b.endStart(e)
	if !b.queued && b.approvedAt.IsZero() && b.startedAt.IsZero() && b.began.Before(b.now) {
		b.finish(e, Span{Kind: kindApproval, Name: "wait for approval", Start: b.began,
			Attributes: appendCode(nil, code)})
	}
	b.endSteps(e, status, code)
	b.endPause(e)
	if b.compensation != nil {
		b.finish(e, Span{Kind: kindCompensation, Name: "compensation", Start: b.compensation.start})
	}
	root := &open{}
	b.causeBy(e, signalIn(e), RootSpan(b.id.RunID), root)
	b.endSignals(e)
	if r := b.rerun; r != nil {
		root.links = append(root.links, Link{Trace: IDOf(r.RunID), Span: RootSpan(r.RunID), Relation: RerunOf})
	}
	b.finish(e, Span{Kind: kindRun, Name: "run " + b.id.PlanID, Start: b.began, Failed: e.Type == run.RunFailed,
		Attributes: appendCode([]Attribute{text("status", status)}, code), Links: root.links})
	b.ended = true
	b.steps, b.signals, b.refused, b.overlays, b.hooks = nil, nil, nil, nil, nil
}

// endOf returns the status of a run after its last event, and the code of its failure or cancellation.
func endOf(e *run.Event) (status, code string) {
	switch e.Type {
	case run.RunFailed:
		p, _ := run.PayloadOf[run.RunFailedPayload](e.Payload)
		return string(run.Failed), p.ErrorCode
	case run.RunCancelled:
		p, _ := run.PayloadOf[run.RunCancelledPayload](e.Payload)
		return string(run.Cancelled), string(p.Code)
	}
	return string(run.Completed), ""
}

// finish adds a span that ends now. Its id follows from its kind and subject, and its parent is the root unless it is
// set.
func (b *Builder) finish(e *run.Event, s Span, subject ...string) {
	s.Trace, s.ID, s.Seq = b.trace, spanID(b.id.RunID, s.Kind, subject...), e.Seq
	if s.Kind != kindRun && s.Parent == (SpanID{}) {
		s.Parent = b.root
	}
	if s.End.IsZero() {
		s.End = b.now
	}
	s.Attributes = b.withCommon(s.Attributes)
	b.failed = b.failed || s.Failed
	b.out = append(b.out, s)
}

// withCommon returns a copy of the attributes of a span after those of every span. Many spans share one array.
func (b *Builder) withCommon(own []Attribute) []Attribute {
	const spans, attributes = 32, 6 // about as many spans share an array, and have as many attributes of their own
	n := len(b.common) + len(own)
	if cap(b.room)-len(b.room) < n {
		b.room = make([]Attribute, 0, max(n, min(cap(b.out), spans)*(len(b.common)+attributes)))
	}
	begin := len(b.room)
	b.room = append(append(b.room, b.common...), own...)
	return b.room[begin:len(b.room):len(b.room)]
}

// mentions reports whether the payload of an event may have one of the keys. Most payloads of steps have none and need
// not be decoded. It misses a key that is written with escapes, which costs a link and nothing else.
func mentions(e *run.Event, keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return bytes.Contains(e.Payload, []byte(key)) })
}

// signalIn returns the id of the signal in the payload of a pause, resume or cancellation.
func signalIn(e *run.Event) string {
	var p struct {
		SignalID string `json:"signalId"`
	}
	_ = json.Unmarshal(e.Payload, &p) // without a readable payload there is no signal
	return p.SignalID
}
