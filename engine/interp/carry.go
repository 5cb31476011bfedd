package interp

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// MaxCarriedBytes is the maximum size of a CarriedState as JSON (contract T109).
const MaxCarriedBytes = 64 << 10

// ErrCarried means that a CarriedState cannot be used: it is too large or damaged, or it belongs to another plan or
// version.
var ErrCarried = errors.New("interp: carried state")

// Bounds of carried errors. The log has the full texts.
const (
	maxCarriedMessage = 2 << 10 // bytes of one message
	maxCarriedErrors  = 6 << 10 // bytes of all errors as JSON
	maxCarriedKinds   = 127     // different errors
)

// carriedVersion changes when the meaning of a CarriedState changes.
const carriedVersion = 1

// CarriedState is the state that one execution of a run's workflow passes to the next: everything that the machine
// knows and cannot read again. No list in it grows with the length of a run. It has only the numbers of signals; the
// next machine reads the signals again (contract T109, T195, T196).
type CarriedState struct {
	Version   int `json:"v"`
	Execution int `json:"execution"` // of the next machine, from 1 (contract T61)
	Batches   int `json:"batches"`

	Signal         int64    `json:"signal,omitempty"`  // number of the last signal taken
	PendingRetries []uint64 `json:"latched,omitempty"` // numbers of signals that wait for RunResumed, as differences

	Seen    run.Seq  `json:"seen,omitempty"` // the log was observed up to this position
	Head    run.Seq  `json:"head,omitempty"` // the highest known position of the log
	Gate    run.Gate `json:"gate,omitempty"`
	Running int      `json:"running,omitempty"`
	Stop    string   `json:"stop,omitempty"` // id of the signal that ordered the stop

	Epoch         int  `json:"epoch,omitempty"` // of the newest pause
	Paused        bool `json:"paused,omitempty"`
	PauseRecorded bool `json:"pauseRecorded,omitempty"`
	// PauseResumed: the log has the RunResumed of the pause, but the machine has not received its RESUME.
	PauseResumed bool      `json:"pauseResumed,omitempty"`
	Resume       string    `json:"resume,omitempty"` // id of the RESUME that waits for the run to drain
	DrainAt      time.Time `json:"drainAt,omitzero"`
	DrainOverdue bool      `json:"drainOverdue,omitempty"`

	WindowAt      time.Time `json:"windowAt,omitzero"`
	WindowExpired bool      `json:"windowExpired,omitempty"`
	Failing       bool      `json:"failing,omitempty"` // the failure of the run is final

	WaitEnds time.Time `json:"waitEnds,omitzero"` // the earliest deadline of the waits for people

	Latest time.Time `json:"latest,omitzero"` // emittedAt of the latest known end in the log

	Delayed        []byte        `json:"delayed,omitempty"` // see packDelayed
	DelayedHow     []byte        `json:"delayedHow,omitempty"`
	DelayedRunning []byte        `json:"delayedRunning,omitempty"`
	DelayedFrom    time.Time     `json:"delayedFrom,omitzero"` // the time to which the timer is set
	TokensAt       time.Time     `json:"tokensAt,omitzero"`    // no step asks for a token before this time
	TokensGap      time.Duration `json:"tokensGap,omitempty"`  // between two rounds of steps that ask for a token
	TokensRow      int           `json:"tokensRow,omitempty"`  // number of steps that ask for a token in the next round

	Undoing   bool      `json:"undoing,omitempty"`   // compensation has started
	Undo      int       `json:"undo,omitempty"`      // hooks that are left
	Undone    []byte    `json:"undone,omitempty"`    // see packHooks
	HookN     int       `json:"hookN,omitempty"`     // dispatches of the next hook
	HookSpent int       `json:"hookSpent,omitempty"` // engine attempts of that hook that were lost
	HookAt    time.Time `json:"hookAt,omitzero"`     // when that hook is dispatched again

	Steps  []byte         `json:"steps,omitempty"`  // see packSteps
	Errors []carriedError `json:"errors,omitempty"` // referenced by Steps by index
}

// carriedError is the carried part of the failure of an attempt or a hook.
type carriedError struct {
	Code     string       `json:"code,omitempty"`
	Message  string       `json:"message,omitempty"`
	Category run.Category `json:"category,omitempty"`
	Source   string       `json:"source,omitempty"`
	Retry    bool         `json:"retry,omitempty"`
}

// Fits returns an error that wraps ErrCarried and gives the sizes if c is larger than MaxCarriedBytes. A plan within
// plan.MaxSteps stays below it as long as its steps have fewer than 128 attempts and its run fewer than 16,384 signals.
func (c CarriedState) Fits() error {
	b, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCarried, err)
	}
	if len(b) > MaxCarriedBytes {
		return fmt.Errorf("%w: it has %d bytes, %d for the steps and %d for waiting signals; at most %d are allowed",
			ErrCarried, len(b), len(c.Steps), len(c.PendingRetries), MaxCarriedBytes)
	}
	return nil
}

// Carry returns the state from which the next machine continues. It is valid only after Rotate was returned: it does
// not describe dispatches in flight.
func (m *Machine) Carry() CarriedState {
	p, f := &m.pause, &m.failure
	c := CarriedState{
		Version: carriedVersion, Execution: m.cfg.EngineAttempt + 1, Batches: m.record.batches,
		Signal: m.signals.last, Seen: m.record.seen, Head: m.record.head, Gate: m.record.gate, Running: m.record.running,
		Stop:  m.stop.signalID,
		Epoch: p.epoch, Paused: p.on, PauseRecorded: p.recorded, PauseResumed: p.on && p.isResumed(), Resume: p.resumeID,
		DrainAt: p.drainAt, DrainOverdue: p.overdue,
		WindowAt: f.windowAt, WindowExpired: f.expired, Failing: f.final,
		Undoing: m.compensation.started, Undo: len(m.compensation.todo), Latest: m.latest,
		HookN: m.compensation.n, HookSpent: m.compensation.spent, HookAt: m.compensation.due,
	}
	if due := m.manual.due; len(due) > 0 {
		c.WaitEnds = due[0].at
	}
	before := int64(0)
	for _, s := range p.pendingRetries {
		c.PendingRetries = append(c.PendingRetries, uint64(s.No-before))
		before = s.No
	}
	errs := carriedErrors{indexes: map[carriedError]int{}}
	m.packSteps(&c, &errs)
	m.packDelayed(&c)
	m.packHooks(&c, &errs)
	c.Errors = errs.list
	return c
}

// Resume returns the machine that continues from c. sk and cfg must be those of the same run. The first input must be
// an Init. It does not start the run again: the machine arms the timers, reads the signals that arrived meanwhile and
// dispatches. Errors wrap ErrCarried.
func Resume(sk plan.Skeleton, cfg Config, c CarriedState) (*Machine, error) {
	if c.Version != carriedVersion {
		return nil, fmt.Errorf("%w: it has version %d, this program reads version %d", ErrCarried, c.Version, carriedVersion)
	}
	cfg.EngineAttempt = max(cfg.EngineAttempt, c.Execution)
	m := New(sk, cfg)
	m.status, m.latest = run.Running, c.Latest
	m.record.batches, m.record.gate, m.record.running = c.Batches, c.Gate, c.Running
	m.record.seen, m.record.head = c.Seen, max(c.Seen, c.Head)
	m.stop.signalID = c.Stop
	m.signals.last, m.signals.seen = c.Signal, c.Signal
	p, f := &m.pause, &m.failure
	p.epoch, p.on, p.recorded, p.resumeID, p.drainAt, p.overdue = c.Epoch, c.Paused, c.PauseRecorded, c.Resume, c.DrainAt,
		c.DrainOverdue
	if c.PauseResumed {
		p.resumedEpoch = p.epoch
	}
	f.windowAt, f.expired, f.final = c.WindowAt, c.WindowExpired, c.Failing
	no := uint64(0)
	for _, d := range c.PendingRetries {
		no += d
		m.requestReread(int64(no))
	}
	if err := m.unpackDelayed(c); err != nil {
		return nil, err
	}
	if err := m.unpackSteps(c); err != nil {
		return nil, err
	}
	if err := m.unpackHooks(c); err != nil {
		return nil, err
	}
	slices.Sort(m.signals.reread)
	m.signals.reread = slices.Compact(m.signals.reread)
	return m, nil
}

// continueRun handles the Init of a machine that Resume made.
func (m *Machine) continueRun() {
	m.signals.lookUp = true
	if at := m.failure.windowAt; !at.IsZero() && !m.failure.expired {
		m.setTimer(TimerRetryWindow, at)
	}
	if at := m.pause.drainAt; !at.IsZero() && !m.pause.overdue {
		m.setTimer(TimerDrain, at)
	}
}

// requestReread notes the number of a signal that must be read again before the machine decides anything else.
// CarriedState has only the numbers of signals, not their content.
func (m *Machine) requestReread(no int64) {
	if no > 0 && no <= m.signals.last {
		m.signals.reread = append(m.signals.reread, no)
	}
}

// takeReread takes a signal that an earlier execution took and whose content is not in CarriedState. It returns false
// for any other signal.
func (m *Machine) takeReread(s engine.Signal) bool {
	b := &m.signals
	i, found := slices.BinarySearch(b.reread, s.No)
	if !found {
		return false
	}
	b.reread = slices.Delete(b.reread, i, i+1)
	b.lookUp = true
	o, known := m.ords[s.StepID]
	switch {
	case !known:
	case m.steps[o].signalNo == s.No:
		if !m.steps[o].awaitsSignal() { // the log showed the end of the attempt first
			break
		}
		m.steps[o].signalID = s.ID
		if at := m.steps[o].stage; at == waiting || at == ready { // with its signalID it passes fail-fast
			m.makeReady(o)
		}
	default:
		m.deferUntilResume(s)
		slices.SortFunc(m.pause.pendingRetries, func(a, b engine.Signal) int { return cmp.Compare(a.No, b.No) })
	}
	return true
}

// awaitsSignal reports whether the signal that caused the current attempt must be read again.
func (st *step) awaitsSignal() bool {
	return st.signalID == "" && st.signalNo != 0 && st.signalFor == st.attempt && st.stage != settled
}

// dropReread gives up signals that the store has lost, so that the run does not wait for them for ever. Their effects
// continue without a signal id.
func (m *Machine) dropReread() {
	if len(m.signals.reread) == 0 {
		return
	}
	m.signals.reread, m.signals.lookUp = nil, true
	for i := range m.steps {
		if st := &m.steps[i]; st.awaitsSignal() {
			st.signalNo, st.generation = 0, m.failure.generation
			if st.stage == waiting {
				m.makeReady(run.Ord(i))
			}
		}
	}
}

// truncate shortens a message to at most limit bytes, at the boundary of a character.
func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
