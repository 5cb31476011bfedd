package interp

import (
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// DefaultMaxParallel is the maximum number of executions in flight if the run's policy has none (contract O5).
const DefaultMaxParallel = 100

// Config has the facts about a run that its plan does not contain.
type Config struct {
	Identity run.Identity
	Policy   run.Policy
	// EngineAttempt is written to the events about the run: 1 plus the restarts of the workflow's execution (contract
	// T61). Less than 1 counts as 1.
	EngineAttempt int
	// RotateAfter is the number of dispatches after which an execution of the workflow rotates (contract T105, T195). With
	// 0 it rotates only after a Pressure.
	RotateAfter int
	// Reused are steps that the run takes over from an earlier run. After RunStarted they succeed as attempt 1 without an
	// execution, and they are never undone (contract T209). They may depend on steps that are not reused.
	Reused []run.Ord
	// PauseAhead means that control may append RunPaused before the machine receives the PAUSE (docs/decisions/0029). The
	// machine then adopts that pause.
	PauseAhead bool
}

// Machine is the interpreter of one run. It is not safe for concurrent use. Its state and its effects are a function of
// the inputs alone, byte for byte.
//
// It guarantees for any inputs in any order:
//
//   - At most one Append is outstanding. Facts that arrive meanwhile go into the next one. An end counts only when the
//     log has it (contract T191).
//   - No (Ord, LogicalAttempt, N) is dispatched twice. An attempt is dispatched again only after a return without an
//     end. No step starts before its predecessors have ended in the log. No effect follows Finish or Rotate.
//   - Steps become ready in canonical order (contract E-01). At most Policy.MaxParallelSteps executions are in flight,
//     not counting attempts that are RUNNING already and are dispatched again. A MANUAL step is never executed; the
//     machine records its wait (contract T82).
//   - At most one Compensate is in flight, and only after no attempt is RUNNING any more (contract R185).
//   - Each signal applies once, in the order of the numbers, and only while no Append is outstanding, so that it is
//     judged on the state of the log (contract T193, T196).
//   - Its events are not older than the ends that it knows. The emittedAt of an end may come from another clock, and an
//     engine's clock may stand still while it decides.
//   - It rotates only when nothing is in flight. The machine that Resume builds from Carry continues as this one would
//     (contract T105, T195).
//
// If the machine answers Fired(TimerDrain) with an Append of RunResumed, the run did not drain in time (contract T46).
// The reconciler of a server raises PAUSE_DRAIN_TIMEOUT, with and without a RESUME; see control/duty.
type Machine struct {
	sk   plan.Skeleton
	cfg  Config
	ords map[string]run.Ord // for look-ups only, never iterated over
	next [][]run.Ord        // dependents of each step, ascending

	now    time.Time
	latest time.Time // emittedAt of the latest known end in the log
	out    []Effect
	status run.Status
	begun  bool // Init was received; the run has started when status is Running
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

// step is the machine's state of one step. status is that of the latest logical attempt with an end in the log, so it
// is never RUNNING; stage has the progress of the attempt after it.
type step struct {
	status     run.StepStatus
	stage      stage
	attempt, n int // the current or next logical attempt, and the number of its dispatches
	missing    int // predecessors that are not satisfied yet

	signalID   string // the RETRY_STEP that caused the attempt, until its end
	signalNo   int64  // number of that signal
	signalFor  int    // the logical attempt that it caused
	generation int    // the value of failure.generation for which the step passes fail-fast (contract T217)
	retried    bool   // as a signalID that is not known; only Restore sets it
	passes     bool   // the execution in flight passes a gate closed by failing
	begun      bool   // the log has the StepStarted of the attempt, and no end
	spent      int    // engine attempts used by dispatches that returned
	vanished   int    // dispatches that returned without a reason, see redispatch

	due      time.Time // when a delayed step is dispatched again
	forToken bool      // it waits for a token

	waitAttempt int              // of a MANUAL step: the newest attempt whose wait is in the log
	waitSince   time.Time        // when that wait started
	waitEnd     *engine.LogEvent // its end, if the log has it

	gateOpenings  int       // schedule.gateOpenings at the dispatch
	stopRequested stopCause // why the execution in flight was asked to stop

	failing      bool // FAILED and not retried, so that it arms fail-fast
	pendingRetry bool // a retry waits for RunResumed
	failedSeq    run.Seq
	failed       run.FailurePayload

	waitEnds time.Time // deadline of the wait for a person; zero if there is none
}

// stage is the progress of the next attempt of a step.
type stage uint8

const (
	waiting    stage = iota // waits for predecessors
	ready                   // waits until the gate is open and a slot is free
	dispatched              // an execution is in flight
	ended                   // its end is being recorded
	settled                 // recorded
	opening                 // of a MANUAL step: its wait for a person is being recorded
	open                    // it waits for a person
	delayed                 // its dispatch returned, and it is dispatched again later
)

// New returns a machine for a plan. The caller must not modify sk afterwards.
func New(sk plan.Skeleton, cfg Config) *Machine {
	n := len(sk.Steps)
	m := &Machine{
		sk: sk, cfg: cfg, status: run.Pending,
		ords: make(map[string]run.Ord, n), next: make([][]run.Ord, n), steps: make([]step, n),
	}
	m.cfg.EngineAttempt = max(1, cfg.EngineAttempt)
	m.schedule.left = n
	m.schedule.width = cfg.Policy.MaxParallelSteps
	if m.schedule.width <= 0 {
		m.schedule.width = DefaultMaxParallel
	}
	m.failure.generation = 1
	m.dropReusedHooks()
	for i, s := range sk.Steps {
		m.ords[s.StepID] = run.Ord(i)
		m.steps[i] = step{status: run.StepPending, attempt: 1, missing: len(s.Deps)}
		for _, dep := range s.Deps {
			m.next[dep] = append(m.next[dep], run.Ord(i))
		}
	}
	return m
}

// Done reports whether Finish was returned.
func (m *Machine) Done() bool { return m.done }

// Step takes one input and returns the effects, in the order in which the driver must perform them. It accepts every
// input: stale, repeated and unknown ones change nothing. After Finish or Rotate it returns nil.
func (m *Machine) Step(in Input) []Effect {
	if m.done || m.rotation.over {
		return nil
	}
	m.out = nil
	switch in := in.(type) {
	case Init:
		m.now = in.At
		m.begin()
	case Recorded:
		m.now = in.At
		m.handleRecorded(in)
	case Observed:
		m.now = in.At
		m.applyTail(in.Tail)
	case Renumbered:
		m.now = in.At
		m.forgetPositions()
	case Ended:
		m.now = in.At
		m.takeReceipt(in)
	case Returned:
		m.now = in.At
		m.takeReturn(in.Return)
	case Signalled:
		m.now = in.At
		m.handleSignals(in.Signals)
	case Woken:
		m.now = in.At
		m.signals.lookUp = true
	case Fired:
		m.now = in.At
		m.handleTimer(in.Timer)
	case HookReturned:
		m.now = in.At
		m.takeHookReturn(in.Return)
	case Pressure:
		m.now = in.At
		m.handlePressure(in.Hard)
	}
	if m.begun && !m.done && len(m.signals.reread) == 0 {
		m.applySignals()
		m.handleOrphans()
		m.resumeWhenDrained()
		m.withdrawWaits() // before settle, because it may empty the queue
		m.settle()
		m.record.gateClosed = false
		m.flush()
		m.requestStops()
		m.dispatch()
		m.flush() // sends the waits for people that dispatch queued
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
		m.continueRun()
		return
	}
	p := startedPayload{StartedAt: m.now}
	if m.cfg.PauseAhead {
		p.Engine = &engineMark{PauseAhead: true}
	}
	m.enqueue(entry{kind: starts, drafts: m.runEvent(run.RunStarted, 1, p)})
	m.reuse()
}

// startedPayload is the part of run.RunStartedPayload that the machine sets.
type startedPayload struct {
	StartedAt time.Time   `json:"startedAt"`
	Engine    *engineMark `json:"engineRunRef,omitempty"` // the driver adds the rest
}

// engineMark is the part of run.EngineRunRef that the machine sets.
type engineMark struct {
	PauseAhead bool `json:"pauseAhead"`
}

// finish ends the machine. status is empty when the machine did not write the end itself.
func (m *Machine) finish(status run.Status) {
	m.done = true
	m.status = status
	m.emit(Finish{Status: status})
}

// isQuiet reports whether everything that the machine decided is in the log.
func (m *Machine) isQuiet() bool { return m.record.sent == nil && len(m.record.queue) == 0 }

// settle ends the run when no step can start any more, and its stop or its failure requires it or all steps are done.
func (m *Machine) settle() {
	if !m.isQuiet() || m.status != run.Running {
		return
	}
	switch {
	case m.record.closing, m.signals.due() > 0: // due signals are judged first
	case (m.stop.signalID != "" || m.failure.count > 0) && !m.isCurrent():
		// An end that the machine has not seen may change the conclusion.
	case m.stop.signalID != "":
		m.settleStop()
	case m.pause.on, m.pause.unexplained: // nothing ends while paused (contract T43)
	case m.failure.count > 0:
		m.settleFailure()
	case m.schedule.left == 0:
		m.closeWith(run.Completed, entry{drafts: m.runEvent(run.RunCompleted, 1, nil)})
	}
}

// closeWith queues the last event of the run. Until it is recorded, nothing else starts.
func (m *Machine) closeWith(status run.Status, last entry) {
	last.kind, last.status = ends, status
	m.record.closing = true
	m.enqueue(last)
}

func (m *Machine) handleTimer(t Timer) {
	switch t {
	case TimerRetryWindow:
		m.handleWindowTimer()
	case TimerDrain:
		m.handleDrainTimer()
	case TimerManual:
		m.handleManualTimer()
	case TimerRotation:
		m.handleRotationTimer()
	case TimerDelay:
		m.handleDelayTimer()
	}
}

// RunStatus implements run.View.
func (m *Machine) RunStatus() run.Status {
	if m.pause.on && !m.done {
		return run.Paused
	}
	return m.status
}

// Finalizing implements run.View: a run that is being stopped or closed takes no other signals.
func (m *Machine) Finalizing() bool {
	return m.stop.signalID != "" || m.failure.final || m.record.closing
}

// MaxAttempts implements run.View.
func (m *Machine) MaxAttempts() int {
	if n := m.cfg.Policy.MaxLogicalAttemptsManual; n > 0 {
		return n
	}
	return run.DefaultMaxAttempts
}

// FindStep implements run.View. An attempt in flight counts as RUNNING, started or not. An attempt that waits after a
// FAILED one is a pending retry of it.
func (m *Machine) FindStep(stepID string) (run.StepView, bool) {
	o, ok := m.ords[stepID]
	if !ok {
		return run.StepView{}, false
	}
	st := &m.steps[o]
	v := run.StepView{Status: st.status, LogicalAttempt: st.attempt}
	switch {
	case st.stage == dispatched, st.stage == delayed && st.begun, st.stage == opening, st.stage == open,
		st.stage == ended && st.status != run.StepSkipped:
		v.Status, v.WaitsForPerson = run.StepRunning, st.stage == open
	case st.status == run.StepPending:
		v.LogicalAttempt = 0
	case st.status == run.StepFailed:
		v.Retryable = st.failed.Retryable
		v.RetryPending = st.pendingRetry || !st.failing
		if st.stage != settled {
			v.LogicalAttempt-- // the next attempt has not started
		}
	}
	return v, true
}

var _ run.View = (*Machine)(nil)
