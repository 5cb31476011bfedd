package interp

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Kinds of a step in a CarriedState: the low half of the first byte of its entry.
const (
	carriedPending byte = iota
	carriedSuccess
	carriedSkipped
	carriedFailing     // FAILED, and it arms fail-fast
	carriedInterrupted // a pause cancelled it, and it starts again after the resume
	carriedRetrying    // FAILED, and the next attempt is ready
	carriedUndoable    // SUCCESS, and it has a hook
	carriedOpen        // it waits for a person
	carriedRepeat      // no step: the previous entry repeats as often as the number that follows
)

// Bits of the high half. Each says that a number follows, in this order.
const (
	carriedAttempt    byte = 1 << (4 + iota) // the logical attempt, if it is not 1
	carriedN                                 // n if it is not 0, with the spent engine attempts above it
	carriedSignal                            // signalNo
	carriedGeneration                        // without a number: the step passes fail-fast
)

// packSteps writes one entry for each step, and one repetition for the equal entries that follow it. Some entries have
// more numbers at their end:
//
//   - A FAILED step: its rank among the failures, because only their order counts, and the index of its error.
//   - A succeeded step with a hook: its rank among the completions.
//   - A step that waits for a person: 1 plus the milliseconds from the earliest deadline to its own, or 0 without a
//     deadline.
func (m *Machine) packSteps(c *CarriedState, errs *carriedErrors) {
	failures, undoable := m.rankFailures(), m.rankSuccesses()
	errorOf := make([]int, len(m.steps))
	for _, o := range failures.order {
		f := &m.steps[o].failed
		errorOf[o] = errs.indexOf(carriedError{
			Code: f.ErrorCode, Message: f.ErrorMessage, Category: f.FailureCategory, Source: f.FailureSource, Retry: f.Retryable,
		})
	}
	var last []byte
	same := uint64(0)
	flush := func() {
		if same > 0 {
			c.Steps = binary.AppendUvarint(append(c.Steps, carriedRepeat), same)
		}
		same = 0
	}
	for i := range m.steps {
		e := m.packStep(i, undoable.of[i] > 0)
		switch e[0] & 0x0f {
		case carriedFailing, carriedInterrupted, carriedRetrying:
			e = binary.AppendUvarint(binary.AppendUvarint(e, uint64(failures.of[i])), uint64(errorOf[i]))
		case carriedUndoable:
			e = binary.AppendUvarint(e, uint64(undoable.of[i]))
		case carriedOpen:
			left := uint64(0)
			if at := m.steps[i].waitEnds; !at.IsZero() {
				left = uint64((at.Sub(c.WaitEnds)+time.Millisecond-1)/time.Millisecond) + 1
			}
			e = binary.AppendUvarint(e, left)
		}
		if i > 0 && slices.Equal(e, last) {
			same++
			continue
		}
		flush()
		c.Steps, last = append(c.Steps, e...), e
	}
	flush()
}

func (m *Machine) packStep(i int, undoable bool) []byte {
	st := &m.steps[i]
	e := make([]byte, 1, 16)
	switch {
	case st.stage == open:
		e[0] = carriedOpen
	case undoable:
		e[0] = carriedUndoable
	case st.status == run.StepSuccess:
		e[0] = carriedSuccess
	case st.status == run.StepSkipped:
		e[0] = carriedSkipped
	case st.status != run.StepFailed:
		e[0] = carriedPending
	case st.failing:
		e[0] = carriedFailing
	case st.stage == settled:
		e[0] = carriedInterrupted
	default:
		e[0] = carriedRetrying
	}
	number := func(flag byte, n uint64) {
		e[0] |= flag
		e = binary.AppendUvarint(e, n)
	}
	if st.attempt != 1 {
		number(carriedAttempt, uint64(st.attempt))
	}
	if st.n != 0 && st.stage != settled {
		number(carriedN, uint64(st.spent)<<32|uint64(st.n))
	}
	if st.signalID != "" {
		number(carriedSignal, uint64(st.signalNo))
	}
	if st.generation == m.failure.generation {
		e[0] |= carriedGeneration
	}
	return e
}

// ranks is a list of steps in an order.
type ranks struct {
	order []run.Ord
	of    []int // by ordinal, from 1
}

// rankFailures returns the FAILED steps in the order of their failures.
func (m *Machine) rankFailures() ranks {
	var order []run.Ord
	for i := range m.steps {
		if m.steps[i].status == run.StepFailed {
			order = append(order, run.Ord(i))
		}
	}
	slices.SortStableFunc(order, func(a, b run.Ord) int { return cmp.Compare(m.steps[a].failedSeq, m.steps[b].failedSeq) })
	return m.rank(order)
}

// rankSuccesses returns the steps with a hook in the order of their completion.
func (m *Machine) rankSuccesses() ranks {
	list := append([]success(nil), m.compensation.succeeded...)
	slices.SortStableFunc(list, func(a, b success) int { return cmp.Compare(a.seq, b.seq) })
	order := make([]run.Ord, len(list))
	for i, s := range list {
		order[i] = s.ord
	}
	return m.rank(order)
}

func (m *Machine) rank(order []run.Ord) ranks {
	r := ranks{order: order, of: make([]int, len(m.steps))}
	for i, o := range order {
		r.of[o] = i + 1
	}
	return r
}

// carriedErrors collects the distinct errors of steps and hooks within maxCarriedKinds and maxCarriedErrors.
type carriedErrors struct {
	list    []carriedError
	indexes map[carriedError]int
	size    int
}

// indexOf returns the index of an error in list, and adds the error if it is new. While there is room, the error keeps
// its shortened message, then only its code and category. After that it becomes INTERNAL and keeps only whether a retry
// may help.
func (l *carriedErrors) indexOf(e carriedError) int {
	e.Message = truncate(e.Message, maxCarriedMessage)
	bare := e
	bare.Message, bare.Source = "", ""
	unknown := carriedError{Code: string(run.CodeInternal), Category: run.CategoryPlatform, Retry: e.Retry}
	for _, e := range []carriedError{e, bare} {
		if i, ok := l.add(e, maxCarriedKinds, maxCarriedErrors); ok {
			return i
		}
	}
	i, _ := l.add(unknown, math.MaxInt, math.MaxInt)
	return i
}

func (l *carriedErrors) add(e carriedError, kinds, size int) (int, bool) {
	if i, known := l.indexes[e]; known {
		return i, true
	}
	b, err := json.Marshal(e)
	if err != nil || l.size+len(b) > size || len(l.list) >= kinds {
		return 0, false
	}
	l.size += len(b)
	l.list = append(l.list, e)
	l.indexes[e] = len(l.list) - 1
	return len(l.list) - 1, true
}

// unpackSteps restores the state that packSteps wrote. Its errors wrap ErrCarried.
func (m *Machine) unpackSteps(c CarriedState) error {
	in := entries{rest: c.Steps}
	for i := 0; i < len(m.steps); {
		first, times := in.rest, 1
		what := in.byte()
		if what == carriedRepeat {
			n := in.number()
			if i == 0 || n == 0 || n > len(m.steps)-i {
				return fmt.Errorf("%w: step %d has an invalid repetition of %d", ErrCarried, i, n)
			}
			first, times = in.before, n
		}
		for range times {
			in.before = first
			again := entries{rest: first}
			if err := m.unpackStep(run.Ord(i), &again, &c); err != nil {
				return err
			}
			if what != carriedRepeat {
				in.rest = again.rest
			}
			i++
		}
		if in.broken {
			break
		}
	}
	if in.broken || len(in.rest) > 0 {
		return fmt.Errorf("%w: it does not match a plan of %d steps", ErrCarried, len(m.steps))
	}
	m.placeSteps()
	return nil
}

func (m *Machine) unpackStep(o run.Ord, in *entries, c *CarriedState) error {
	st := &m.steps[o]
	what := in.byte()
	kind := what & 0x0f
	if what&carriedAttempt != 0 {
		st.attempt = in.number()
	}
	if what&carriedN != 0 {
		n := in.number()
		st.n, st.spent = n&math.MaxUint32, n>>32
	}
	if what&carriedSignal != 0 {
		st.signalNo, st.signalFor = int64(in.number()), st.attempt
	}
	if what&carriedGeneration != 0 {
		st.generation = m.failure.generation
	}
	switch kind {
	case carriedPending:
	case carriedSuccess:
		st.status, st.stage = run.StepSuccess, settled
	case carriedSkipped:
		st.status, st.stage = run.StepSkipped, settled
	case carriedUndoable:
		st.status, st.stage = run.StepSuccess, settled
		m.compensation.succeeded = append(m.compensation.succeeded, success{o, run.Seq(in.number())})
	case carriedOpen:
		if st.attempt > 1 {
			st.status = run.StepFailed
		}
		if left := in.number(); left > 0 {
			st.waitEnds = c.WaitEnds.Add(time.Duration(left-1) * time.Millisecond)
		}
		m.keepOpen(o)
	case carriedFailing, carriedInterrupted, carriedRetrying:
		st.status, st.failedSeq = run.StepFailed, run.Seq(in.number())
		index := in.number()
		if index >= len(c.Errors) {
			in.broken = true
			break
		}
		e := c.Errors[index]
		st.failed = run.FailurePayload{
			ErrorCode: e.Code, ErrorMessage: e.Message, Retryable: e.Retry, FailureCategory: e.Category, FailureSource: e.Source,
		}
		if kind != carriedRetrying {
			st.stage = settled
		}
		switch kind {
		case carriedFailing:
			st.failing = true
			m.failure.count++
		case carriedInterrupted:
			m.pause.interrupted = append(m.pause.interrupted, o)
		}
	default:
		in.broken = true
	}
	if in.broken || st.attempt < 1 || st.attempt > math.MaxInt32 || st.n > math.MaxInt32 {
		return fmt.Errorf("%w: step %d cannot be decoded", ErrCarried, o)
	}
	return nil
}

// placeSteps derives the stage of each step from its status and those of its predecessors.
func (m *Machine) placeSteps() {
	for i := range m.steps {
		if s := m.steps[i].status; s == run.StepSuccess || s == run.StepSkipped {
			m.schedule.left--
			for _, n := range m.next[i] {
				m.steps[n].missing--
			}
		}
	}
	for i := range m.steps {
		switch st := &m.steps[i]; {
		case st.stage == open, st.stage == delayed:
			m.requestReread(st.signalNo)
		case st.stage != waiting:
		case st.signalNo != 0 && st.signalNo <= m.signals.last: // takeReread makes it ready
			m.requestReread(st.signalNo)
		case st.status == run.StepFailed, st.missing == 0:
			m.makeReady(run.Ord(i))
		}
	}
}

// entries reads packed numbers. A value that cannot be read is 0 and sets broken, which the caller must check.
type entries struct {
	rest   []byte
	before []byte // starts at the previous entry
	broken bool
}

func (r *entries) byte() byte {
	if len(r.rest) == 0 {
		r.broken = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *entries) number() int {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > math.MaxInt {
		r.broken = true
		return 0
	}
	r.rest = r.rest[size:]
	return int(n)
}
