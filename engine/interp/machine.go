package interp

import (
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// DefaultMaxParallel is how many executions are in flight at most where the
// run's policy does not say (O5).
const DefaultMaxParallel = 100

// Config is what a Machine knows of its run beside the plan.
type Config struct {
	Identity run.Identity
	Policy   run.Policy
	// EngineAttempt of events about the run: 1 plus the restarts of the
	// workflow's execution (T61). Less than 1 counts as 1.
	EngineAttempt int
	// RotateAfter is how many dispatches one execution of the workflow makes before
	// it rotates (T105, T195); 0 never rotates by itself.
	RotateAfter int
	// Reused are steps that the run takes over from an earlier one: right after
	// RunStarted they succeed as attempt 1 without being executed, and they are never
	// undone (T209). A step that depends on one that is not reused runs all the same.
	Reused []run.Ord
	// PauseAhead says that control may append RunPaused before the machine hears of the
	// PAUSE (docs/decisions/0029): the machine takes such a pause over.
	PauseAhead bool
}

// Machine is the interpreter of one run. It is not safe for concurrent use; its
// state is a function of the inputs alone, and so are the effects, byte for byte.
//
// What it promises, whatever the inputs and their order:
//
//   - at most one Append is outstanding; what arrives meanwhile goes into the
//     next one, and a completion counts only once it is Recorded (T191);
//   - no (Ord, LA, N) is dispatched twice, no attempt twice without having come
//     back without an end in between, no step before its predecessors are recorded, and
//     nothing at all after Finish or Rotate;
//   - steps become ready in canonical order (E-01) and at most
//     Policy.MaxParallelSteps executions are in flight, beside attempts that are RUNNING
//     already and are dispatched again; a MANUAL step is never one of them, the machine
//     records its wait (T82);
//   - at most one Compensate is in flight, and only while nothing else is (R185);
//   - signals apply once, in the order of their numbers, and only while no Append
//     is outstanding, so that they are judged on what the log says (T193, T196);
//   - what it writes is emitted no earlier than the ends that it knows of, whose times are of other clocks: that of an
//     engine may stand still while it decides;
//   - it rotates where nothing is in flight, and what Resume makes of Carry goes on
//     as it would have itself (T105, T195).
//
// An Append with RunResumed that follows Fired(TimerDrain) resumes a run that
// did not drain in time: it is for the driver to raise PAUSE_DRAIN_TIMEOUT (T46).
type Machine struct {
	sk   plan.Skeleton
	who  Config
	ords map[string]run.Ord // for look-ups only, never ranged over
	next [][]run.Ord        // dependents of each step, ascending

	now    time.Time
	latest time.Time // emittedAt of the latest end that the log is known to have
	out    []Effect
	status run.Status
	begun  bool // Begin was seen; the run has started once status is Running
	done   bool

	schedule schedule
	record   record
	signals  inbox
	pause    pause
	failure  failure
	stop     stop
	rotation rotation
	steps    []step

	manual       manual
	delays       delays
	compensation compensation
}

// step is what the machine knows of one step. Its status is that of the latest
// logical attempt with a terminal in the log; RUNNING is told by the stage.
type step struct {
	status  run.StepStatus
	stage   stage
	la, n   int // the attempt that is or comes next, and its dispatches so far
	missing int // predecessors that are not satisfied yet

	signalID string // the RETRY_STEP behind la, until la has ended
	signalNo int64  // of that signal
	era      int    // of fail-fast in which the step passes it (T217)
	passes   bool   // the execution in flight passes a gate closed by failing
	begun    bool   // the log has the StepStarted of la, and no end
	spent    int    // engine attempts of la that dispatches used up which came back
	vanished int    // dispatches of la that came back without a reason, see redispatch

	due      time.Time // of a delayed step: when it is dispatched again
	forToken bool      // it waits for a token

	waitLA    int       // of a MANUAL step: the newest attempt whose wait was observed in the log
	waitSince time.Time // since when it waits
	waitEnd   *engine.LogEvent

	openings int   // gate openings seen when the execution was dispatched
	asked    cause // why the execution in flight was asked to stop

	failing   bool // FAILED and not retried: arms fail-fast
	latched   bool // a retry waits for RunResumed
	failedSeq run.Seq
	failed    run.FailurePayload

	waitEnds time.Time // deadline of the wait for a person; zero for none
}

// stage is where the next attempt of a step stands.
type stage uint8

const (
	waiting stage = iota // for predecessors
	ready                // for the gate and a free place
	flying               // dispatched
	ended                // its terminal is to be recorded
	settled              // recorded
	opening              // of a MANUAL step: its wait for a person is to be recorded
	open                 // it waits for a person
	delayed              // it came back, and waits until it is dispatched again
)

// New returns a machine for a plan; sk must not change afterwards.
func New(sk plan.Skeleton, who Config) *Machine {
	n := len(sk.Steps)
	m := &Machine{
		sk: sk, who: who, status: run.Pending,
		ords: make(map[string]run.Ord, n), next: make([][]run.Ord, n), steps: make([]step, n),
	}
	m.who.EngineAttempt = max(1, who.EngineAttempt)
	m.schedule.left = n
	m.schedule.width = who.Policy.MaxParallelSteps
	if m.schedule.width <= 0 {
		m.schedule.width = DefaultMaxParallel
	}
	m.failure.era = 1
	m.keepHooksOff()
	for i, s := range sk.Steps {
		m.ords[s.StepID] = run.Ord(i)
		m.steps[i] = step{status: run.StepPending, la: 1, missing: len(s.Deps)}
		for _, dep := range s.Deps {
			m.next[dep] = append(m.next[dep], run.Ord(i))
		}
	}
	return m
}

// Done reports whether Finish was returned.
func (m *Machine) Done() bool { return m.done }

// Step takes one input and returns what to do about it, in order. It is total:
// inputs that are stale, repeated or unknown change nothing.
func (m *Machine) Step(in Input) []Effect {
	if m.done || m.rotation.over {
		return nil
	}
	m.out = nil
	switch in := in.(type) {
	case Begin:
		m.now = in.At
		m.begin()
	case Recorded:
		m.now = in.At
		m.recorded(in)
	case Observed:
		m.now = in.At
		m.applyTail(in.Tail)
	case Renumbered:
		m.now = in.At
		m.forgetPlaces()
	case Ended:
		m.now = in.At
		m.takeReceipt(in)
	case Returned:
		m.now = in.At
		m.takeReturn(in.Return)
	case Signalled:
		m.now = in.At
		m.signalled(in.Signals)
	case Woken:
		m.now = in.At
		m.signals.lookUp = true
	case Fired:
		m.now = in.At
		m.fired(in.Timer)
	case HookReturned:
		m.now = in.At
		m.takeHookReturn(in.Return)
	case Pressure:
		m.now = in.At
		m.pressure(in.Hard)
	}
	if m.begun && !m.done && len(m.signals.owed) == 0 {
		m.applySignals()
		m.takeStrays()
		m.resumeWhenDrained()
		m.withdrawWaits() // what is left may be nothing
		m.settle()
		m.record.shut = false
		m.flush()
		m.askToStop()
		m.dispatch()
		m.flush() // waits for people
		m.compensate()
		m.armManual()
	}
	if m.begun && !m.done {
		m.fetchSignals()
		m.readLog()
		m.armDelay()
		m.rotate()
	}
	return m.out
}

func (m *Machine) emit(e Effect) { m.out = append(m.out, e) }

func (m *Machine) setTimer(t Timer, at time.Time) { m.emit(SetTimer{Timer: t, At: at}) }

func (m *Machine) begin() {
	if m.begun {
		return
	}
	m.begun = true
	if m.status == run.Running { // an earlier execution started the run
		m.goOn()
		return
	}
	p := startedPayload{StartedAt: m.now}
	if m.who.PauseAhead {
		p.Engine = &engineMark{PauseAhead: true}
	}
	m.enqueue(entry{kind: starts, drafts: m.runEvent(run.RunStarted, 1, p)})
	m.reuse()
}

// startedPayload is the part of run.RunStartedPayload that is the machine's to say.
type startedPayload struct {
	StartedAt time.Time   `json:"startedAt"`
	Engine    *engineMark `json:"engineRunRef,omitempty"` // the driver adds the rest
}

// engineMark is the part of run.EngineRunRef that is the machine's to say.
type engineMark struct {
	PauseAhead bool `json:"pauseAhead"`
}

// finish ends the machine; status is empty when it did not write the end itself.
func (m *Machine) finish(status run.Status) {
	m.done = true
	m.status = status
	m.emit(Finish{Status: status})
}

// quiet reports whether everything that the machine knows is in the log.
func (m *Machine) quiet() bool { return m.record.sent == nil && len(m.record.queue) == 0 }

// settle ends the run when nothing else can happen in it.
func (m *Machine) settle() {
	if !m.quiet() || m.status != run.Running {
		return
	}
	switch {
	case m.record.closing, m.signals.due() > 0: // they are judged first
	case (m.stop.signalID != "" || m.failure.count > 0) && !m.isCurrent(): // an end may be missing from the conclusion
	case m.stop.signalID != "":
		m.settleStop()
	case m.pause.on, m.pause.unheard: // hold everything (T43)
	case m.failure.count > 0:
		m.settleFailure()
	case m.schedule.left == 0:
		m.closeWith(run.Completed, entry{drafts: m.runEvent(run.RunCompleted, 1, nil)})
	}
}

// closeWith writes the last event of the run.
func (m *Machine) closeWith(status run.Status, last entry) {
	last.kind, last.status = ends, status
	m.record.closing = true
	m.enqueue(last)
}

func (m *Machine) fired(t Timer) {
	switch t {
	case TimerRetryWindow:
		m.windowFired()
	case TimerDrain:
		m.drainFired()
	case TimerManual:
		m.manualFired()
	case TimerRotation:
		m.rotationFired()
	case TimerDelay:
		m.delayFired()
	}
}

// RunStatus implements run.View.
func (m *Machine) RunStatus() run.Status {
	if m.pause.on && !m.done {
		return run.Paused
	}
	return m.status
}

// Finalizing implements run.View: a run that is being stopped or closed takes no
// other orders.
func (m *Machine) Finalizing() bool {
	return m.stop.signalID != "" || m.failure.final || m.record.closing
}

// MaxAttempts implements run.View.
func (m *Machine) MaxAttempts() int {
	if n := m.who.Policy.MaxLogicalAttemptsManual; n > 0 {
		return n
	}
	return run.DefaultMaxAttempts
}

// FindStep implements run.View. An attempt in flight counts as RUNNING, begun
// or not; one that waits behind a FAILED attempt is a pending retry of it.
func (m *Machine) FindStep(stepID string) (run.StepView, bool) {
	o, ok := m.ords[stepID]
	if !ok {
		return run.StepView{}, false
	}
	st := &m.steps[o]
	v := run.StepView{Status: st.status, LogicalAttempt: st.la}
	switch {
	case st.stage == flying, st.stage == delayed && st.begun, st.stage == opening, st.stage == open, st.stage == ended &&
		st.status != run.StepSkipped:
		v.Status, v.WaitsForPerson = run.StepRunning, st.stage == open
	case st.status == run.StepPending:
		v.LogicalAttempt = 0
	case st.status == run.StepFailed:
		v.Retryable = st.failed.Retryable
		v.RetryPending = st.latched || !st.failing
		if st.stage != settled {
			v.LogicalAttempt-- // la waits to start
		}
	}
	return v, true
}

var _ run.View = (*Machine)(nil)
