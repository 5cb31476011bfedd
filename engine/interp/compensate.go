package interp

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
)

// compensation undoes what a run did that fails: the hooks of the steps that
// succeeded, one after the other, in the reverse order of their completion,
// whatever becomes of each (T88, R185, R187).
type compensation struct {
	succeeded []success // steps with a hook whose StepCompleted is in the log, in its order
	begun     bool      // RunCompensationStarted is queued or in the log
	todo      []run.Ord // what is to be undone, the next first
	flying    bool      // the hook of the first of todo was dispatched
	n         int       // dispatches of that hook
	spent     int       // engine attempts of it that were lost
	due       time.Time // when it is dispatched again, zero unless it waits for that
	done      []run.CompensationPayload
}

// success is a StepCompleted. Its place in the log is known from its Recorded, so
// nobody has to ask for the order again (T90).
type success struct {
	ord run.Ord
	seq run.Seq
}

// maxSummaryBytes bounds what RunFailed says of the hooks, and maxSummaryText each
// message in it.
const (
	maxSummaryBytes = 512 << 10
	maxSummaryText  = 512
)

// succeeded notes a StepCompleted for the case that the run fails.
func (m *Machine) succeeded(o run.Ord, seq run.Seq) {
	if m.sk.Steps[o].CompensationQueue == "" {
		return
	}
	c := &m.compensation
	i, _ := slices.BinarySearchFunc(c.succeeded, seq, func(s success, seq run.Seq) int { return cmp.Compare(s.seq, seq) })
	c.succeeded = slices.Insert(c.succeeded, i, success{o, seq})
}

// compensated reports whether nothing is left to undo. It begins where nobody has.
func (m *Machine) compensated() bool {
	c := &m.compensation
	if c.begun || len(c.succeeded) == 0 {
		return len(c.todo) == 0
	}
	c.begun = true
	m.orderHooks()
	var p run.CompensationStartedPayload
	for _, o := range c.todo {
		p.StepIDs = append(p.StepIDs, m.sk.Steps[o].StepID)
	}
	m.enqueue(entry{kind: notes, drafts: m.runEvent(run.RunCompensationStarted, 1, p)})
	return false
}

// orderHooks makes the list of what is to be undone.
func (m *Machine) orderHooks() {
	c := &m.compensation
	for i := len(c.succeeded) - 1; i >= 0; i-- {
		c.todo = append(c.todo, c.succeeded[i].ord)
	}
}

// hookAttempts is how often a hook is executed at most (R186).
const hookAttempts = 2

// compensate runs the next hook, once the log has the end of the one before.
func (m *Machine) compensate() {
	c := &m.compensation
	waits := !c.due.IsZero()
	if !c.begun || c.flying || waits || len(c.todo) == 0 || m.stop.signalID != "" || !m.quiet() || m.held() {
		return
	}
	m.launchHook()
}

func (m *Machine) launchHook() {
	c := &m.compensation
	c.flying = true
	c.n++
	m.dispatched()
	m.emit(Compensate{Ord: c.todo[0], LA: m.steps[c.todo[0]].la, N: c.n, Spent: c.spent})
}

// stopCompensation lets no further hook run; the one that does is asked to stop.
func (m *Machine) stopCompensation() {
	c := &m.compensation
	switch {
	case c.flying:
		c.todo = c.todo[:1]
		m.failure.toStop = append(m.failure.toStop, c.todo[0])
	case c.n > 0 && len(c.todo) > 0: // it was dispatched, and nobody executes it
		c.todo = c.todo[:1]
		m.failHook(max(1, c.spent), string(run.CodeCancelled), hookStopped)
	default:
		c.todo = nil
	}
}

const hookStopped = "the run was stopped while this hook ran"

// applyHookEnd takes the end of the hook in flight that the log has; any other is known.
func (m *Machine) applyHookEnd(o run.Ord, e *engine.LogEvent) {
	c := &m.compensation
	if !c.flying && c.n == 0 || len(c.todo) == 0 || c.todo[0] != o {
		return
	}
	p, err := run.PayloadOf[run.CompensationPayload](e.Payload)
	if err != nil { // it tells at least which step was undone
		p = run.CompensationPayload{StepID: e.StepID, Attempts: 1, Compensated: e.Type == run.StepCompensated}
	}
	m.closeHook(p)
}

// takeHookReturn takes the hook in flight that the engine no longer executes and whose end is not in the log; any other
// is stale. It is dispatched again while it has engine attempts left: after a delay that grows, where nobody knows why
// it came back.
func (m *Machine) takeHookReturn(got engine.Return) {
	c := &m.compensation
	if !c.flying || m.sk.Steps[c.todo[0]].StepID != got.StepID || got.N != c.n {
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
	switch again := c.spent < hookAttempts && c.n <= mostVanished; {
	case again && lost:
		m.launchHook()
	case again:
		c.flying, c.due = false, m.now.Add(min(growing(c.n), longestDelay))
	case lost:
		m.failHook(max(1, c.spent), string(run.CodeTimeout), "the worker stopped answering while it ran this hook")
	default:
		queue := m.sk.Steps[c.todo[0]].CompensationQueue
		m.failHook(max(1, c.spent), "ENGINE_ERROR", vanishedMessage("hook", c.n, queue, "undo the step by hand"))
	}
}

// failHook writes that the hook which was dispatched last came to nothing.
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

// closeHook goes on to the next hook, with what became of this one.
func (m *Machine) closeHook(p run.CompensationPayload) {
	c := &m.compensation
	c.flying, c.n, c.spent, c.due, c.todo = false, 0, 0, time.Time{}, c.todo[1:]
	c.done = append(c.done, summarised(p))
}

// summarised is what RunFailed says of one hook.
func summarised(p run.CompensationPayload) run.CompensationPayload {
	p.Result, p.ErrorMessage = nil, cut(p.ErrorMessage, maxSummaryText)
	return p
}

// hookRecorded comes when the log has an end of the hook that the machine gave up last: that of a worker that was late,
// if it was there first. No other hook has ended meanwhile.
func (m *Machine) hookRecorded(last RecordedEvent) {
	if c := &m.compensation; last.Hook != nil && len(c.done) > 0 {
		c.done[len(c.done)-1] = summarised(*last.Hook)
	}
}

// compensationKey is what makes the hook of a step do its work once (R183).
func (m *Machine) compensationKey(stepID string) string {
	return m.who.Identity.RunID + ":" + stepID + ":compensate"
}

// summary is what RunFailed says of the hooks: as many as there is room for, and
// how many more there were.
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
