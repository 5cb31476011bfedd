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

// MaxCarriedBytes is what a Carried takes at most as JSON (T109).
const MaxCarriedBytes = 64 << 10

// ErrCarried says that a Carried cannot be used: it is too large, or not one of
// this plan and version.
var ErrCarried = errors.New("interp: carried state")

// Bounds of what is carried of errors. What is cut off stands in the log.
const (
	maxCarriedMessage = 2 << 10 // bytes of one message
	maxCarriedErrors  = 6 << 10 // bytes of all, as JSON
	maxCarriedKinds   = 127     // different ones
)

// carriedVersion changes with the meaning of a Carried.
const carriedVersion = 1

// Carried is what one execution of a run's workflow hands to the next: all that
// the machine knows and cannot read again. It has no list that grows with the
// length of a run. Signals are carried by their numbers; the next machine reads
// them again (T109, T195, T196).
type Carried struct {
	Version   int `json:"v"`
	Execution int `json:"execution"` // of the next machine, from 1 (T61)
	Batches   int `json:"batches"`

	Signal  int64    `json:"signal,omitempty"`  // number of the last one taken
	Latched []uint64 `json:"latched,omitempty"` // numbers of those that wait for RunResumed, each from the one before

	Seen    run.Seq  `json:"seen,omitempty"` // up to here the log was observed
	Head    run.Seq  `json:"head,omitempty"` // the highest that the log was said to have
	Gate    run.Gate `json:"gate,omitempty"`
	Running int      `json:"running,omitempty"`
	Stop    string   `json:"stop,omitempty"` // the signal that ordered it

	Epoch         int  `json:"epoch,omitempty"` // of the newest pause
	Paused        bool `json:"paused,omitempty"`
	PauseRecorded bool `json:"pauseRecorded,omitempty"`
	// the log has the RunResumed of the pause, and its RESUME was not heard
	PauseResumed bool      `json:"pauseResumed,omitempty"`
	Resume       string    `json:"resume,omitempty"` // the signal that waits for the run to drain
	DrainAt      time.Time `json:"drainAt,omitzero"`
	DrainOverdue bool      `json:"drainOverdue,omitempty"`

	WindowAt      time.Time `json:"windowAt,omitzero"`
	WindowExpired bool      `json:"windowExpired,omitempty"`
	Failing       bool      `json:"failing,omitempty"` // the run fails, nothing changes that

	WaitEnds time.Time `json:"waitEnds,omitzero"` // of the waits for people, the first deadline

	Latest time.Time `json:"latest,omitzero"` // emittedAt of the latest end that the log is known to have

	Delayed        []byte        `json:"delayed,omitempty"` // see packDelayed
	DelayedHow     []byte        `json:"delayedHow,omitempty"`
	DelayedRunning []byte        `json:"delayedRunning,omitempty"`
	DelayedFrom    time.Time     `json:"delayedFrom,omitzero"` // to which the timer is set
	TokensAt       time.Time     `json:"tokensAt,omitzero"`    // no step asks for a token before
	TokensGap      time.Duration `json:"tokensGap,omitempty"`
	TokensRow      int           `json:"tokensRow,omitempty"`

	Undoing   bool      `json:"undoing,omitempty"`   // the hooks run
	Undo      int       `json:"undo,omitempty"`      // hooks that are left
	Undone    []byte    `json:"undone,omitempty"`    // see packHooks
	HookN     int       `json:"hookN,omitempty"`     // dispatches of the first hook that is left
	HookSpent int       `json:"hookSpent,omitempty"` // engine attempts of it that were lost
	HookAt    time.Time `json:"hookAt,omitzero"`     // when it is dispatched again

	Steps  []byte         `json:"steps,omitempty"`  // see packSteps
	Errors []carriedError `json:"errors,omitempty"` // that Steps refer to by place
}

// carriedError is what stays of the payload of an attempt, or a hook, that FAILED.
type carriedError struct {
	Code     string       `json:"code,omitempty"`
	Message  string       `json:"message,omitempty"`
	Category run.Category `json:"category,omitempty"`
	Source   string       `json:"source,omitempty"`
	Retry    bool         `json:"retry,omitempty"`
}

// Fits returns an ErrCarried that says why, when c is larger than an engine takes.
// No plan within plan.MaxSteps comes there whose steps have had fewer than 128
// attempts and whose run has had fewer than 16,384 signals.
func (c Carried) Fits() error {
	b, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCarried, err)
	}
	if len(b) > MaxCarriedBytes {
		return fmt.Errorf("%w: it has %d bytes, %d for the steps and %d for signals that wait; at most %d are allowed",
			ErrCarried, len(b), len(c.Steps), len(c.Latched), MaxCarriedBytes)
	}
	return nil
}

// Carry says what the next machine goes on from. It is for a machine that has
// returned Rotate: of one with something in flight it does not say what that is.
func (m *Machine) Carry() Carried {
	p, f := &m.pause, &m.failure
	c := Carried{
		Version: carriedVersion, Execution: m.who.EngineAttempt + 1, Batches: m.record.batches,
		Signal: m.signals.last, Seen: m.record.seen, Head: m.record.head, Gate: m.record.gate, Running: m.record.running,
		Stop:  m.stop.signalID,
		Epoch: p.epoch, Paused: p.on, PauseRecorded: p.recorded, PauseResumed: p.on && p.isResumed(), Resume: p.resumeID,
		DrainAt: p.drainAt, DrainOverdue: p.overdue,
		WindowAt: f.windowAt, WindowExpired: f.expired, Failing: f.final,
		Undoing: m.compensation.begun, Undo: len(m.compensation.todo), Latest: m.latest,
		HookN: m.compensation.n, HookSpent: m.compensation.spent, HookAt: m.compensation.due,
	}
	if due := m.manual.due; len(due) > 0 {
		c.WaitEnds = due[0].at
	}
	before := int64(0)
	for _, s := range p.latched {
		c.Latched = append(c.Latched, uint64(s.No-before))
		before = s.No
	}
	errs := carriedErrors{places: map[carriedError]int{}}
	m.packSteps(&c, &errs)
	m.packDelayed(&c)
	m.packHooks(&c, &errs)
	c.Errors = errs.list
	return c
}

// Resume returns the machine that goes on from what another one carried, for the
// same plan and run. Its first input is a Begin, which starts nothing anew: it arms
// the timers, reads the signals that came meanwhile and dispatches. Errors wrap
// ErrCarried.
func Resume(sk plan.Skeleton, who Config, c Carried) (*Machine, error) {
	if c.Version != carriedVersion {
		return nil, fmt.Errorf("%w: version %d, this is %d", ErrCarried, c.Version, carriedVersion)
	}
	who.EngineAttempt = max(who.EngineAttempt, c.Execution)
	m := New(sk, who)
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
	for _, d := range c.Latched {
		no += d
		m.owe(int64(no))
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
	slices.Sort(m.signals.owed)
	m.signals.owed = slices.Compact(m.signals.owed)
	return m, nil
}

// goOn is the Begin of a machine that Resume made.
func (m *Machine) goOn() {
	m.signals.lookUp = true
	if at := m.failure.windowAt; !at.IsZero() && !m.failure.expired {
		m.setTimer(TimerRetryWindow, at)
	}
	if at := m.pause.drainAt; !at.IsZero() && !m.pause.overdue {
		m.setTimer(TimerDrain, at)
	}
}

// owe notes a signal that must be read again before anything else is decided.
func (m *Machine) owe(no int64) {
	if no > 0 && no <= m.signals.last {
		m.signals.owed = append(m.signals.owed, no)
	}
}

// readAgain takes a signal that an earlier execution took and could not carry.
func (m *Machine) readAgain(s engine.Signal) bool {
	b := &m.signals
	i, owed := slices.BinarySearch(b.owed, s.No)
	if !owed {
		return false
	}
	b.owed = slices.Delete(b.owed, i, i+1)
	b.lookUp = true
	o, known := m.ords[s.StepID]
	switch {
	case !known:
	case m.steps[o].signalNo == s.No:
		m.steps[o].signalID = s.ID
		if at := m.steps[o].stage; at == waiting || at == ready { // it passes fail-fast from now on
			m.makeReady(o)
		}
	default:
		m.latch(s)
		slices.SortFunc(m.pause.latched, func(a, b engine.Signal) int { return cmp.Compare(a.No, b.No) })
	}
	return true
}

// readNoMore gives up on signals that are gone: what they caused goes on without
// saying so.
func (m *Machine) readNoMore() {
	if len(m.signals.owed) == 0 {
		return
	}
	m.signals.owed, m.signals.lookUp = nil, true
	for i := range m.steps {
		if st := &m.steps[i]; st.signalNo != 0 && st.signalID == "" {
			st.signalNo, st.era = 0, m.failure.era
			if st.stage == waiting {
				m.makeReady(run.Ord(i))
			}
		}
	}
}

// cut shortens a message to so many bytes at most.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
