package interp

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
)

// compensation undoes the steps of a run that fails: it runs the hooks of the steps that succeeded, one at a time, in
// the reverse order of their completion, whether or not a hook fails (contract T88, R185, R187).
type compensation struct {
	succeeded []success // steps with a hook whose StepCompleted is in the log, in log order
	started   bool      // RunCompensationStarted is queued or in the log
	todo      []run.Ord // hooks that are left, the next one first
	inFlight  bool      // the hook of todo[0] was dispatched
	n         int       // dispatches of that hook
	spent     int       // engine attempts of that hook that were lost
	due       time.Time // when it is dispatched again; zero if it is not delayed
	done      []run.CompensationPayload
}

// success is a StepCompleted with its position in the log, which its Recorded reports, so that the order need not be
// read again (contract T90).
type success struct {
	ord run.Ord
	seq run.Seq
}

// maxSummaryBytes bounds the list of hooks in RunFailed, and maxSummaryText each message in it.
const (
	maxSummaryBytes = 512 << 10
	maxSummaryText  = 512
)

// recordSuccess notes a StepCompleted for a later compensation.
func (m *Machine) recordSuccess(o run.Ord, seq run.Seq) {
	if m.sk.Steps[o].CompensationQueue == "" {
		return
	}
	c := &m.compensation
	i, _ := slices.BinarySearchFunc(c.succeeded, seq, func(s success, seq run.Seq) int { return cmp.Compare(s.seq, seq) })
	c.succeeded = slices.Insert(c.succeeded, i, success{o, seq})
}

// compensateOrDone reports whether no hook is left to run. It starts the compensation if it has not started and a step
// with a hook succeeded.
func (m *Machine) compensateOrDone() bool {
	c := &m.compensation
	if c.started || len(c.succeeded) == 0 {
		return len(c.todo) == 0
	}
	c.started = true
	m.orderHooks()
	var p run.CompensationStartedPayload
	for _, o := range c.todo {
		p.StepIDs = append(p.StepIDs, m.sk.Steps[o].StepID)
	}
	m.enqueue(entry{kind: notes, drafts: m.runEvent(run.RunCompensationStarted, 1, p)})
	return false
}

// orderHooks fills todo with the successes, the last one first.
func (m *Machine) orderHooks() {
	c := &m.compensation
	for i := len(c.succeeded) - 1; i >= 0; i-- {
		c.todo = append(c.todo, c.succeeded[i].ord)
	}
}

// hookAttempts is the maximum number of executions of a hook (contract R186).
const hookAttempts = 2

// compensate dispatches the next hook when the log has the end of the previous one. It does nothing while a delayed
// hook waits for its due time.
func (m *Machine) compensate() {
	c := &m.compensation
	waits := !c.due.IsZero()
	if !c.started || c.inFlight || waits || len(c.todo) == 0 || m.stop.signalID != "" || !m.isQuiet() || m.isHeld() {
		return
	}
	m.launchHook()
}

func (m *Machine) launchHook() {
	c := &m.compensation
	c.inFlight = true
	c.n++
	m.countDispatch()
	m.emit(Compensate{Ord: c.todo[0], LogicalAttempt: m.steps[c.todo[0]].attempt, N: c.n, Spent: c.spent})
}

// stopCompensation prevents further hooks and asks a running hook to stop.
func (m *Machine) stopCompensation() {
	c := &m.compensation
	switch {
	case c.inFlight:
		c.todo = c.todo[:1]
		m.failure.toStop = append(m.failure.toStop, c.todo[0])
	case c.n > 0 && len(c.todo) > 0: // dispatched, but no worker executes it
		c.todo = c.todo[:1]
		m.failHook(max(1, c.spent), string(run.CodeCancelled), hookStopped)
	default:
		c.todo = nil
	}
}

const hookStopped = "the run was stopped while this hook ran"

// applyHookEnd applies the end of the current hook from the log. The machine knows the ends of other hooks already.
func (m *Machine) applyHookEnd(o run.Ord, e *engine.LogEvent) {
	c := &m.compensation
	if !c.inFlight && c.n == 0 || len(c.todo) == 0 || c.todo[0] != o {
		return
	}
	p, err := run.PayloadOf[run.CompensationPayload](e.Payload)
	if err != nil { // the event still names the step
		p = run.CompensationPayload{StepID: e.StepID, Attempts: 1, Compensated: e.Type == run.StepCompensated}
	}
	m.closeHook(p)
}

// takeHookReturn handles the return of the hook in flight and ignores any other. The log has no end of the hook,
// because the driver observes the log before. The hook is dispatched again while it has engine attempts left, after a
// growing delay if the reason of the return is unknown.
func (m *Machine) takeHookReturn(got engine.Return) {
	c := &m.compensation
	if !c.inFlight || m.sk.Steps[c.todo[0]].StepID != got.StepID || got.N != c.n {
		return
	}
	lost := got.Kind == engine.ReturnLost
	switch {
	case m.stop.signalID != "":
		m.failHook(max(1, got.EngineAttempt), string(run.CodeCancelled), hookStopped)
		return
	case lost:
		c.spent = max(c.spent+1, min(got.EngineAttempt, hookAttempts))
	}
	switch again := c.spent < hookAttempts && c.n <= maxVanished; {
	case again && lost:
		m.launchHook()
	case again:
		c.inFlight, c.due = false, m.now.Add(min(backoff(c.n), maxDelay))
	case lost:
		m.failHook(max(1, c.spent), string(run.CodeTimeout), lostMessage("hook", got))
	default:
		queue := m.sk.Steps[c.todo[0]].CompensationQueue
		m.failHook(max(1, c.spent), "ENGINE_ERROR", vanishedMessage("hook", c.n, queue, "undo the step by hand"))
	}
}

// failHook writes the failure of the current hook, which no worker executes any more, and continues with the next one.
func (m *Machine) failHook(attempts int, code, message string) {
	o := m.compensation.todo[0]
	p := run.CompensationPayload{
		StepID: m.sk.Steps[o].StepID, IdempotencyKey: m.compensationKey(m.sk.Steps[o].StepID), Attempts: attempts,
		ErrorCode: code, ErrorMessage: message,
	}
	payload, _ := encode(p)
	m.enqueue(entry{kind: hooks, ord: o, drafts: []run.Draft{m.stepEvent(o, run.StepCompensationFailed, attempts, m.now,
		payload)}})
	m.closeHook(p)
}

// closeHook records the result of a hook and continues with the next one.
func (m *Machine) closeHook(p run.CompensationPayload) {
	c := &m.compensation
	c.inFlight, c.n, c.spent, c.due, c.todo = false, 0, 0, time.Time{}, c.todo[1:]
	c.done = append(c.done, summarise(p))
}

// summarise returns the part of a result that RunFailed contains.
func summarise(p run.CompensationPayload) run.CompensationPayload {
	p.Result, p.ErrorMessage = nil, truncate(p.ErrorMessage, maxSummaryText)
	return p
}

// applyRecordedHook replaces the result of the hook that the machine failed last, if a late worker had already written
// another end. No other hook has ended meanwhile, because the next one is dispatched only after the end is recorded.
func (m *Machine) applyRecordedHook(last RecordedEvent) {
	if c := &m.compensation; last.Hook != nil && len(c.done) > 0 {
		c.done[len(c.done)-1] = summarise(*last.Hook)
	}
}

// compensationKey is the idempotency key of a step's hook (contract R183).
func (m *Machine) compensationKey(stepID string) string {
	return m.cfg.Identity.RunID + ":" + stepID + ":compensate"
}

// summary returns the results of the hooks that fit into RunFailed, and the number of those omitted.
func (c *compensation) summary() (list []run.CompensationPayload, omitted int) {
	size := 0
	for i := range c.done {
		b, err := json.Marshal(c.done[i])
		if size += len(b); err != nil || size > maxSummaryBytes {
			return c.done[:i], len(c.done) - i
		}
	}
	return c.done, 0
}
