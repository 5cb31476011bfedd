package interp

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/dvt-engine/dvt/run"
)

// What a step is in a Carried: the low half of the first byte of its entry.
const (
	carriedPending byte = iota
	carriedSuccess
	carriedSkipped
	carriedFailing     // FAILED, and it arms fail-fast
	carriedInterrupted // FAILED by the pause, starts again after it
	carriedRetrying    // FAILED, and the next attempt is ready
	carriedRepeat      // not a step: the entry before, so many times more
)

// The high half says which numbers follow, in this order, and which do not.
const (
	carriedLA     byte = 1 << (4 + iota) // la, where it is not 1
	carriedN                             // n, where it is not 0
	carriedSignal                        // signalNo
	carriedEra                           // no number: the step passes fail-fast
)

// packSteps writes one entry for each step, and one for all that follow it and are
// the same. The entry of a FAILED step ends with its rank among the failures, as
// only their order counts, and the place of its error.
func (m *Machine) packSteps(c *Carried) {
	ranks := m.rankFailures()
	errs := carriedErrors{places: map[carriedError]int{}}
	errorOf := make([]int, len(m.steps))
	for _, o := range ranks.order {
		errorOf[o] = errs.place(m.steps[o].failed)
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
		e := m.packStep(i)
		if m.steps[i].status == run.StepFailed {
			e = binary.AppendUvarint(binary.AppendUvarint(e, uint64(ranks.of[i])), uint64(errorOf[i]))
		}
		if i > 0 && slices.Equal(e, last) {
			same++
			continue
		}
		flush()
		c.Steps, last = append(c.Steps, e...), e
	}
	flush()
	c.Errors = errs.list
}

func (m *Machine) packStep(i int) []byte {
	st := &m.steps[i]
	e := make([]byte, 1, 16)
	switch {
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
	if st.la != 1 {
		number(carriedLA, uint64(st.la))
	}
	if st.n != 0 && st.stage != settled {
		number(carriedN, uint64(st.n))
	}
	if st.signalID != "" {
		number(carriedSignal, uint64(st.signalNo))
	}
	if st.era == m.failure.era {
		e[0] |= carriedEra
	}
	return e
}

// ranks is the FAILED steps in the order of their failures.
type ranks struct {
	order []run.Ord
	of    []int // by ordinal, from 1
}

func (m *Machine) rankFailures() ranks {
	r := ranks{of: make([]int, len(m.steps))}
	for i := range m.steps {
		if m.steps[i].status == run.StepFailed {
			r.order = append(r.order, run.Ord(i))
		}
	}
	slices.SortStableFunc(r.order, func(a, b run.Ord) int { return cmp.Compare(m.steps[a].failedSeq, m.steps[b].failedSeq) })
	for i, o := range r.order {
		r.of[o] = i + 1
	}
	return r
}

// carriedErrors collects different errors while there is room; the first is what
// stands for all others.
type carriedErrors struct {
	list   []carriedError
	places map[carriedError]int
	size   int
}

func (l *carriedErrors) place(f run.FailurePayload) int {
	e := carriedError{
		Code: f.ErrorCode, Message: cut(f.ErrorMessage, maxCarriedMessage), Category: f.FailureCategory, Source: f.FailureSource, Retry: f.Retryable,
	}
	if i, ok := l.add(e); ok {
		return i
	}
	e.Message, e.Source = "", ""
	if i, ok := l.add(e); ok {
		return i
	}
	// There are two of these, for which there is always room.
	e = carriedError{Code: string(run.CodeInternal), Category: run.CategoryPlatform, Retry: f.Retryable}
	l.size = math.MinInt32
	i, _ := l.add(e)
	l.size = maxCarriedErrors
	return i
}

func (l *carriedErrors) add(e carriedError) (int, bool) {
	if i, known := l.places[e]; known {
		return i, true
	}
	b, err := json.Marshal(e)
	if err != nil || l.size+len(b) > maxCarriedErrors || len(l.list) >= maxCarriedKinds && l.size >= 0 {
		return 0, false
	}
	l.size += len(b)
	l.list = append(l.list, e)
	l.places[e] = len(l.list) - 1
	return len(l.list) - 1, true
}

// unpackSteps is packSteps backwards.
func (m *Machine) unpackSteps(c Carried) error {
	in := entries{rest: c.Steps}
	for i := 0; i < len(m.steps); {
		first, times := in.rest, 1
		what := in.byte()
		if what == carriedRepeat {
			n := in.number()
			if i == 0 || n == 0 || n > len(m.steps)-i {
				return fmt.Errorf("%w: step %d is repeated %d times", ErrCarried, i, n)
			}
			first, times = in.before, n
		}
		for range times {
			in.before = first
			again := entries{rest: first}
			if err := m.unpackStep(run.Ord(i), &again, c.Errors); err != nil {
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
		return fmt.Errorf("%w: it is not of a plan of %d steps", ErrCarried, len(m.steps))
	}
	m.placeSteps()
	return nil
}

func (m *Machine) unpackStep(o run.Ord, in *entries, errs []carriedError) error {
	st := &m.steps[o]
	what := in.byte()
	kind := what & 0x0f
	if what&carriedLA != 0 {
		st.la = in.number()
	}
	if what&carriedN != 0 {
		st.n = in.number()
	}
	if what&carriedSignal != 0 {
		st.signalNo = int64(in.number())
	}
	if what&carriedEra != 0 {
		st.era = m.failure.era
	}
	switch kind {
	case carriedPending:
	case carriedSuccess:
		st.status, st.stage = run.StepSuccess, settled
	case carriedSkipped:
		st.status, st.stage = run.StepSkipped, settled
	case carriedFailing, carriedInterrupted, carriedRetrying:
		st.status, st.failedSeq = run.StepFailed, run.Seq(in.number())
		place := in.number()
		if place >= len(errs) {
			in.broken = true
			break
		}
		e := errs[place]
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
	if in.broken || st.la < 1 {
		return fmt.Errorf("%w: step %d is unreadable", ErrCarried, o)
	}
	return nil
}

// placeSteps puts each step where its status and those of its predecessors say.
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
		case st.stage != waiting:
		case st.signalNo != 0 && st.signalNo <= m.signals.last: // ready once the signal is known
			m.owe(st.signalNo)
		case st.status == run.StepFailed, st.missing == 0:
			m.makeReady(run.Ord(i))
		}
	}
}

// entries reads packed steps. Once broken it gives zeros.
type entries struct {
	rest   []byte
	before []byte // from the entry before on
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
	if size <= 0 || n > math.MaxInt32 {
		r.broken = true
		return 0
	}
	r.rest = r.rest[size:]
	return int(n)
}
