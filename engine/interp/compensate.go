package interp

import (
	"cmp"
	"encoding/json"
	"slices"

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

// compensate runs the next hook, once the log has the end of the one before.
func (m *Machine) compensate() {
	c := &m.compensation
	if !c.begun || c.flying || len(c.todo) == 0 || m.stop.signalID != "" || !m.quiet() || m.held() {
		return
	}
	c.flying = true
	m.dispatched()
	m.emit(Compensate{Ord: c.todo[0], LA: m.steps[c.todo[0]].la})
}

// stopCompensation lets no further hook run; the one that does is asked to stop.
func (m *Machine) stopCompensation() {
	c := &m.compensation
	if !c.flying {
		c.todo = nil
		return
	}
	c.todo = c.todo[:1]
	m.failure.toStop = append(m.failure.toStop, c.todo[0])
}

// compensationEnded takes the end of the hook in flight; any other is stale.
func (m *Machine) compensationEnded(end CompensationEnd) {
	c := &m.compensation
	if !c.flying || m.sk.Steps[c.todo[0]].StepID != end.StepID {
		return
	}
	o := c.todo[0]
	c.flying, c.todo = false, c.todo[1:]
	p := run.CompensationPayload{
		StepID: end.StepID, IdempotencyKey: m.compensationKey(end.StepID), Attempts: max(1, end.Attempts),
		Compensated: end.Compensated, Result: end.Result, ErrorCode: end.ErrorCode, ErrorMessage: end.ErrorMessage,
	}
	t := run.StepCompensated
	switch {
	case end.Compensated:
		p.ErrorCode, p.ErrorMessage = "", ""
	default:
		t = run.StepCompensationFailed
		p.ErrorCode = cmp.Or(p.ErrorCode, string(run.CodeInternal))
	}
	payload, err := encode(p)
	if err != nil {
		p.Result = nil
		payload, _ = encode(p)
	}
	m.enqueue(entry{kind: hooks, ord: o, drafts: []run.Draft{m.stepEvent(o, t, p.Attempts, m.now, payload)}})
	p.Result, p.ErrorMessage = nil, cut(p.ErrorMessage, maxSummaryText)
	c.done = append(c.done, p)
}

// compensationKey is what makes the hook of a step do its work once (R183).
func (m *Machine) compensationKey(stepID string) string {
	return m.who.Identity.RunID + ":" + stepID + ":compensate"
}

// shortened drops from the end of a hook what the log does not take. It reports
// whether there was something to drop.
func (e *entry) shortened() bool {
	p, _ := run.PayloadOf[run.CompensationPayload](e.drafts[0].Payload)
	if len(p.Result) == 0 && p.ErrorMessage == "" {
		return false
	}
	p.Result, p.ErrorMessage = nil, ""
	e.drafts[0].Payload, _ = encode(p)
	return true
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
