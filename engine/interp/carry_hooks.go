package interp

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/dvt-engine/dvt/run"
)

// packHooks writes the result of each hook that ran, in order: twice the number of attempts, or for a failed hook that
// plus 1 and then the index of its error. It does not write the steps, because they follow from the order of the
// successes.
func (m *Machine) packHooks(c *CarriedState, errs *carriedErrors) {
	for _, p := range m.compensation.done {
		how := uint64(p.Attempts) << 1
		if p.Compensated {
			c.Undone = binary.AppendUvarint(c.Undone, how)
			continue
		}
		index := errs.indexOf(carriedError{Code: p.ErrorCode, Message: p.ErrorMessage})
		c.Undone = binary.AppendUvarint(binary.AppendUvarint(c.Undone, how|1), uint64(index))
	}
}

// unpackHooks restores the state that packHooks wrote. It must run after unpackSteps, which restores the successes. Its
// errors wrap ErrCarried.
func (m *Machine) unpackHooks(c CarriedState) error {
	h := &m.compensation
	order := m.rankSuccesses().order
	h.succeeded = h.succeeded[:0]
	for i, o := range order {
		h.succeeded = append(h.succeeded, success{o, run.Seq(i + 1)})
	}
	if h.started = c.Undoing; !h.started {
		return nil
	}
	m.orderHooks()
	in := entries{rest: c.Undone}
	for len(in.rest) > 0 && !in.broken && len(h.todo) > 0 {
		how := in.number()
		p := run.CompensationPayload{StepID: m.sk.Steps[h.todo[0]].StepID, Attempts: how >> 1, Compensated: how&1 == 0}
		p.IdempotencyKey = m.compensationKey(p.StepID)
		if !p.Compensated {
			index := in.number()
			if index >= len(c.Errors) {
				break
			}
			p.ErrorCode, p.ErrorMessage = c.Errors[index].Code, c.Errors[index].Message
		}
		h.done, h.todo = append(h.done, p), h.todo[1:]
	}
	if in.broken || len(in.rest) > 0 || c.Undo < 0 || c.Undo > len(h.todo) {
		return fmt.Errorf("%w: the compensation cannot be decoded", ErrCarried)
	}
	h.todo = slices.Clip(h.todo[:c.Undo]) // fewer than all after a stop
	if len(h.todo) > 0 {
		h.n, h.spent, h.due = max(0, c.HookN), max(0, c.HookSpent), c.HookAt
	}
	return nil
}
