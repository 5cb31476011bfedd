package storeadmin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// MaxFindings is how many differences, and how many notes, a Verified lists; it
// counts all.
const MaxFindings = 1000

// Verified is what Verify found.
type Verified struct {
	Runs        int       `json:"runs"`
	Events      int64     `json:"events"`
	Differences int       `json:"differences"`
	Notes       int       `json:"notes"`
	Found       []Finding `json:"found,omitempty"` // the differences, by run
	Noted       []Finding `json:"noted,omitempty"` // what is odd, and is as it should be in an imported log
}

// Finding is one place where the store is not what it should be.
type Finding struct {
	RunID    string  `json:"runId"`
	Seq      run.Seq `json:"runSeq,omitempty"` // of the event that it is about
	What     string  `json:"what"`             // such as event.key, head.lastSeq, header.counts.running, steps[2].status
	Stored   string  `json:"stored"`
	Expected string  `json:"expected"`
}

// String is the finding in one line.
func (f Finding) String() string {
	where := f.RunID
	if f.Seq > 0 {
		where = fmt.Sprintf("%s event %d", f.RunID, f.Seq)
	}
	return fmt.Sprintf("%s: %s: stored %s, expected %s", where, f.What, f.Stored, f.Expected)
}

// Verify compares runs, all when none is named, with what their logs say: the keys
// and ids of events (T05, T198), numbers without holes (T190), times that do not
// fall (T18), one terminal per attempt and run (T10), the head, the receipts, and
// the checkpoint against a fold of the whole log. It changes nothing.
//
// A run whose trigger source is TriggerImport keeps foreign keys, ids, numbers and
// times, and events of unknown shape: those are noted, and are no differences.
func Verify(ctx context.Context, s store.Store, only []string, p Progress) (Verified, error) {
	var out Verified
	err := each(ctx, s, only, func(r store.Run) error {
		v := &verification{s: s, run: r, out: &out, foreign: r.TriggerSource == TriggerImport,
			keys: map[run.Key]run.Seq{}, attempts: map[authority.Attempt]mark{}, decided: map[string]run.Seq{}}
		if err := v.verify(ctx); err != nil {
			return err
		}
		out.Runs++
		p.done(r.RunID)
		return nil
	})
	return out, err
}

// verification is that of one run.
type verification struct {
	s       store.Store
	run     store.Run
	foreign bool
	out     *Verified

	checkpoint *run.State
	state      run.State
	last       run.Seq
	lastAt     time.Time
	end        run.Seq // of the run's terminal
	running    int
	keys       map[run.Key]run.Seq
	attempts   map[authority.Attempt]mark
	decided    map[string]run.Seq // signal decisions, by signal
}

// mark is what the log has of an attempt.
type mark struct {
	started, manual bool
	ended           run.Seq
}

func (m mark) runs() bool { return m.started && !m.manual && m.ended == 0 }

func (v *verification) find(seq run.Seq, what string, stored, expected any) {
	v.out.Differences++
	if len(v.out.Found) < MaxFindings {
		v.out.Found = append(v.out.Found, Finding{v.run.RunID, seq, what, show(stored), show(expected)})
	}
}

// odd is a finding that an imported log may have.
func (v *verification) odd(seq run.Seq, what string, stored, expected any) {
	if !v.foreign {
		v.find(seq, what, stored, expected)
		return
	}
	v.out.Notes++
	if len(v.out.Noted) < MaxFindings {
		v.out.Noted = append(v.out.Noted, Finding{v.run.RunID, seq, what, show(stored), show(expected)})
	}
}

// verify reads checkpoint, head and log in this order, so that each is at least
// as new as what it is compared with while others write.
func (v *verification) verify(ctx context.Context) error {
	switch cp, err := v.s.Checkpoint(ctx, v.run.RunID); {
	case err == nil:
		v.checkpoint = &cp
	case !errors.Is(err, store.ErrNotFound):
		v.find(0, "checkpoint", err, "can be read")
	}
	head, ok, err := headOf(ctx, v.s, v.run.RunID)
	if err != nil {
		return err
	}
	if !ok {
		v.find(0, "head", "missing", "one row")
		return nil
	}
	v.state = authority.Base(v.run)
	if v.checkpoint != nil && v.checkpoint.Seq == 0 {
		v.compare()
	}
	for page, err := range pages(ctx, v.s, v.run.RunID, head.LastSeq) {
		if err != nil {
			return err
		}
		v.page(page)
	}
	if v.checkpoint != nil && v.checkpoint.Seq > v.last {
		v.find(0, "checkpoint.seq", v.checkpoint.Seq, fmt.Sprintf("at most %d, where the log ends", v.last))
	}
	if err := v.head(ctx, head); err != nil {
		return err
	}
	return v.receipts(ctx, head)
}

func (v *verification) page(page []run.Event) {
	v.out.Events += int64(len(page))
	for i := range page {
		v.event(&page[i])
	}
	// The checkpoint is compared where it stands: between two events of a page.
	if cp := v.checkpoint; cp != nil && v.state.Seq < cp.Seq && cp.Seq <= page[len(page)-1].Seq {
		upTo := 0
		for upTo < len(page) && page[upTo].Seq <= cp.Seq {
			upTo++
		}
		v.state, _, _ = run.Fold(v.state, page[:upTo])
		v.compare()
		page = page[upTo:]
	}
	v.state, _, _ = run.Fold(v.state, page)
}

func (v *verification) event(e *run.Event) {
	if e.Seq != v.last+1 {
		v.odd(e.Seq, "event.runSeq", e.Seq, v.last+1)
	}
	if e.PersistedAt.Before(v.lastAt) {
		v.odd(e.Seq, "event.persistedAt", e.PersistedAt, "not before "+show(v.lastAt))
	}
	v.last, v.lastAt = e.Seq, e.PersistedAt
	d := draftOf(*e)
	if key := d.Key(v.run.Identity); e.Key != key {
		v.odd(e.Seq, "event.key", e.Key, key)
	}
	if id := e.Key.EventID(); e.EventID != id {
		v.odd(e.Seq, "event.eventId", e.EventID, id)
	}
	if err := d.Validate(v.run.Identity); err != nil {
		v.odd(e.Seq, "event."+string(e.Type), err, "satisfies its schema")
	}
	if first, twice := v.keys[e.Key]; twice {
		v.find(e.Seq, "event.key", fmt.Sprintf("that of event %d too", first), "one event a key")
	}
	v.keys[e.Key] = e.Seq
	switch {
	case e.Type.EndsRun():
		if v.end != 0 {
			v.find(e.Seq, "event."+string(e.Type), "a second end of the run", fmt.Sprintf("one, at %d", v.end))
		} else {
			v.end = e.Seq
		}
	case e.Type.OfSignal():
		v.decided[e.SignalID] = e.Seq
	case v.end != 0 && e.Type.Known():
		v.odd(e.Seq, "event."+string(e.Type), "stands after the end of the run", fmt.Sprintf("nothing but signals after %d",
			v.end))
	}
	v.count(e)
}

// count keeps what runs, as the authority counts it.
func (v *verification) count(e *run.Event) {
	if e.Type != run.StepStartedEvent && e.Type != run.StepAwaitingManualCompletion && !e.Type.EndsAttempt() {
		return
	}
	at := authority.Attempt{StepID: e.StepID, Logical: e.LogicalAttempt}
	m := v.attempts[at]
	before := m.runs()
	switch {
	case e.Type == run.StepStartedEvent:
		m.started = true
	case e.Type == run.StepAwaitingManualCompletion:
		m.manual = true
	case m.ended != 0:
		v.find(e.Seq, "event."+string(e.Type), fmt.Sprintf("a second end of %s/%d", e.StepID, e.LogicalAttempt),
			fmt.Sprintf("one, at %d", m.ended))
	default:
		m.ended = e.Seq
	}
	v.attempts[at] = m
	switch after := m.runs(); {
	case after && !before:
		v.running++
	case before && !after:
		v.running--
	}
}

// head compares the head with what the log implies. Of the gate that is the pause.
func (v *verification) head(ctx context.Context, h store.Head) error {
	if h.LastSeq != v.last {
		v.find(0, "head.lastSeq", h.LastSeq, v.last)
	} else if err := v.beyond(ctx, h); err != nil {
		return err
	}
	if !h.LastAt.Equal(v.lastAt) && v.last > 0 {
		v.odd(0, "head.lastAt", h.LastAt, v.lastAt)
	}
	if ended := v.end != 0; h.Terminal != ended {
		v.find(0, "head.terminal", h.Terminal, ended)
	}
	if h.Running != v.running {
		v.find(0, "head.running", h.Running, v.running)
	}
	if paused := v.state.PausedEpoch > v.state.ResumedEpoch; h.Gate&run.GatePaused != 0 != paused && v.end == 0 {
		v.find(0, "head.gate.paused", h.Gate&run.GatePaused != 0, paused)
	}
	return nil
}

// beyond looks for events that no head covers; the head may have moved since it was read.
func (v *verification) beyond(ctx context.Context, h store.Head) error {
	more, err := v.s.Events(ctx, v.run.RunID, h.LastSeq, 1)
	if err != nil || len(more) == 0 {
		return err
	}
	now, _, err := headOf(ctx, v.s, v.run.RunID)
	if err == nil && now.LastSeq < more[0].Seq {
		v.find(more[0].Seq, "head.lastSeq", now.LastSeq, fmt.Sprintf("at least %d, where an event stands", more[0].Seq))
	}
	return err
}

// receipts compares receipts with the decisions in the log (T93).
func (v *verification) receipts(ctx context.Context, h store.Head) error {
	var top int64
	for r, err := range receipts(ctx, v.s, v.run.RunID) {
		if err != nil {
			return err
		}
		top = max(top, r.No)
		if r.AcceptedSeq > h.LastSeq {
			continue // newer than the head that was read
		}
		if seq := v.decided[r.Signal.ID]; r.AcceptedSeq != seq {
			v.find(seq, "receipt["+r.Signal.ID+"].acceptedSeq", r.AcceptedSeq, seq)
		}
		delete(v.decided, r.Signal.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(v.decided)) {
		v.odd(v.decided[id], "receipt["+id+"]", "missing", "that of the decision in the log")
	}
	now, _, err := headOf(ctx, v.s, v.run.RunID)
	if err == nil && now.SignalNo < top {
		v.find(0, "head.signalNo", now.SignalNo, fmt.Sprintf("at least %d, the number of a receipt", top))
	}
	return err
}
