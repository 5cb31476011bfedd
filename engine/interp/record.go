package interp

import (
	"encoding/json"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// record is the way into the log: what waits for it and what is on its way.
type record struct {
	queue   []entry
	batches int
	sent    *batch
	gate    run.Gate // as of the last Recorded
	running int      // non-manual attempts RUNNING as of the last Recorded
	closing bool     // the end of the run is queued or sent
	alone   int      // entries to send one by one, because one of them was refused
}

// entry is one fact with its events, which stay together in one batch.
type entry struct {
	kind       kind
	ord        run.Ord
	drafts     []run.Draft
	outcomes   []store.SignalOutcome // AppliedBy counts within drafts
	set, clear run.Gate
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
	silences   int // times that the store did not answer for it
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
	var arms, opens bool // a failure that arms fail-fast, an event that may open the retry window
	for size := 0; n < len(entries) && n < store.MaxBatch; n++ {
		e := &entries[n]
		m.doubt(e, arms)
		size += e.size()
		apart := m.who.PauseAhead && e.mustNotFollowPause()
		if n > 0 && (size > most || apart != a.UnlessPaused || e.ahead) || len(a.Events)+len(e.drafts) > store.MaxBatch {
			break
		}
		a.UnlessPaused = apart
		for _, o := range e.outcomes {
			if o.AppliedBy >= 0 {
				o.AppliedBy += len(a.Events)
			}
			a.Outcomes = append(a.Outcomes, o)
		}
		a.Events = append(a.Events, e.drafts...)
		a.SetGate = a.SetGate&^e.clear | e.set
		a.ClearGate = a.ClearGate&^e.set | e.clear
		arms = arms || e.kind == stepEnds && e.end.arms
		opens = opens || e.kind == stepEnds || e.kind == waits || e.kind == resumes
		a.IfStarted = a.IfStarted || e.kind == stepEnds && e.end.doubtful
		a.Bounded = a.Bounded || e.completes()
		if e.ahead { // it changes nothing, and so it would change no other gate either
			return a, n + 1
		}
	}
	if m.status == run.Running && m.stop.signalID == "" {
		want := arms || m.failure.count > 0
		switch gate := m.record.gate; {
		case want && (arms || gate&run.GateFailing == 0):
			a.SetGate |= run.GateFailing
		case !want && gate&run.GateFailing != 0:
			a.ClearGate |= run.GateFailing
		}
		if want && opens && m.mayOpenWindow(entries[:n]) {
			a.RetryDeadline = m.now.Add(m.window())
		}
	}
	return a, n
}

// recorded takes over what became of the outstanding Append.
func (m *Machine) recorded(in Recorded) {
	r := &m.record
	b := r.sent
	if b == nil || in.Batch != r.batches {
		return
	}
	if in.Unconfirmed {
		m.unconfirmed(b)
		return
	}
	if in.HeldBack {
		m.heldBack(b)
		return
	}
	r.sent = nil
	for _, e := range in.Ends {
		if e.Rejected {
			m.amend(b)
			return
		}
	}
	r.running = in.Running
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
	case starts:
		m.status = run.Running
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
func (m *Machine) stepEvent(o run.Ord, t run.EventType, engineAttempt int, at time.Time, payload json.RawMessage) run.Draft {
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
