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

// Preview is the effect of a signal, or of the start of a run, if nothing else happens: every Append is recorded at
// once, and no execution ends.
type Preview struct {
	Decision run.Decision
	Status   run.Status // of the run afterwards
	Changes  []Change   // ascending by step
	// Blocked are the steps that do not start without an intervention, ascending. Either a predecessor is FAILED, or the
	// predecessors are done or in flight and the gate is closed for the step.
	Blocked []run.Ord
	// Later means that the effect waits for RunResumed or for the run to drain.
	Later bool
}

// Change is the effect on one step.
type Change struct {
	Ord            run.Ord
	Kind           ChangeKind
	LogicalAttempt int // the attempt that starts or ends
}

// ChangeKind is the kind of effect on a step.
type ChangeKind string

// Kinds of a Change.
const (
	ChangeStart  ChangeKind = "START"  // an attempt starts; its LogicalAttempt is above 1 if the step runs again
	ChangeCancel ChangeKind = "CANCEL" // the execution is asked to stop, or a wait for a person ends
	ChangeSkip   ChangeKind = "SKIP"
	ChangeEnd    ChangeKind = "END"  // a wait for a person ends with that person's outcome
	ChangeUndo   ChangeKind = "UNDO" // the step's hook runs
)

// PreviewSignal returns the effect of a signal on the run with state s after the pending signals are applied (see
// Restore). If the signal would be rejected, the Preview has that decision and no changes. It does not ask the run's
// engine and changes nothing.
func PreviewSignal(sk plan.Skeleton, cfg Config, s run.State, in Inbox, sig engine.Signal, at time.Time) Preview {
	if d := run.Judge(s, runSignal(sig)); d.Outcome == run.Reject {
		return Preview{Decision: d, Status: s.RunStatus()}
	}
	m := Restore(sk, cfg, s, in, at)
	if !m.begun {
		return previewUnstarted(s, in.Pending, sig)
	}
	if m.done {
		return Preview{Decision: run.Judge(m, runSignal(sig)), Status: m.RunStatus()}
	}
	p := Preview{Decision: run.Judge(m, runSignal(sig))}
	f := m.simulate(&sig)
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
	p.Later = m.pause.resumeID == sig.ID || slices.ContainsFunc(m.pause.pendingRetries,
		func(l engine.Signal) bool { return l.ID == sig.ID })
	p.Status, p.Changes, p.Blocked = m.RunStatus(), f.changes, m.BlockedSteps()
	return p
}

// previewUnstarted is PreviewSignal for a run that has no started machine.
func previewUnstarted(s run.State, pending []engine.Signal, sig engine.Signal) Preview {
	p := Preview{Decision: run.Judge(s, runSignal(sig)), Status: s.RunStatus()}
	stops := func(s engine.Signal) bool { return s.Type == run.Cancel || s.Type == run.EmergencyStop }
	if p.Decision.Outcome == run.Accept && (stops(sig) || slices.ContainsFunc(pending, stops)) {
		p.Status = run.Cancelled // before any step starts
	}
	return p
}

// PreviewStart returns the effect of starting a run. Its Decision is empty.
func PreviewStart(sk plan.Skeleton, cfg Config, at time.Time) Preview {
	cfg.RotateAfter = 0
	m := New(sk, cfg)
	f := simulation{m: m}
	f.drive(Init{At: at})
	return Preview{Status: m.RunStatus(), Changes: f.sorted(), Blocked: m.BlockedSteps()}
}

func runSignal(s engine.Signal) run.Signal {
	return run.Signal{ID: s.ID, Type: s.Type, StepID: s.StepID, ExpectedAttempt: s.LogicalAttempt, Force: s.Force,
		Outcome: s.Outcome}
}

// BlockedSteps returns the blocked steps as in a Preview, for the current state of the machine.
func (m *Machine) BlockedSteps() []run.Ord {
	if m.done || m.Finalizing() {
		return nil
	}
	var out []run.Ord
	for i := range m.steps {
		if m.isBlocked(run.Ord(i)) {
			out = append(out, run.Ord(i))
		}
	}
	return out
}

func (m *Machine) isBlocked(o run.Ord) bool {
	st := &m.steps[o]
	interrupted := st.stage == settled && st.status == run.StepFailed && !st.failing
	if st.stage != waiting && st.stage != ready && !interrupted {
		return false
	}
	passes := !m.isGateClosed(o)
	for _, d := range m.sk.Steps[o].Deps {
		switch dep := &m.steps[d]; {
		case dep.failing:
			return true
		case dep.stage == settled && dep.status != run.StepFailed:
		case dep.stage == dispatched, dep.stage == open:
			passes = passes || !m.pause.on && m.isPrioritised(run.Ord(d))
		default:
			return false // the predecessor is blocked itself, or it starts first
		}
	}
	return !passes
}

// simulation drives a machine without a log and an engine, and collects its effects.
type simulation struct {
	m        *Machine
	changes  []Change
	outcomes []store.SignalOutcome
	seq      run.Seq
}

// simulate feeds the machine a signal, or only the time if s is nil. It records every Append at once until nothing more
// happens.
func (m *Machine) simulate(s *engine.Signal) simulation {
	f := simulation{m: m}
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

func (f *simulation) drive(in Input) {
	f.seq = run.MaxSeq / 2 // above all positions in the log
	todo := []Input{in}
	for len(todo) > 0 {
		in, todo = todo[0], todo[1:]
		for _, e := range f.m.Step(in) {
			switch e := e.(type) {
			case Append:
				todo = append(todo, f.record(e))
			case Execute:
				f.add(e.Ord, ChangeStart, e.LogicalAttempt)
			case CancelSteps:
				for _, o := range e.Ords {
					if st := &f.m.steps[o]; st.stage == dispatched { // else the cancelled execution is its hook
						f.add(o, ChangeCancel, st.attempt)
					}
				}
			case Compensate:
				f.add(e.Ord, ChangeUndo, e.LogicalAttempt)
			case FetchSignals:
				todo = append(todo, Signalled{At: f.m.now})
			case ReadLog:
				head := store.Head{LastSeq: max(f.seq, f.m.record.head), Running: f.m.record.running, SignalNo: math.MaxInt64}
				todo = append(todo, Observed{At: f.m.now, Tail: engine.Tail{Seq: head.LastSeq, Head: head}})
			}
		}
	}
}

func (f *simulation) add(o run.Ord, kind ChangeKind, logicalAttempt int) {
	f.changes = append(f.changes, Change{Ord: o, Kind: kind, LogicalAttempt: logicalAttempt})
}

// record answers an Append as a log without other writers would.
func (f *simulation) record(a Append) Recorded {
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

func (f *simulation) event(d *run.Draft) {
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
		case isByPerson(d):
			f.add(o, ChangeEnd, d.LogicalAttempt)
		case d.Type == run.StepFailedEvent:
			f.add(o, ChangeCancel, d.LogicalAttempt)
		}
	}
}

// isByPerson reports whether a person decided the end of a wait.
func isByPerson(d *run.Draft) bool {
	p, err := run.PayloadOf[run.StepCompletedPayload](d.Payload) // a failure has Manual, too
	return err == nil && p.Manual != nil
}

func (f *simulation) sorted() []Change {
	slices.SortStableFunc(f.changes, func(a, b Change) int { return int(a.Ord - b.Ord) })
	return f.changes
}
