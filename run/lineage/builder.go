package lineage

import (
	"maps"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Builder turns the log of one run into events. Its memory grows with the steps of the plan and with the nodes of
// steps that are not closed. It is not safe for concurrent use. Create it with New.
//
// A step is closed when it succeeded or was skipped, or by the end of the run: one that failed may be retried. Its
// nodes are reported when it is closed, because only then their last results are known. A step whose results a rerun
// took over did not execute and has no events.
type Builder struct {
	id    run.Identity
	since time.Time
	self  subject

	seq   run.Seq
	began time.Time
	now   time.Time // never decreases, and never exceeds the clock of the store
	sent  bool      // the START of the run
	ended bool
	steps map[string]*step
	out   []Event
}

// step is a step that has begun.
type step struct {
	self      subject
	began     time.Time
	ended     time.Time // of the last attempt that failed
	sent      bool      // its START
	closed    bool
	failure   string
	folds     map[int]*run.Nodes // by logical attempt
	newest    int                // the logical attempt that reported nodes last
	manifest  *run.ArtifactRef
	warehouse string
}

// New returns a builder at the begin of a log. Events of the log before since give no events of lineage. A run or step
// that started before since has its START with its end.
func New(id run.Identity, since time.Time) *Builder {
	return &Builder{id: id, since: since, steps: map[string]*step{},
		self: subject{run: RunID(id.RunID), name: id.PlanID, kind: "DAG"}}
}

// Of returns the events of a whole log.
func Of(id run.Identity, events []run.Event) []Event { return New(id, time.Time{}).Add(events) }

// Add reads the next events of the log, in ascending order, and returns what they give. Events that were read before
// are ignored. The result does not depend on how a log is divided.
func (b *Builder) Add(events []run.Event) []Event {
	b.out = nil
	for i := range events {
		if e := &events[i]; e.Seq > b.seq {
			b.seq = e.Seq
			if !b.ended {
				b.move(e)
				b.apply(e)
			}
		}
	}
	return b.out
}

// Seq returns the seq of the last event that was read.
func (b *Builder) Seq() run.Seq { return b.seq }

// Weight estimates the memory of the builder, in steps and nodes.
func (b *Builder) Weight() int {
	w := 1 + len(b.steps)
	for _, s := range b.steps {
		for _, f := range s.folds {
			w += len(f.List)
		}
	}
	return w
}

func (b *Builder) move(e *run.Event) {
	at := e.OccurredAt()
	if persisted := e.PersistedAt.UTC(); at.After(persisted) {
		at = persisted
	}
	b.now = run.Latest(b.now, at)
	if b.began.IsZero() {
		b.began = b.now
	}
}

func (b *Builder) apply(e *run.Event) {
	switch e.Type {
	case run.RunStarted:
		if !b.sent {
			b.began = b.now
			b.sent = b.emit(e, Event{State: Start, Time: b.now, of: b.self})
		}
	case run.StepStartedEvent, run.StepAwaitingManualCompletion, run.StepNodesReported, run.StepCompletedEvent,
		run.StepFailedEvent, run.StepSkippedEvent:
		b.step(e)
	case run.RunCompleted, run.RunFailed, run.RunCancelled:
		b.end(e)
	}
}

// emit adds an event. It returns false for one that is older than since.
func (b *Builder) emit(e *run.Event, out Event) bool {
	if e.PersistedAt.Before(b.since) {
		return false
	}
	part := "-end"
	if out.State == Start {
		part = "-start"
	}
	out.ID, out.Seq, out.At = out.of.run+part, e.Seq, e.PersistedAt
	out.namespace, out.Time = Namespace(b.id), out.Time.UTC()
	if out.parent != nil {
		out.root = &b.self
	}
	b.out = append(b.out, out)
	return true
}

func (b *Builder) step(e *run.Event) {
	s := b.steps[e.StepID]
	if s == nil {
		s = &step{began: b.now, self: subject{run: StepID(b.id.RunID, e.StepID), kind: "TASK",
			name: b.id.PlanID + "." + e.StepID}}
		b.steps[e.StepID] = s
	}
	if s.closed {
		return
	}
	switch e.Type {
	case run.StepStartedEvent, run.StepAwaitingManualCompletion:
		b.start(e, s)
	case run.StepNodesReported:
		s.report(e)
	case run.StepCompletedEvent:
		p, _ := run.PayloadOf[run.StepCompletedPayload](e.Payload)
		if p.Reused != nil {
			s.closed, s.folds = true, nil
			return
		}
		s.takeManifest(p.ArtifactRefs)
		s.failure = ""
		b.close(e, e.StepID, s, Complete, b.now)
	case run.StepFailedEvent:
		p, _ := run.PayloadOf[run.FailurePayload](e.Payload)
		s.takeManifest(p.ArtifactRefs)
		s.ended, s.failure = b.now, failureText(p.ErrorCode, p.ErrorMessage)
	case run.StepSkippedEvent:
		s.failure = ""
		b.close(e, e.StepID, s, Abort, b.now)
	}
}

func (b *Builder) start(e *run.Event, s *step) {
	if !s.sent {
		s.sent = b.emit(e, Event{State: Start, Time: s.began, of: s.self, parent: &b.self})
	}
}

// takeManifest remembers the manifest of the newest attempt that stored one.
func (s *step) takeManifest(refs []run.ArtifactRef) {
	for i := range refs {
		if refs[i].Kind == run.KindDBTManifest {
			s.manifest = &refs[i]
		}
	}
}

// report adds the nodes of a report. An attempt that continues another one begins with the nodes of that.
func (s *step) report(e *run.Event) {
	p, _ := run.PayloadOf[struct {
		Base      int    `json:"base"`
		Warehouse string `json:"warehouse"`
	}](e.Payload)
	if p.Warehouse != "" {
		s.warehouse = run.Text(p.Warehouse, run.MaxNodeID)
	}
	if s.folds == nil {
		s.folds = map[int]*run.Nodes{}
	}
	fold := s.folds[e.LogicalAttempt]
	if fold == nil {
		fold = &run.Nodes{}
		if base := s.folds[p.Base]; base != nil && p.Base < e.LogicalAttempt {
			*fold = base.Continue()
		}
		s.folds[e.LogicalAttempt] = fold
	}
	fold.Apply(e)
	s.newest = max(s.newest, e.LogicalAttempt)
}

// close reports the nodes of a step and its end.
func (b *Builder) close(e *run.Event, stepID string, s *step, as State, at time.Time) {
	b.start(e, s)
	if fold := s.folds[s.newest]; fold != nil {
		for i := range fold.List {
			b.node(e, stepID, s, fold.List[i], at)
		}
	}
	b.emit(e, Event{State: as, Time: at, of: s.self, parent: &b.self, failure: s.failure})
	s.closed, s.folds = true, nil
}

// node reports START and end of a node, within the time of its step: dbt has a clock of its own.
func (b *Builder) node(e *run.Event, stepID string, s *step, n run.Node, end time.Time) {
	if n.Type == "operation" { // a hook: it has no datasets, and several runs of it share an id
		return
	}
	within := func(at *time.Time, otherwise time.Time) time.Time {
		if at == nil {
			return otherwise
		}
		return run.Latest(s.began, earliest(*at, end))
	}
	ended := within(n.EndedAt, end)
	began := earliest(within(n.StartedAt, ended), ended)
	out := Event{State: Start, Time: began, parent: &s.self, node: &n, Manifest: s.manifest, warehouse: s.warehouse,
		of: subject{run: NodeID(b.id.RunID, stepID, n.ID), name: s.self.name + "." + n.ID, kind: kindOf(n)}}
	b.emit(e, out)
	out.Time = ended
	switch n.Status {
	case run.NodeSuccess, run.NodeWarn:
		out.State = Complete
	case run.NodeFailed:
		out.State, out.failure = Fail, n.Error
		if out.failure == "" {
			out.failure = "dbt reported no message"
		}
	case run.NodeSkipped, run.NodeRunning, run.NodeUnfinished:
		out.State = Abort
	}
	b.emit(e, out)
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// end closes the steps that are open, in the order of their ids, and then the run.
func (b *Builder) end(e *run.Event) {
	if !b.sent {
		b.sent = b.emit(e, Event{State: Start, Time: b.began, of: b.self})
	}
	for _, id := range slices.Sorted(maps.Keys(b.steps)) {
		s := b.steps[id]
		switch {
		case s.closed:
		case !s.ended.IsZero():
			b.close(e, id, s, Fail, s.ended)
		default:
			b.close(e, id, s, Abort, b.now)
		}
	}
	out := Event{State: Complete, Time: b.now, of: b.self}
	switch e.Type {
	case run.RunFailed:
		p, _ := run.PayloadOf[run.RunFailedPayload](e.Payload)
		out.State, out.failure = Fail, failureText(p.ErrorCode, p.ErrorMessage)
	case run.RunCancelled:
		out.State = Abort
	}
	b.emit(e, out)
	b.ended, b.steps = true, nil
}

func failureText(code, message string) string {
	switch {
	case message == "":
		return code
	case code == "":
		return message
	}
	return code + ": " + message
}
