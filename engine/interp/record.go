package interp

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// record is the way into the log: what waits for it and what is on its way.
type record struct {
	queue   []entry
	batches int
	sent    *batch
	gate    run.Gate  // as far as the machine knows
	head    run.Seq   // the highest that the log was said to have
	running int       // non-manual attempts RUNNING at head
	seen    run.Seq   // up to here the log was observed
	known   []run.Seq // places behind a gap after seen whose events are known, ascending
	behind  bool      // the log has a failure that was not observed yet
	wanted  bool      // the log is to be observed
	needed  run.Seq   // up to here at least: a receipt told of a failure there
	reading bool      // ReadLog is outstanding
	// signalNo is the last signal that was accepted when the log was observed to its head.
	signalNo int64
	partial  bool      // what was read last ended before the head
	window   time.Time // a retry window that the part observed so far opened, see applyTail
	strays   []run.Ord // attempts that began though their dispatches came back
	shut     bool      // the log closed the gate to failing in this very input, see closeGate
	closing  bool      // the end of the run is queued or sent
	alone    int       // entries to send one by one, because one of them was refused
}

// entry is one fact with its events, which stay together in one batch.
type entry struct {
	kind       kind
	ord        run.Ord
	drafts     []run.Draft
	outcomes   []store.SignalOutcome // AppliedBy counts within drafts
	set, clear run.Gate
	unless     run.Gate   // members of the gate that hold it back, of waits
	status     run.Status // of ends
	ahead      bool       // of pauses: the log has it already
	end        *end       // of stepEnds
}

// maxBatchBytes bounds the payloads of one Append: an engine refuses what is
// larger than about 2 MiB.
const maxBatchBytes = 512 << 10

func (e *entry) size() (n int) {
	for i := range e.drafts {
		n += len(e.drafts[i].Payload)
	}
	return n
}

// kind says what to do once an entry is recorded.
type kind uint8

const (
	notes kind = iota // nothing
	starts
	shuts // see closeGate
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

// flush sends what waits, if nothing is outstanding (T191).
func (m *Machine) flush() {
	r := &m.record
	if r.sent != nil || m.done {
		return
	}
	m.withdrawWaits()
	most := maxBatchBytes
	if r.alone > 0 {
		most = -1
	}
	a, n := m.compose(r.queue, most)
	if n == 0 && a.SetGate|a.ClearGate == 0 {
		return
	}
	r.alone = max(0, r.alone-n)
	r.sent = &batch{entries: r.queue[:n:n]}
	r.queue = r.queue[n:]
	m.send(a)
}

// send emits the Append of the batch that is outstanding from now on.
func (m *Machine) send(a Append) {
	r := &m.record
	r.batches++
	a.Batch = r.batches
	r.sent.set, r.sent.clear = a.SetGate, a.ClearGate
	m.emit(a)
}

// compose makes one Append of the first n of the entries: as many as it takes
// whose payloads have at most so many bytes, and one where there is one.
func (m *Machine) compose(entries []entry, most int) (a Append, n int) {
	a.RunID = m.who.Identity.RunID
	a.Seen = m.record.seen
	var arms, opens bool // a failure that arms fail-fast, an event that may open the retry window
	for size := 0; n < len(entries) && n < store.MaxBatch; n++ {
		e := &entries[n]
		size += e.size()
		apart := e.mustNotFollowPause()
		another := apart != a.UnlessPaused || e.unless != a.UnlessGate
		if n > 0 && (size > most || another || e.goesAlone()) || len(a.Events)+len(e.drafts) > store.MaxBatch {
			break
		}
		a.UnlessPaused, a.UnlessGate = apart, e.unless
		for _, o := range e.outcomes {
			if o.AppliedBy >= 0 {
				o.AppliedBy += len(a.Events)
			}
			a.Outcomes = append(a.Outcomes, o)
		}
		for _, d := range e.drafts {
			if e.kind != waits { // their deadlines were counted from the time that they have
				d.EmittedAt = later(d.EmittedAt, m.latest)
			}
			a.Events = append(a.Events, d)
		}
		a.SetGate = a.SetGate&^e.clear | e.set
		a.ClearGate = a.ClearGate&^e.set | e.clear
		arms = arms || e.kind == stepEnds && e.end.arms
		opens = opens || e.kind == stepEnds || e.kind == waits || e.kind == resumes
		if e.ahead { // it changes nothing, and so it would change no other gate either
			return a, n + 1
		}
		if e.goesAlone() {
			n++
			break
		}
	}
	if m.status == run.Running && m.stop.signalID == "" {
		want := arms || m.failure.count > 0
		switch gate := m.record.gate; {
		case want && (arms || gate&run.GateFailing == 0):
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

// goesAlone reports whether nothing else may stand in the batch of e. A try of this machine that the engine lost may
// have written e, and the pause may have changed since: a batch that adds nothing changes no gate, one with another
// fact in it would.
func (e *entry) goesAlone() bool { return e.kind == pauses || e.kind == resumes }

// recorded takes over what became of the outstanding Append.
func (m *Machine) recorded(in Recorded) {
	r := &m.record
	b := r.sent
	if b == nil || in.Batch != r.batches {
		return
	}
	if in.HeldBack {
		m.heldBack(b, in.Gate)
		return
	}
	if in.Ended {
		r.wanted = true // an earlier try of this machine wrote the end, and the engine lost that try
		m.heldBack(b, 0)
		return
	}
	r.sent = nil
	for _, e := range in.Ends {
		if e.Rejected {
			m.amend(b)
			return
		}
	}
	m.knowHead(in.Head, in.Running)
	for _, e := range in.Ends {
		m.latest = later(m.latest, e.At)
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
			m.schedule.openings++
		}
		if opened&run.GateFailing != 0 {
			m.failure.era++
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
		m.entryRecorded(e, last, in.RunTerminal)
		if m.done {
			return
		}
	}
	switch {
	case in.RunTerminal:
		m.finish("")
	case in.WindowOpened != nil:
		m.windowOpened(*in.WindowOpened)
	}
}

// know counts an event as observed. What lies behind a gap is remembered, and read again when that becomes much.
func (r *record) know(seq run.Seq) {
	if seq <= r.seen {
		return
	}
	i, there := slices.BinarySearch(r.known, seq)
	if !there {
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

// tookEffect reports whether the store changed the gate with this batch: an
// Append whose facts were all refused leaves it alone.
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

// entryRecorded applies one fact that is in the log; last is the outcome of its
// last event.
func (m *Machine) entryRecorded(e *entry, last RecordedEvent, over bool) {
	switch e.kind {
	case shuts:
		m.record.shut = true
	case starts:
		m.status = run.Running
		m.record.seen = max(m.record.seen, last.Seq) // what came before it is not the machine's
		for i := range m.steps {
			if m.steps[i].missing == 0 && m.steps[i].stage == waiting {
				m.makeReady(run.Ord(i))
			}
		}
	case stepEnds, skips:
		m.stepRecorded(e, last)
	case pauses:
		m.pause.recorded = true
	case resumes:
		m.resumed()
	case waits:
		m.waitRecorded(e.ord)
	case hooks:
		m.hookRecorded(last)
	case reuses:
		m.reuseRecorded(e.ord)
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

// amend repeats a batch of which the store refused some content: it wrote
// nothing of it, and which entry is to blame shows when each goes alone. The
// result of a step that the log cannot take becomes a failure (T190). A run
// whose own events are refused cannot go on; it ends here, and the sweeper ends
// it in the log.
func (m *Machine) amend(b *batch) {
	r := &m.record
	switch {
	case len(b.entries) > 1:
		r.alone += len(b.entries)
	case len(b.entries) == 0 || !m.rejected(&b.entries[0]):
		m.finish("")
		return
	}
	r.queue = append(b.entries, r.queue...)
}

// runEvent is a draft about the run.
func (m *Machine) runEvent(t run.EventType, la int, payload any) []run.Draft {
	d := run.Draft{
		Type: t, LogicalAttempt: la, EngineAttempt: m.who.EngineAttempt,
		EmittedAt: m.now, EmittedBy: run.ByEngine,
	}
	d.Payload, _ = encode(payload)
	return []run.Draft{d}
}

// stepEvent is a draft about the current attempt of a step.
func (m *Machine) stepEvent(o run.Ord, t run.EventType, engineAttempt int, at time.Time,
	payload json.RawMessage) run.Draft {
	return run.Draft{
		Type: t, StepID: m.sk.Steps[o].StepID, LogicalAttempt: m.steps[o].la, EngineAttempt: max(1, engineAttempt),
		EmittedAt: at, EmittedBy: run.ByEngine, Payload: payload,
	}
}

// encode gives the JSON of a payload, nil for none. Only a payload with raw JSON
// of others in it can fail.
func encode(payload any) (json.RawMessage, error) {
	if payload == nil {
		return nil, nil
	}
	return json.Marshal(payload)
}
