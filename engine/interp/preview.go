package interp

import (
	"math"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Preview is what a signal, or the start of a run, would do if nothing else
// happened: every Append is recorded at once, and nothing that executes ends.
type Preview struct {
	Decision run.Decision
	Status   run.Status // of the run afterwards
	Changes  []Change   // ascending by step
	// Blocked are the steps that do not start until somebody does something: the
	// gate is closed to them though all that they wait for is done or in flight, or
	// what they wait for has FAILED. Ascending.
	Blocked []run.Ord
	// Later says that the effect waits: for RunResumed, or for the run to drain.
	Later bool
}

// Change is what becomes of one step.
type Change struct {
	Ord  run.Ord
	Kind ChangeKind
	LA   int // of the attempt that begins or ends
}

// ChangeKind is what happens to a step.
type ChangeKind string

// Kinds of a Change.
const (
	ChangeStart  ChangeKind = "START"  // an attempt begins; its LA is above 1 where the step runs again
	ChangeCancel ChangeKind = "CANCEL" // what executes is asked to stop, or a wait for a person ends
	ChangeSkip   ChangeKind = "SKIP"
	ChangeEnd    ChangeKind = "END"  // a wait for a person ends as that person said
	ChangeUndo   ChangeKind = "UNDO" // the step's hook runs
)

// PreviewSignal says what a signal would do to the run that folds to s, once the
// pending ones are applied (see Restore). A signal that would not be accepted gets
// that answer. The run's engine is not asked.
func PreviewSignal(sk plan.Skeleton, who Config, s run.State, in Inbox, sig engine.Signal, at time.Time) Preview {
	if d := run.Judge(s, judged(sig)); d.Outcome == run.Reject {
		return Preview{Decision: d, Status: s.RunStatus()}
	}
	m := Restore(sk, who, s, in, at)
	if !m.begun {
		return previewUnstarted(s, in.Pending, sig)
	}
	if m.done {
		return Preview{Decision: run.Judge(m, judged(sig)), Status: m.RunStatus()}
	}
	p := Preview{Decision: run.Judge(m, judged(sig))}
	f := m.foresee(&sig)
	for _, o := range f.outcomes {
		if o.SignalID != sig.ID || o.Application == run.SignalApplied {
			continue
		}
		d := run.Decision{Outcome: run.Noop, Code: run.Code(o.Reason)}
		if o.Application == run.SignalNotApply {
			d.Outcome = run.Reject
		}
		if p.Decision.Outcome != d.Outcome || p.Decision.Code != d.Code {
			p.Decision = d
		}
	}
	p.Later = m.pause.resumeID == sig.ID || slices.ContainsFunc(m.pause.latched,
		func(l engine.Signal) bool { return l.ID == sig.ID })
	p.Status, p.Changes, p.Blocked = m.RunStatus(), f.changes, m.Blocked()
	return p
}

// previewUnstarted is PreviewSignal for a run that the machine has nothing to say of.
func previewUnstarted(s run.State, pending []engine.Signal, sig engine.Signal) Preview {
	p := Preview{Decision: run.Judge(s, judged(sig)), Status: s.RunStatus()}
	stops := func(s engine.Signal) bool { return s.Type == run.Cancel || s.Type == run.EmergencyStop }
	if p.Decision.Outcome == run.Accept && (stops(sig) || slices.ContainsFunc(pending, stops)) {
		p.Status = run.Cancelled // before any step begins
	}
	return p
}

// PreviewStart says what the start of a run would do.
func PreviewStart(sk plan.Skeleton, who Config, at time.Time) Preview {
	who.RotateAfter = 0
	m := New(sk, who)
	f := foreseen{m: m}
	f.drive(Begin{At: at})
	return Preview{Status: m.RunStatus(), Changes: f.sorted(), Blocked: m.Blocked()}
}

func judged(s engine.Signal) run.Signal {
	return run.Signal{ID: s.ID, Type: s.Type, StepID: s.StepID, ExpectedAttempt: s.LA, Force: s.Force, Outcome: s.Outcome}
}

// Blocked is that of a Preview, for the machine as it is.
func (m *Machine) Blocked() []run.Ord {
	if m.done || m.Finalizing() {
		return nil
	}
	var out []run.Ord
	for i := range m.steps {
		if m.blocked(run.Ord(i)) {
			out = append(out, run.Ord(i))
		}
	}
	return out
}

func (m *Machine) blocked(o run.Ord) bool {
	st := &m.steps[o]
	interrupted := st.stage == settled && st.status == run.StepFailed && !st.failing
	if st.stage != waiting && st.stage != ready && !interrupted {
		return false
	}
	passes := !m.shut(o)
	for _, d := range m.sk.Steps[o].Deps {
		switch dep := &m.steps[d]; {
		case dep.failing:
			return true
		case dep.stage == settled && dep.status != run.StepFailed:
		case dep.stage == flying, dep.stage == open:
			passes = passes || !m.pause.on && m.favours(run.Ord(d))
		default:
			return false // what it waits for is blocked, or starts first
		}
	}
	return !passes
}

// foreseen collects what a machine would do.
type foreseen struct {
	m        *Machine
	changes  []Change
	outcomes []store.SignalOutcome
	seq      run.Seq
}

// foresee feeds the machine a signal, or nothing but the time, and lets all be
// recorded at once that it wants to write, until nothing more happens.
func (m *Machine) foresee(s *engine.Signal) foreseen {
	f := foreseen{m: m}
	var in Input = Fired{At: m.now}
	if s != nil {
		next := *s
		next.No = m.signals.last + 1
		in = Signalled{At: m.now, Signals: []engine.Signal{next}}
	}
	f.drive(in)
	f.changes = f.sorted()
	return f
}

func (f *foreseen) drive(in Input) {
	f.seq = run.MaxSeq / 2 // above all that is in the log
	todo := []Input{in}
	for len(todo) > 0 {
		in, todo = todo[0], todo[1:]
		for _, e := range f.m.Step(in) {
			switch e := e.(type) {
			case Append:
				todo = append(todo, f.record(e))
			case Execute:
				f.add(e.Ord, ChangeStart, e.LA)
			case CancelSteps:
				for _, o := range e.Ords {
					if st := &f.m.steps[o]; st.stage == flying { // else it is its hook
						f.add(o, ChangeCancel, st.la)
					}
				}
			case Compensate:
				f.add(e.Ord, ChangeUndo, e.LA)
			case FetchSignals:
				todo = append(todo, Signalled{At: f.m.now})
			case ReadLog:
				head := store.Head{LastSeq: max(f.seq, f.m.record.head), Running: f.m.record.running, SignalNo: math.MaxInt64}
				todo = append(todo, Observed{At: f.m.now, Tail: engine.Tail{Seq: head.LastSeq, Head: head}})
			}
		}
	}
}

func (f *foreseen) add(o run.Ord, kind ChangeKind, la int) {
	f.changes = append(f.changes, Change{Ord: o, Kind: kind, LA: la})
}

// record answers an Append as a log does that nobody else writes to.
func (f *foreseen) record(a Append) Recorded {
	r := Recorded{At: f.m.now, Batch: a.Batch, Running: f.m.record.running}
	for i := range a.Events {
		f.seq++
		r.Ends = append(r.Ends, RecordedEvent{Seq: f.seq})
		r.RunTerminal = r.RunTerminal || a.Events[i].Type.EndsRun()
		f.event(&a.Events[i])
	}
	r.Head = f.seq
	if !a.RetryDeadline.IsZero() && r.Running == 0 {
		r.WindowOpened = &a.RetryDeadline
	}
	f.outcomes = append(f.outcomes, a.Outcomes...)
	return r
}

func (f *foreseen) event(d *run.Draft) {
	o, ok := f.m.ords[d.StepID]
	if !ok {
		return
	}
	switch d.Type {
	case run.StepSkippedEvent:
		f.add(o, ChangeSkip, d.LogicalAttempt)
	case run.StepAwaitingManualCompletion:
		f.add(o, ChangeStart, d.LogicalAttempt)
	case run.StepCompletedEvent, run.StepFailedEvent:
		switch {
		case byPerson(d):
			f.add(o, ChangeEnd, d.LogicalAttempt)
		case d.Type == run.StepFailedEvent:
			f.add(o, ChangeCancel, d.LogicalAttempt)
		}
	}
}

// byPerson reports whether the end of a wait is what a person said of it.
func byPerson(d *run.Draft) bool {
	p, err := run.PayloadOf[run.StepCompletedPayload](d.Payload) // a failure has Manual too
	return err == nil && p.Manual != nil
}

func (f *foreseen) sorted() []Change {
	slices.SortStableFunc(f.changes, func(a, b Change) int { return int(a.Ord - b.Ord) })
	return f.changes
}
