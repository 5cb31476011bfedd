// Package interp is the pure interpreter of plans: a machine that turns inputs
// into effects. It has no clock, no I/O, no goroutine, no random number and no
// map iteration, so that every engine that replays its inputs gets the same
// effects for ever (T184, T191). Time enters with each input.
package interp

import (
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Input is something that happened. Exactly one of the types below.
type Input interface{ input() }

// Inputs, each at the workflow's time.
type (
	// Begin is the first input of a run.
	Begin struct{ At time.Time }

	// Recorded answers the outstanding Append. A completion becomes SUCCESS or
	// FAILED and unlocks successors only here, with the outcome that won (T191).
	Recorded struct {
		At    time.Time `json:"at"`
		Batch int       `json:"batch"` // echoes Append.Batch (T184)
		// HeldBack says that nothing of the Append was written, because the run's gate was closed: Gate is what the
		// gate was. Nothing else is set.
		HeldBack bool     `json:"heldBack,omitempty"`
		Gate     run.Gate `json:"gate,omitempty"`
		// Ended says that nothing of the Append was written, because the log has an end of an attempt that it would
		// begin. Nothing else is set.
		Ended bool `json:"ended,omitempty"`
		// Ends stands in the order of the batch's events.
		Ends         []RecordedEvent `json:"ends,omitempty"`
		Head         run.Seq         `json:"head"`
		Running      int             `json:"running"`               // non-manual attempts RUNNING at Head
		RunTerminal  bool            `json:"runTerminal,omitempty"` // the run is over, by this batch or by another hand
		WindowOpened *time.Time      `json:"windowOpened,omitempty"`
		// StillFailing says that the log kept GateFailing although the Append cleared it, because a step failed
		// after Append.Seen.
		StillFailing bool `json:"stillFailing,omitempty"`
	}

	// Observed brings what the log says after Machine.Seen. The begins and ends of attempts that workers wrote count
	// here and nowhere else: no engine is believed (T191). Events that were observed before change nothing. Signals
	// wait until the log was observed to a head whose SignalNo covers them: they were accepted on what it says.
	Observed struct {
		At   time.Time
		Tail engine.Tail
	}

	// Renumbered says that the log is another one than was observed: the store was restored and repaired, and events may
	// have other places. The machine observes all of it again.
	Renumbered struct{ At time.Time }

	// Ended brings the receipt of an attempt's end, whose proof the driver has checked. One of a completion counts like
	// an Observed; of any other end, and where the gate of fail-fast is closed, the machine reads the log.
	Ended struct {
		At             time.Time
		StepID         string
		LogicalAttempt int
		Receipt        engine.Receipt
	}

	// Returned says that the engine no longer executes one dispatch. It comes after an Observed that was read since the
	// engine said so: a dispatch whose end the log has is no longer in flight, and its Returned is stale.
	Returned struct {
		At     time.Time
		Return engine.Return
	}

	// Signalled brings signals in any order; the machine takes them by No,
	// drops what it has seen and asks for what is missing (T196).
	Signalled struct {
		At      time.Time
		Signals []engine.Signal
	}

	// Woken says that there may be signals: the machine asks for them.
	Woken struct{ At time.Time }

	// Fired is a timer of SetTimer.
	Fired struct {
		At    time.Time
		Timer Timer
	}

	// HookReturned is Returned for a Compensate.
	HookReturned struct {
		At     time.Time
		Return engine.Return
	}

	// Pressure says that the engine's history has grown past its threshold: the
	// machine rotates at the next quiet point as if enough steps had been
	// scheduled (T195). Hard says that it must not grow further: nothing is
	// dispatched until the machine has rotated.
	Pressure struct {
		At   time.Time
		Hard bool
	}
)

func (Begin) input()    {}
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

// RecordedEvent is what became of one event of a batch.
type RecordedEvent struct {
	Seq run.Seq `json:"seq,omitempty"`
	// Won is the type of the terminal that stands in the log when another one
	// was there first (INVALID_TRANSITION), else "".
	Won run.EventType `json:"won,omitempty"`
	// Failure is the payload of a StepFailed that stands in the log in the place of the one of the batch, and Hook that
	// of the end of a hook.
	Failure *run.FailurePayload      `json:"failure,omitempty"`
	Hook    *run.CompensationPayload `json:"hook,omitempty"`
	// At is the emittedAt of what stands in the log, where it is later than that of the batch's event.
	At time.Time `json:"at,omitzero"`
	// NotStarted is set when the batch asked IfStarted and the attempt never began.
	NotStarted bool `json:"notStarted,omitempty"`
	// Rejected is set when the store refused the event's content (T190).
	Rejected bool `json:"rejected,omitempty"`
}

// Timer names what a timer is for.
type Timer string

// Timers.
const (
	TimerRetryWindow Timer = "retry-window"
	TimerDrain       Timer = "drain"
	TimerManual      Timer = "manual"   // the earliest deadline of a wait for a person (T83)
	TimerRotation    Timer = "rotation" // the patience of the rotation barrier (T195)
	TimerDelay       Timer = "delay"    // the earliest time at which a delayed step, or hook, is dispatched again (T113)
)

// Effect is something the driver must do, in the order returned.
type Effect interface{ effect() }

// Effects.
type (
	// Append writes a batch; at most one is outstanding (T191). The driver fills
	// RunID and MinHead and tries until the store answers. One that is UnlessPaused must not follow a RunPaused
	// of which the machine may not have heard: see engine.Journal.AppendUnlessPaused. One with an UnlessGate begins
	// waits for people, under the gate as the log has it.
	Append struct {
		Batch        int
		UnlessPaused bool
		store.Append
	}

	// Execute dispatches one logical attempt of a step for the N-th time. (Ord,
	// LA, N) never repeats. An attempt that is RUNNING in the log and that the engine lost is dispatched again whatever
	// the gate.
	Execute struct {
		Ord         run.Ord
		LA, N       int
		Spent       int // engine attempts that earlier dispatches of this attempt used up
		PassFailing bool
		SignalID    string // the RETRY_STEP that caused it
	}

	// CancelSteps asks the executions in flight of these steps to stop, and of a step
	// that is being undone the hook.
	CancelSteps struct{ Ords []run.Ord }

	// SetTimer arms or re-arms a timer; a zero At disarms it.
	SetTimer struct {
		Timer Timer
		At    time.Time
	}

	// FetchSignals asks for a Signalled with the accepted signals after No; an
	// empty one says that there are none.
	FetchSignals struct{ After int64 }

	// ReadLog asks for an Observed.
	ReadLog struct{}

	// Compensate runs the hook of one step that succeeded, one at a time (R185). It
	// is answered by an Observed with its end, or by a HookReturned.
	Compensate struct {
		Ord   run.Ord
		LA    int // the attempt that succeeded
		N     int // dispatch ordinal
		Spent int // engine attempts that earlier dispatches used up
	}

	// Rotate ends this execution of the workflow so that the next one, made by
	// Resume from what Carry gives now, goes on (T105, T195). Nothing is in flight:
	// no Append, no ReadLog, no Execute or Compensate but one whose end was observed before the engine
	// said so, and no FetchSignals but one that other signals overtook: those answers may be dropped. Signals that reached
	// the driver after this effect are handed to the next machine. Timers that are
	// armed are armed anew by the next machine.
	Rotate struct{}

	// Finish ends the workflow; nothing follows it. Status is empty when another
	// hand ended the run, or the log refused the run's own events.
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
