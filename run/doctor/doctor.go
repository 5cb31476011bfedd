// Package doctor finds out why a run failed or does not continue. It is pure: the same Facts always give the same
// causes, so that a diagnosis can be tested and repeated. Callers collect the Facts.
package doctor

import (
	"cmp"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Code names a class of causes. A failed step keeps the code of its error.
type Code = run.Code

// Codes of causes that are not also codes of errors.
const (
	CodeUnreachable       Code = "DEPENDENCY_UNREACHABLE"
	CodeCredentials       Code = "CREDENTIALS_REFUSED"
	CodeDiskFull          Code = "DISK_FULL"
	CodeMissingObject     Code = "OBJECT_MISSING"
	CodeSandboxRefused    Code = "SANDBOX_REFUSED"
	CodeContention        Code = "LOCK_CONTENTION"
	CodeRateLimited       Code = "RATE_LIMITED"
	CodeMissingVariable   Code = "VARIABLE_MISSING"
	CodeBrokenCode        Code = "CODE_BROKEN"
	CodeFileRefused       Code = "FILE_REFUSED"
	CodeStatementTimeout  Code = "STATEMENT_TIMEOUT"
	CodeDataRefused       Code = "DATA_REFUSED"
	CodeCertificate       Code = "CERTIFICATE_REFUSED"
	CodeWorkerLost        Code = "WORKER_LOST"
	CodePlanChanged       Code = "PLAN_CHANGED"
	CodeCancelledBy       Code = "RUN_CANCELLED"
	CodePaused            Code = "RUN_PAUSED"
	CodeWaitsForApproval  Code = "WAITS_FOR_APPROVAL"
	CodeWaitsForPerson    Code = "WAITS_FOR_PERSON"
	CodeWaitsForSlot      Code = "WAITS_FOR_SLOT"
	CodeHeld              Code = "STARTS_HELD"
	CodeNotDispatched     Code = "START_OVERDUE"
	CodeWorkersBusy       Code = "WORKERS_BUSY"
	CodeWorkerSilent      Code = "WORKER_SILENT"
	CodeStepGivenBack     Code = "STEP_GIVEN_BACK"
	CodeStepSlow          Code = "STEP_SLOW"
	CodeSignalUndelivered Code = "SIGNAL_UNDELIVERED"
	CodeSignalUnapplied   Code = "SIGNAL_UNAPPLIED"
	CodePartDown          Code = "PART_DOWN"
	CodeJournal           Code = "JOURNAL_UNREACHABLE"
	CodeWaitsForQuota     Code = "WAITS_FOR_QUOTA"
	CodePlanLoads         Code = "PLAN_LOADS"
)

// Kind distinguishes faults from intended waits.
type Kind string

// Kinds. A FAULT is unintended. A WAIT ends by a decision, a person or a limit that somebody set. A person decided an
// END.
const (
	Fault Kind = "FAULT"
	Wait  Kind = "WAIT"
	End   Kind = "END"
)

// Confidence is how sure a cause is.
type Confidence string

// Confidences. CERTAIN: the record says it. LIKELY: the facts have no other usual explanation. POSSIBLE: it happened at
// the same time.
const (
	Certain  Confidence = "CERTAIN"
	Likely   Confidence = "LIKELY"
	Possible Confidence = "POSSIBLE"
)

// MaxCauses limits a diagnosis. MaxNamed limits the steps that one cause names.
const (
	MaxCauses = 8
	MaxNamed  = 10
)

// Cause is one reason why a run failed or does not continue.
type Cause struct {
	Code       Code
	Kind       Kind
	Confidence Confidence
	Title      string   // one sentence: what is wrong
	Steps      []string // stepIds that it concerns, at most MaxNamed; empty for the whole run
	More       int      // further steps
	Since      *time.Time
	Until      *time.Time // when dvt or a person's limit ends it
	Evidence   []Evidence // at least one
	Next       []Next     // best first
	rank       int
}

// Source is where an Evidence was read.
type Source string

// Sources of evidence.
const (
	FromLog     Source = "EVENT"   // an event of the run, at Seq
	FromOutput  Source = "OUTPUT"  // a line of what the step printed
	FromEngine  Source = "ENGINE"  // what the workflow engine says now
	FromWorkers Source = "WORKERS" // the pollers of a task queue
	FromQueue   Source = "QUEUE"
	FromSignals Source = "SIGNALS"
	FromHealth  Source = "HEALTH"
	FromHistory Source = "HISTORY" // earlier runs of the same plan
)

// Evidence is a fact that a cause rests on.
type Evidence struct {
	Source  Source
	Text    string
	Seq     run.Seq // with FromLog
	StepID  string
	Attempt int   // logical attempt, with StepID
	Line    int64 // with FromOutput; within the engine attempt
	// Metric is the name of the metric that shows the same over time; "" when none does.
	Metric string
	// RunID is the earlier run, with FromHistory; "" for several runs.
	RunID string
}

// Next is something that a person can do.
type Next struct {
	Text string
	// Signal and StepID are a signal to send, which the run accepts in this state; "" for other advice.
	Signal run.SignalType
	StepID string
	// Force means that the run accepts the signal only by force, which needs a reason.
	Force bool
	// Safe means that the signal loses no work, starts no work that may still be running, and overrides no decision of a
	// person. Without a signal it is true only for waiting.
	Safe bool
}

// Diagnose returns the causes, the first one first: what must be mended before the others can be. It returns at most
// MaxCauses. It returns none for a run that has completed, or that goes on as it should.
func Diagnose(f Facts) []Cause {
	d := &diagnosis{Facts: f}
	switch f.State.Status {
	case run.Completed:
		return nil
	case run.Cancelled:
		d.cancelled()
	case run.Failed:
		d.failedSteps()
		d.runFailure()
		d.brokenParts(rankPartLater)
	default:
		d.brokenParts(rankPart)
		d.engineLostIt()
		d.held()
		d.controlQueue()
		d.queued()
		d.approval()
		d.failedSteps()
		d.pause()
		d.readySteps()
		d.runningSteps()
		d.persons()
		d.orders()
	}
	d.changed()
	slices.SortStableFunc(d.found, func(a, b Cause) int { return cmp.Compare(a.rank, b.rank) })
	return d.found[:min(len(d.found), MaxCauses)]
}

// Ranks of causes: lower ones must be mended first.
const (
	rankEngineLost = iota
	rankPart
	rankControl
	rankHeld
	rankStep
	rankRun
	rankWorker
	rankRunning
	rankSignal
	rankPause
	rankWait
	rankPartLater
	rankSlow
	rankChange
)

type diagnosis struct {
	Facts
	found []Cause
}

func (d *diagnosis) add(rank int, c Cause) {
	c.rank = rank
	if len(c.Steps) > MaxNamed {
		c.More += len(c.Steps) - MaxNamed
		c.Steps = c.Steps[:MaxNamed]
	}
	d.found = append(d.found, c)
}

// ago returns in words how long ago t was, in whole seconds.
func (d *diagnosis) ago(t time.Time) string {
	return plan.DurationWords(d.Now.Sub(t).Truncate(time.Second))
}
