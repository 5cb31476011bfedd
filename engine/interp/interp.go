// Package interp is the pure interpreter of plans: a machine that turns inputs into effects. It has no clock, I/O,
// goroutines, random numbers or map iteration, so that every replay of the same inputs produces the same effects
// (contract T184, T191). Each input carries the time.
package interp

import (
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Input is one event for the machine: exactly one of the types below.
type Input interface{ input() }

// Inputs. At is the workflow's time, which replaces a clock.
type (
	// Init is the first input of a machine. A second one changes nothing.
	Init struct{ At time.Time }

	// Recorded answers the outstanding Append. When the machine itself writes the end of an attempt, the end counts and
	// unlocks successors only here, because the log may already have another end that won (contract T191).
	Recorded struct {
		At    time.Time `json:"at"`
		Batch int       `json:"batch"` // echoes Append.Batch (contract T184)
		// HeldBack means that nothing of the Append was written, because the run's gate was closed. Gate is that gate. No
		// other field is set.
		HeldBack bool     `json:"heldBack,omitempty"`
		Gate     run.Gate `json:"gate,omitempty"`
		// Ended means that nothing of the Append was written, because the log has the end of an attempt that it would start.
		// No other field is set.
		Ended bool `json:"ended,omitempty"`
		// Ends has one entry for each event of the batch, in order.
		Ends         []RecordedEvent `json:"ends,omitempty"`
		Head         run.Seq         `json:"head"`
		Running      int             `json:"running"`               // attempts RUNNING at Head, without waits for people
		RunTerminal  bool            `json:"runTerminal,omitempty"` // the run has ended, by this batch or by another writer
		WindowOpened *time.Time      `json:"windowOpened,omitempty"`
		// StillFailing means that the log kept GateFailing although the Append was to clear it, because a step failed after
		// Append.Seen.
		StillFailing bool `json:"stillFailing,omitempty"`
	}

	// Observed has the events of the log after Machine.Seen. Starts of attempts that workers wrote count only here, ends
	// here or in an Ended, because the machine does not trust the engine (contract T191). Events that were observed before
	// change nothing. Signals wait until the log was observed to a head whose SignalNo covers them, because they were
	// accepted on that state.
	Observed struct {
		At   time.Time
		Tail engine.Tail
	}

	// Renumbered means that the log was replaced, because the store was restored and repaired: events may have other
	// positions. The machine observes the whole log again.
	Renumbered struct{ At time.Time }

	// Ended has the receipt for the end of an attempt. The driver must have verified its proof. The receipt of a
	// completion counts like an Observed. After any other end, or when the gate is closed by fail-fast, the machine reads
	// the log.
	Ended struct {
		At             time.Time
		StepID         string
		LogicalAttempt int
		Receipt        engine.Receipt
	}

	// Returned means that the engine no longer executes one dispatch. The driver must observe the log between the engine's
	// answer and this input: if the log has the end, the dispatch is no longer in flight and the Returned is stale.
	Returned struct {
		At     time.Time
		Return engine.Return
	}

	// Signalled has signals in any order. The machine takes them by number, drops known ones and fetches missing ones
	// (contract T196).
	Signalled struct {
		At      time.Time
		Signals []engine.Signal
	}

	// Woken means that there may be new signals; the machine fetches them.
	Woken struct{ At time.Time }

	// Fired means that a timer of SetTimer has expired.
	Fired struct {
		At    time.Time
		Timer Timer
	}

	// HookReturned means that the engine no longer executes one dispatch of a hook (Compensate). The driver must observe
	// the log before it, as for Returned.
	HookReturned struct {
		At     time.Time
		Return engine.Return
	}

	// Pressure means that the engine's history has grown past its threshold. The machine rotates when nothing is in
	// flight, as if RotateAfter were reached (contract T195). Hard means that the history must not grow further: the
	// machine dispatches nothing until it has rotated.
	Pressure struct {
		At   time.Time
		Hard bool
	}
)

func (Init) input()     {}
func (Recorded) input() {}
func (Observed) input() {}
func (Ended) input()    {}

func (Renumbered) input() {}
func (Returned) input()   {}
func (Signalled) input()  {}
func (Woken) input()      {}
func (Fired) input()      {}

func (HookReturned) input() {}
func (Pressure) input()     {}

// RecordedEvent is the outcome of one event of a batch.
type RecordedEvent struct {
	Seq run.Seq `json:"seq,omitempty"`
	// Won is the type of the end that the log already had, so that the store refused this event with INVALID_TRANSITION;
	// else "".
	Won run.EventType `json:"won,omitempty"`
	// Failure is the payload of the StepFailed that the log has instead of the batch's event; Hook likewise for the end of
	// a hook.
	Failure *run.FailurePayload      `json:"failure,omitempty"`
	Hook    *run.CompensationPayload `json:"hook,omitempty"`
	// At is the emittedAt in the log if it is later than that of the batch's event.
	At time.Time `json:"at,omitzero"`
	// NotStarted is set when the batch had IfStarted and the attempt never started.
	NotStarted bool `json:"notStarted,omitempty"`
	// Rejected is set when the store refused the event's content (contract T190).
	Rejected bool `json:"rejected,omitempty"`
}

// Timer names the purpose of a timer.
type Timer string

// Timers.
const (
	TimerRetryWindow Timer = "retry-window"
	TimerDrain       Timer = "drain"
	TimerManual      Timer = "manual"   // the earliest deadline of a wait for a person (contract T83)
	TimerRotation    Timer = "rotation" // the end of RotationPatience (contract T195)
	TimerDelay       Timer = "delay"    // the next time at which a delayed step or hook is due (contract T113)
)

// Effect is an action for the driver. Effects must be performed in the order returned.
type Effect interface{ effect() }

// Effects.
type (
	// Append writes a batch; at most one is outstanding (contract T191). The driver sets RunID and MinHead and retries
	// until Outcome returns a Recorded. A batch with UnlessPaused must not follow a RunPaused that the machine may not
	// know; see engine.Journal.AppendUnlessPaused. A batch with an UnlessGate starts waits for people; the log checks its
	// current gate.
	Append struct {
		Batch        int
		UnlessPaused bool
		store.Append
	}

	// Execute dispatches one logical attempt of a step for the N-th time. (Ord, LogicalAttempt, N) never repeats. An
	// attempt that is RUNNING in the log and that the engine lost is dispatched again regardless of the gate.
	Execute struct {
		Ord               run.Ord
		LogicalAttempt, N int
		Spent             int    // engine attempts used by earlier dispatches of this attempt
		PassFailing       bool   // the attempt may start although fail-fast has closed the gate (contract T217)
		SignalID          string // the RETRY_STEP that caused the attempt
	}

	// CancelSteps asks the executions in flight of these steps to stop. For a step that is being undone, the execution is
	// its hook.
	CancelSteps struct{ Ords []run.Ord }

	// SetTimer arms or re-arms a timer; a zero At disarms it.
	SetTimer struct {
		Timer Timer
		At    time.Time
	}

	// FetchSignals asks for a Signalled with the accepted signals after a number. An empty Signalled means that there are
	// none.
	FetchSignals struct{ After int64 }

	// ReadLog asks for an Observed.
	ReadLog struct{}

	// Compensate runs the hook of one succeeded step, one at a time (contract R185). The answer is an Observed with its
	// end, or a HookReturned.
	Compensate struct {
		Ord            run.Ord
		LogicalAttempt int // the attempt that succeeded
		N              int // dispatch ordinal
		Spent          int // engine attempts used by earlier dispatches
	}

	// Rotate ends this execution of the workflow; the next one continues with Resume from the current Carry (contract
	// T105, T195). No Append and no ReadLog is outstanding. An Execute or Compensate may be outstanding only if the
	// machine observed its end before the engine reported it, and a FetchSignals only if other signals overtook it. The
	// driver may drop those answers. It passes signals that arrive after this effect to the next machine. The next machine
	// arms its timers itself.
	Rotate struct{}

	// Finish ends the workflow; nothing follows it. Status is empty when another writer ended the run, or the log refused
	// the run's own events.
	Finish struct{ Status run.Status }
)

func (Append) effect()       {}
func (Execute) effect()      {}
func (CancelSteps) effect()  {}
func (SetTimer) effect()     {}
func (FetchSignals) effect() {}
func (ReadLog) effect()      {}
func (Compensate) effect()   {}
func (Rotate) effect()       {}
func (Finish) effect()       {}
