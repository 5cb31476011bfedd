package interp

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// record is the machine's connection to the log: queued and outstanding entries.
type record struct {
	queue   []entry
	batches int
	sent    *batch
	gate    run.Gate  // as far as known
	head    run.Seq   // the highest known position of the log
	running int       // non-manual attempts RUNNING at head
	seen    run.Seq   // the log was observed up to this position
	known   []run.Seq // positions after a gap whose events are known, ascending
	behind  bool      // the log has a failure that was not observed
	wanted  bool      // the log must be observed
	needed  run.Seq   // at least up to this position, because a receipt reported a failure there
	reading bool      // ReadLog is outstanding
	// signalNo is the last accepted signal when the log was observed to its head.
	signalNo   int64
	partial    bool      // the last Observed ended before the head
	window     time.Time // a retry window opened by the part observed so far, see applyTail
	orphans    []run.Ord // attempts that started although their dispatches returned
	gateClosed bool      // the log has set GateFailing in this input, see closeGate
	closing    bool      // the end of the run is queued or sent
	alone      int       // number of entries to send one at a time, because the store refused one of them
}

// entry is one fact with its events. All of them go into the same batch.
type entry struct {
	kind       kind
	ord        run.Ord
	drafts     []run.Draft
	outcomes   []store.SignalOutcome // AppliedBy is an index into drafts, or -1
	set, clear run.Gate
	unless     run.Gate   // of waits: gate bits that hold the entry back
	status     run.Status // of ends
	ahead      bool       // of pauses: control has written the RunPaused already
	end        *end       // of stepEnds
}

// maxBatchBytes bounds the payloads of one Append, because engines refuse more than about 2 MiB.
const maxBatchBytes = 512 << 10

func (e *entry) size() (n int) {
	for i := range e.drafts {
		n += len(e.drafts[i].Payload)
	}
	return n
}

// kind says what an entry is about. It selects the action after the entry is recorded.
type kind uint8

const (
	notes kind = iota // no action follows
	starts
	closesGate // see closeGate
	stepEnds
	skips
	pauses
	resumes
	waits
	hooks
	reuses
	ends
)

// batch is an Append that waits for its Recorded.
type batch struct {
	entries    []entry
	set, clear run.Gate
}

func (m *Machine) enqueue(e entry) { m.record.queue = append(m.record.queue, e) }

// flush sends queued entries if no Append is outstanding (contract T191).
func (m *Machine) flush() {
	r := &m.record
	if r.sent != nil || m.done {
		return
	}
	m.withdrawWaits()
	limit := maxBatchBytes
	if r.alone > 0 {
		limit = -1
	}
	a, n := m.compose(r.queue, limit)
	if n == 0 && a.SetGate|a.ClearGate == 0 {
		return
	}
	r.alone = max(0, r.alone-n)
	r.sent = &batch{entries: r.queue[:n:n]}
	r.queue = r.queue[n:]
	m.send(a)
}

// send emits the Append of r.sent.
func (m *Machine) send(a Append) {
	r := &m.record
	r.batches++
	a.Batch = r.batches
	r.sent.set, r.sent.clear = a.SetGate, a.ClearGate
	m.emit(a)
}

// compose makes one Append of the first n entries: as many as fit into limit payload bytes, and at least one.
func (m *Machine) compose(entries []entry, limit int) (a Append, n int) {
	a.RunID = m.cfg.Identity.RunID
	a.Seen = m.record.seen
	var armsFailFast, opens bool // of the batch: it arms fail-fast; it may open the retry window
	for size := 0; n < len(entries) && n < store.MaxBatch; n++ {
		e := &entries[n]
		size += e.size()
		unlessPaused := e.mustNotFollowPause()
		differs := unlessPaused != a.UnlessPaused || e.unless != a.UnlessGate
		if n > 0 && (size > limit || differs || e.goesAlone()) || len(a.Events)+len(e.drafts) > store.MaxBatch {
			break
		}
		a.UnlessPaused, a.UnlessGate = unlessPaused, e.unless
		for _, o := range e.outcomes {
			if o.AppliedBy >= 0 {
				o.AppliedBy += len(a.Events)
			}
			a.Outcomes = append(a.Outcomes, o)
		}
		for _, d := range e.drafts {
			if e.kind != waits { // openWait computed the deadline from the time in the draft
				d.EmittedAt = latest(d.EmittedAt, m.latest)
			}
			a.Events = append(a.Events, d)
		}
		a.SetGate = a.SetGate&^e.clear | e.set
		a.ClearGate = a.ClearGate&^e.set | e.clear
		armsFailFast = armsFailFast || e.kind == stepEnds && e.end.armsFailFast
		opens = opens || e.kind == stepEnds || e.kind == waits || e.kind == resumes
		if e.ahead { // the log has this RunPaused already, so the batch must not change the gate
			return a, n + 1
		}
		if e.goesAlone() {
			n++
			break
		}
	}
	if m.status == run.Running && m.stop.signalID == "" {
		want := armsFailFast || m.failure.count > 0
		switch gate := m.record.gate; {
		case want && (armsFailFast || gate&run.GateFailing == 0):
			a.SetGate |= run.GateFailing
		case !want && gate&run.GateFailing != 0 && !m.record.behind:
			a.ClearGate |= run.GateFailing
		}
		if want && opens && m.mayOpenWindow(entries[:n]) {
			a.RetryDeadline = m.now.Add(m.window())
		}
	}
	return a, n
}

// goesAlone reports whether e must be the only entry of its batch. A lost try of the workflow task may have written e,
// and the run may have been paused or resumed since. The store does not change the gate for a batch that adds nothing.
// With another fact in the batch it would, and the gate would be wrong.
func (e *entry) goesAlone() bool { return e.kind == pauses || e.kind == resumes }

// handleRecorded applies the outcome of the outstanding Append.
func (m *Machine) handleRecorded(in Recorded) {
	r := &m.record
	b := r.sent
	if b == nil || in.Batch != r.batches {
		return
	}
	if in.HeldBack {
		m.holdBack(b, in.Gate)
		return
	}
	if in.Ended {
		r.wanted = true // a lost try of the workflow task wrote the end
		m.holdBack(b, 0)
		return
	}
	r.sent = nil
	for _, e := range in.Ends {
		if e.Rejected {
			m.rewriteRefused(b)
			return
		}
	}
	m.knowHead(in.Head, in.Running)
	for _, e := range in.Ends {
		m.latest = latest(m.latest, e.At)
		if e.Won == "" {
			r.know(e.Seq)
		}
	}
	if in.StillFailing {
		r.behind = true
		b.clear &^= run.GateFailing
	}
	if b.tookEffect(in.Ends) {
		opened := r.gate & b.clear
		r.gate = r.gate&^b.clear | b.set
		if opened != 0 {
			m.schedule.gateOpenings++
		}
		if opened&run.GateFailing != 0 {
			m.failure.generation++
		}
	}
	i := 0
	for j := range b.entries {
		e := &b.entries[j]
		i += len(e.drafts)
		var last RecordedEvent
		if i > 0 && i <= len(in.Ends) {
			last = in.Ends[i-1]
		}
		m.applyRecordedEntry(e, last, in.RunTerminal)
		if m.done {
			return
		}
	}
	switch {
	case in.RunTerminal:
		m.finish("")
	case in.WindowOpened != nil:
		m.adoptWindow(*in.WindowOpened)
	}
}

// know counts an event as observed. Positions after a gap are remembered; the log is read when there are too many.
func (r *record) know(seq run.Seq) {
	if seq <= r.seen {
		return
	}
	i, found := slices.BinarySearch(r.known, seq)
	if !found {
		r.known = slices.Insert(r.known, i, seq)
	}
	n := 0
	for n < len(r.known) && r.known[n] <= r.seen+1 {
		r.seen = max(r.seen, r.known[n])
		n++
	}
	r.known = slices.Delete(r.known, 0, n)
	r.wanted = r.wanted || len(r.known) >= engine.MaxTail
}

// tookEffect reports whether the store changed the gate with this batch. It does not if it refused all facts.
func (b *batch) tookEffect(results []RecordedEvent) bool {
	i := 0
	for j := range b.entries {
		if i += len(b.entries[j].drafts); len(b.entries[j].drafts) == 0 || i > len(results) {
			continue
		}
		if last := results[i-1]; last.Won == "" && last.Seq > 0 {
			return true
		}
	}
	return i == 0
}

// applyRecordedEntry applies one fact that is in the log. last is the outcome of its last event.
func (m *Machine) applyRecordedEntry(e *entry, last RecordedEvent, over bool) {
	switch e.kind {
	case closesGate:
		m.record.gateClosed = true
	case starts:
		m.status = run.Running
		m.record.seen = max(m.record.seen, last.Seq) // the machine needs no events from before the start
		for i := range m.steps {
			if m.steps[i].missing == 0 && m.steps[i].stage == waiting {
				m.makeReady(run.Ord(i))
			}
		}
	case stepEnds, skips:
		m.applyRecordedStep(e, last)
	case pauses:
		m.pause.recorded = true
	case resumes:
		m.endPause()
	case waits:
		m.applyRecordedWait(e.ord)
	case hooks:
		m.applyRecordedHook(last)
	case reuses:
		m.applyRecordedReuse(e.ord)
	case ends:
		switch {
		case last.Won != "":
			m.finish(statusAfter(last.Won))
		case last.Seq == 0 && over:
			m.finish("")
		default:
			m.finish(e.status)
		}
	}
}

func statusAfter(t run.EventType) run.Status {
	switch t {
	case run.RunCompleted:
		return run.Completed
	case run.RunFailed:
		return run.Failed
	case run.RunCancelled:
		return run.Cancelled
	}
	return ""
}

// rewriteRefused repeats a batch with content that the store refused. The store wrote nothing of it, so the machine
// sends its entries one at a time to find the refused one. A refused result of a step becomes a failure (contract
// T190). If the store refuses the run's own events, the machine ends, and control ends the run in the log.
func (m *Machine) rewriteRefused(b *batch) {
	r := &m.record
	switch {
	case len(b.entries) > 1:
		r.alone += len(b.entries)
	case len(b.entries) == 0 || !m.replaceRefused(&b.entries[0]):
		m.finish("")
		return
	}
	r.queue = append(b.entries, r.queue...)
}

// runEvent returns a draft about the run.
func (m *Machine) runEvent(t run.EventType, logicalAttempt int, payload any) []run.Draft {
	d := run.Draft{
		Type: t, LogicalAttempt: logicalAttempt, EngineAttempt: m.cfg.EngineAttempt,
		EmittedAt: m.now, EmittedBy: run.ByEngine,
	}
	d.Payload, _ = encode(payload)
	return []run.Draft{d}
}

// stepEvent returns a draft about the current attempt of a step.
func (m *Machine) stepEvent(o run.Ord, t run.EventType, engineAttempt int, at time.Time,
	payload json.RawMessage) run.Draft {
	return run.Draft{
		Type: t, StepID: m.sk.Steps[o].StepID, LogicalAttempt: m.steps[o].attempt, EngineAttempt: max(1, engineAttempt),
		EmittedAt: at, EmittedBy: run.ByEngine, Payload: payload,
	}
}

// encode returns the JSON of a payload, or nil. It fails only for payloads with invalid raw JSON.
func encode(payload any) (json.RawMessage, error) {
	if payload == nil {
		return nil, nil
	}
	return json.Marshal(payload)
}
