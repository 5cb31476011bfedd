// Package interp is the pure interpreter of plans: a machine that turns inputs
// into effects. It has no clock, no I/O, no goroutine, no random number and no
// map iteration, so that every engine that replays its inputs gets the same
// effects for ever (T184, T191). Time enters with each input.
package interp

import (
	"encoding/json"
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
		// Unconfirmed says that the store did not answer a Bounded Append within the
		// write budget: it may be in the log, or come to be. Nothing else is set (T120).
		Unconfirmed bool `json:"unconfirmed,omitempty"`
		// HeldBack says that nothing of an UnlessPaused Append was written, because the
		// run is paused in the log. Nothing else is set.
		HeldBack bool `json:"heldBack,omitempty"`
		// Ends stands in the order of the batch's events.
		Ends         []RecordedEvent `json:"ends,omitempty"`
		Head         run.Seq         `json:"head"`
		Running      int             `json:"running"`               // non-manual attempts RUNNING at Head
		RunTerminal  bool            `json:"runTerminal,omitempty"` // the run is over, by this batch or by another hand
		WindowOpened *time.Time      `json:"windowOpened,omitempty"`
	}

	// StepEnded is the end of one Execute.
	StepEnded struct {
		At  time.Time
		End engine.StepEnd
	}

	// Signalled brings signals in any order; the machine takes them by No,
	// drops what it has seen and asks for what is missing (T196).
	Signalled struct {
		At      time.Time
		Signals []engine.Signal
	}

	// Fired is a timer of SetTimer.
	Fired struct {
		At    time.Time
		Timer Timer
	}

	// Compensated is the end of one Compensate.
	Compensated struct {
		At  time.Time
		End CompensationEnd
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

func (Begin) input()     {}
func (Recorded) input()  {}
func (StepEnded) input() {}
func (Signalled) input() {}
func (Fired) input()     {}

func (Compensated) input() {}
func (Pressure) input()    {}

// CompensationEnd is how one hook ended, after the platform's retries (R186). It
// echoes its subject (T184).
type CompensationEnd struct {
	StepID       string          `json:"stepId"`
	Attempts     int             `json:"attempts"`
	Compensated  bool            `json:"compensated"`
	Result       json.RawMessage `json:"result,omitempty"`
	ErrorCode    string          `json:"errorCode,omitempty"`
	ErrorMessage string          `json:"errorMessage,omitempty"`
}

// RecordedEvent is what became of one event of a batch.
type RecordedEvent struct {
	Seq run.Seq `json:"seq,omitempty"`
	// Won is the type of the terminal that stands in the log when another one
	// was there first (INVALID_TRANSITION), else "".
	Won run.EventType `json:"won,omitempty"`
	// Failure is that terminal's payload when Won is StepFailed.
	Failure *run.FailurePayload `json:"failure,omitempty"`
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
	TimerQuota       Timer = "quota"    // when heavy steps ask for a token again (T113)
)

// Effect is something the driver must do, in the order returned.
type Effect interface{ effect() }

// Effects.
type (
	// Append writes a batch; at most one is outstanding (T191). The driver fills
	// RunID and MinHead. A Bounded one, which says that a step completed, is tried
	// within the write budget and may be answered Unconfirmed; any other is tried
	// until the store answers (T120). One that is UnlessPaused must not follow a RunPaused
	// of which the machine may not have heard: see engine.Journal.AppendUnlessPaused.
	Append struct {
		Batch        int
		Bounded      bool
		UnlessPaused bool
		store.Append
	}

	// Execute dispatches one logical attempt of a step for the N-th time. (Ord,
	// LA, N) never repeats.
	Execute struct {
		Ord         run.Ord
		LA, N       int
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

	// Compensate runs the hook of one step that succeeded, one at a time (R185). It
	// is answered by Compensated.
	Compensate struct {
		Ord run.Ord
		LA  int // the attempt that succeeded
	}

	// Rotate ends this execution of the workflow so that the next one, made by
	// Resume from what Carry gives now, goes on (T105, T195). Nothing is in flight:
	// no Append, no Execute, no Compensate, and no FetchSignals but one that other
	// signals overtook, whose answer may be dropped. Signals that reached
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
func (Compensate) effect()   {}
func (Rotate) effect()       {}
func (Finish) effect()       {}
