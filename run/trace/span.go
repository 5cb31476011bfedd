package trace

import (
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Kind is the kind of a span. It is part of the span's id.
type Kind string

// Kinds of spans. The parent of a step is the run, that of an attempt and of a wait the step, that of a manual wait the
// attempt, that of a drain the pause, and that of a hook the compensation. All others are below the run.
const (
	kindRun          Kind = "run"
	kindApproval     Kind = "approval" // from the request to the approval or rejection
	kindQueue        Kind = "queue"    // from RunQueued until the run is admitted
	kindStart        Kind = "start"    // from RunApproved until the engine has started the run
	kindStep         Kind = "step"     // from the end of its dependencies to its last end
	kindWait         Kind = "wait"     // until an attempt starts: for a worker, or for a retry
	kindAttempt      Kind = "attempt"
	kindManual       Kind = "manual" // of an attempt that waits for a person
	kindPause        Kind = "pause"
	kindDrain        Kind = "drain" // of a pause, until no step is running
	kindSignal       Kind = "signal"
	kindRefusal      Kind = "refusal" // of a rejected signal
	kindCompensation Kind = "compensation"
	kindHook         Kind = "hook" // the compensation of one step
)

// Span is one finished span. It contains no inputs, results, texts of errors, notes or names of people.
type Span struct {
	Trace      TraceID
	ID         SpanID
	Parent     SpanID // zero for the root
	Kind       Kind
	Name       string
	Start, End time.Time
	Failed     bool
	Attributes []Attribute
	Links      []Link
	Seq        run.Seq // of the event that finished the span
}

// Attribute is a property of a span. Text is its value, or Number when Text is empty.
type Attribute struct {
	Key    string
	Text   string
	Number int64
}

// Link refers to another span, of this or of another trace.
type Link struct {
	Trace    TraceID
	Span     SpanID
	Relation string // why: see the constants
}

// Relations of links.
const (
	Caused     = "caused"     // a signal caused this
	CausedBy   = "caused by"  // this signal caused the span
	Overlaid   = "parameters" // the signal whose parameters the attempt ran with
	ReusesFrom = "reuses"     // the step of an earlier run whose outputs were taken over
	RerunOf    = "rerun of"   // the run that this one repeats
)

// IsRoot reports whether s is the span of the whole run.
func (s Span) IsRoot() bool { return s.Kind == kindRun }
