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

// MaxFindings limits the differences, and the notes, that a Verified lists. It counts all of them.
const MaxFindings = 1000

// VerifyOptions narrow and widen a verification. The zero value verifies every run without its artifacts.
type VerifyOptions struct {
	Runs []string // only these; none: all
	// From and To leave out the runs to which nothing was written in this time: those that were created at To or later,
	// and those whose last event is older than From. A zero time is no bound.
	From, To time.Time
	// Artifact, if not nil, is called for each artifact that a step reported, by at most 8 goroutines at once. It returns
	// the fault of the content, or "" when there is none. An error means that the artifact could not be read, and ends the
	// verification.
	Artifact func(ctx context.Context, s *run.State, ref run.ArtifactRef) (wrong string, err error)
}

// Verified is the result of Verify.
type Verified struct {
	Runs        int       `json:"runs"`
	Events      int64     `json:"events"`
	Artifacts   int       `json:"artifacts,omitempty"` // that were read
	Differences int       `json:"differences"`
	Notes       int       `json:"notes"`
	Found       []Finding `json:"found,omitempty"` // the differences, by run
	Noted       []Finding `json:"noted,omitempty"` // the notes: deviations that need no repair
	// Affected are the runs with differences, at most MaxFindings.
	Affected []AffectedRun `json:"affected,omitempty"`
}

// AffectedRun is a run with differences, and the facts that its owner needs.
type AffectedRun struct {
	RunID         string    `json:"runId"`
	TenantID      string    `json:"tenantId"`
	ProjectID     string    `json:"projectId"`
	EnvironmentID string    `json:"environmentId"`
	PlanID        string    `json:"planId"`
	CreatedAt     time.Time `json:"createdAt"`
	LastAt        time.Time `json:"lastAt,omitzero"` // of its last event that can be read
	Differences   int       `json:"differences"`
}

// Finding is a value in the store that differs from the expected one.
type Finding struct {
	RunID string  `json:"runId"`
	Seq   run.Seq `json:"runSeq,omitempty"` // of the event concerned, 0 for none
	// What is the path of the value, such as event.key, head.lastSeq, header.counts.running or steps[2].status.
	What     string `json:"what"`
	Stored   string `json:"stored"`
	Expected string `json:"expected"`
}

// String returns the finding in one line.
func (f Finding) String() string {
	where := f.RunID
	if f.Seq > 0 {
		where = fmt.Sprintf("%s event %d", f.RunID, f.Seq)
	}
	return fmt.Sprintf("%s: %s: stored %s, expected %s", where, f.What, f.Stored, f.Expected)
}

// Verify checks the runs of the options. It checks the events of the log: their keys and ids (contract T05, T198),
// numbers without holes (contract T190), times that never decrease (contract T18), and one end for each attempt and the
// run (contract T10). It compares the head and the receipts with the log, and the checkpoint with a fold of the log. It
// changes nothing. *UnknownRunsError when a named run does not exist.
//
// A run whose trigger source is TriggerImport may have foreign keys, ids, numbers, times and artifacts, and events of
// unknown form. They are notes, not differences. A run whose archived log is missing or damaged is a difference.
func Verify(ctx context.Context, s store.Store, o VerifyOptions, p Progress) (Verified, error) {
	var out Verified
	err := forEachRun(ctx, s, o.Runs, func(r store.Run) error {
		if !o.To.IsZero() && !r.CreatedAt.Before(o.To) {
			return nil
		}
		v := &verification{s: s, run: r, options: o, out: &out, foreign: r.TriggerSource == TriggerImport,
			keys: map[run.Key]run.Seq{}, attempts: map[authority.Attempt]mark{}, decided: map[string]run.Seq{}}
		before := out.Differences
		verified, err := v.verify(ctx)
		if err != nil || !verified {
			return err
		}
		out.Runs++
		if n := out.Differences - before; n > 0 && len(out.Affected) < MaxFindings {
			out.Affected = append(out.Affected, AffectedRun{RunID: r.RunID, TenantID: r.TenantID, ProjectID: r.ProjectID,
				EnvironmentID: r.EnvironmentID, PlanID: r.PlanID, CreatedAt: r.CreatedAt, LastAt: v.lastAt, Differences: n})
		}
		p.done(r.RunID)
		return nil
	})
	return out, err
}

// verification is the verification of one run.
type verification struct {
	s       store.Store
	run     store.Run
	options VerifyOptions
	foreign bool
	out     *Verified

	checkpoint *run.State
	state      run.State
	last       run.Seq
	lastAt     time.Time
	end        run.Seq // of the event that ends the run, 0 for none
	running    int
	keys       map[run.Key]run.Seq
	attempts   map[authority.Attempt]mark
	decided    map[string]run.Seq // signal decisions, by signal
	reported   []reportedArtifact
}

// mark says which events of an attempt are in the log.
type mark struct {
	started, manual bool
	ended           run.Seq // of the event that ends it, 0 for none
}

func (m mark) runs() bool { return m.started && !m.manual && m.ended == 0 }

// find adds a difference.
func (v *verification) find(seq run.Seq, what string, stored, expected any) {
	v.out.Differences++
	if len(v.out.Found) < MaxFindings {
		v.out.Found = append(v.out.Found, Finding{v.run.RunID, seq, what, display(stored), display(expected)})
	}
}

// note adds a difference, or a note when the log was imported and may have it.
func (v *verification) note(seq run.Seq, what string, stored, expected any) {
	if !v.foreign {
		v.find(seq, what, stored, expected)
		return
	}
	v.out.Notes++
	if len(v.out.Noted) < MaxFindings {
		v.out.Noted = append(v.out.Noted, Finding{v.run.RunID, seq, what, display(stored), display(expected)})
	}
}

// verify reads checkpoint, head and log in this order. Each is then at least as new as the one before, so that
// concurrent writes cause no false differences. It returns false for a run that the options leave out.
func (v *verification) verify(ctx context.Context) (bool, error) {
	switch cp, err := v.s.Checkpoint(ctx, v.run.RunID); {
	case err == nil:
		v.checkpoint = &cp
	case !errors.Is(err, store.ErrNotFound):
		v.find(0, "checkpoint", err, "a readable checkpoint")
	}
	head, ok, err := headOf(ctx, v.s, v.run.RunID)
	if err != nil {
		return false, err
	}
	if !ok {
		v.find(0, "head", "missing", "one row")
		return true, nil
	}
	if head.LastAt.Before(v.options.From) {
		return false, nil
	}
	v.state = authority.Base(v.run)
	if v.checkpoint != nil && v.checkpoint.Seq == 0 {
		v.compareCheckpoint()
	}
	for page, err := range pages(ctx, v.s, v.run.RunID, head.LastSeq) {
		if errors.Is(err, store.ErrArchiveDamaged) {
			v.find(v.last+1, "archive", err, "the log that was archived")
			return true, nil
		}
		if err != nil {
			return false, err
		}
		v.page(page)
	}
	if v.checkpoint != nil && v.checkpoint.Seq > v.last {
		v.find(0, "checkpoint.seq", v.checkpoint.Seq, fmt.Sprintf("at most %d, the end of the log", v.last))
	}
	if err := v.compareHead(ctx, head); err != nil {
		return true, err
	}
	if err := v.compareReceipts(ctx, head); err != nil {
		return true, err
	}
	return true, v.readArtifacts(ctx)
}

func (v *verification) page(page []run.Event) {
	v.out.Events += int64(len(page))
	for i := range page {
		v.event(&page[i])
	}
	// The checkpoint must be compared with the state at its seq, which may be in the middle of a page.
	if cp := v.checkpoint; cp != nil && v.state.Seq < cp.Seq && cp.Seq <= page[len(page)-1].Seq {
		upTo := 0
		for upTo < len(page) && page[upTo].Seq <= cp.Seq {
			upTo++
		}
		v.state, _, _ = run.Fold(v.state, page[:upTo])
		v.compareCheckpoint()
		page = page[upTo:]
	}
	v.state, _, _ = run.Fold(v.state, page)
}

func (v *verification) event(e *run.Event) {
	if e.Seq != v.last+1 {
		v.note(e.Seq, "event.runSeq", e.Seq, v.last+1)
	}
	if e.PersistedAt.Before(v.lastAt) {
		v.note(e.Seq, "event.persistedAt", e.PersistedAt, "not before "+display(v.lastAt))
	}
	v.last, v.lastAt = e.Seq, e.PersistedAt
	d := draftOf(*e)
	if key := d.Key(v.run.Identity); e.Key != key {
		v.note(e.Seq, "event.key", e.Key, key)
	}
	if id := e.Key.EventID(); e.EventID != id {
		v.note(e.Seq, "event.eventId", e.EventID, id)
	}
	if err := d.Validate(v.run.Identity); err != nil {
		v.note(e.Seq, "event."+string(e.Type), err, "a valid event")
	}
	if first, twice := v.keys[e.Key]; twice {
		v.find(e.Seq, "event.key", fmt.Sprintf("also the key of event %d", first), "one event for each key")
	}
	v.keys[e.Key] = e.Seq
	switch {
	case e.Type.EndsRun():
		if v.end != 0 {
			v.find(e.Seq, "event."+string(e.Type), "a second end of the run", fmt.Sprintf("one end, at %d", v.end))
		} else {
			v.end = e.Seq
		}
	case e.Type.OfSignal():
		v.decided[e.SignalID] = e.Seq
	case v.end != 0 && e.Type.Known():
		v.note(e.Seq, "event."+string(e.Type), "is after the end of the run", fmt.Sprintf("only signals after %d",
			v.end))
	}
	v.count(e)
	v.collect(e)
}

// count counts the running attempts like package authority.
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
			fmt.Sprintf("one end, at %d", m.ended))
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

// compareHead compares the head with the log. The log determines only one bit of the gate: whether the run is paused.
func (v *verification) compareHead(ctx context.Context, h store.Head) error {
	if h.LastSeq != v.last {
		v.find(0, "head.lastSeq", h.LastSeq, v.last)
	} else if err := v.checkBeyondHead(ctx, h); err != nil {
		return err
	}
	if !h.LastAt.Equal(v.lastAt) && v.last > 0 {
		v.note(0, "head.lastAt", h.LastAt, v.lastAt)
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

// checkBeyondHead looks for events after the head. It reads the head again, because a server may have appended
// meanwhile.
func (v *verification) checkBeyondHead(ctx context.Context, h store.Head) error {
	more, err := v.s.Events(ctx, v.run.RunID, h.LastSeq, 1)
	if err != nil || len(more) == 0 {
		return err
	}
	now, _, err := headOf(ctx, v.s, v.run.RunID)
	if err == nil && now.LastSeq < more[0].Seq {
		v.find(more[0].Seq, "head.lastSeq", now.LastSeq, fmt.Sprintf("at least %d, because that event exists", more[0].Seq))
	}
	return err
}

// compareReceipts compares receipts with the decisions in the log. Each decision has a receipt, and each receipt names
// the seq of its decision (contract T93).
func (v *verification) compareReceipts(ctx context.Context, h store.Head) error {
	var top int64
	for r, err := range receipts(ctx, v.s, v.run.RunID) {
		if err != nil {
			return err
		}
		top = max(top, r.No)
		if r.AcceptedSeq > h.LastSeq {
			continue // a server wrote it after the head was read
		}
		if seq := v.decided[r.Signal.ID]; r.AcceptedSeq != seq {
			v.find(seq, "receipt["+r.Signal.ID+"].acceptedSeq", r.AcceptedSeq, seq)
		}
		delete(v.decided, r.Signal.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(v.decided)) {
		v.note(v.decided[id], "receipt["+id+"]", "missing", "the receipt of the decision in the log")
	}
	now, _, err := headOf(ctx, v.s, v.run.RunID)
	if err == nil && now.SignalNo < top {
		v.find(0, "head.signalNo", now.SignalNo, fmt.Sprintf("at least %d, the number of a receipt", top))
	}
	return err
}
