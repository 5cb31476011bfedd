// Package run is the vocabulary of workflow runs: events and their keys, the state to which a log folds, deltas
// between states, signals and the judgement of a signal against a state. It is pure: no I/O, clock or goroutines; the
// same input always gives the same output.
package run

import "strings"

// Seq is a position in the log of one run. The first event has 1; 0 is the position before it. On the wire it is a JSON
// number of at most MaxSeq (contract T154).
type Seq int64

// MaxSeq is the largest Seq that JSON numbers carry exactly.
const MaxSeq Seq = 1<<53 - 1

// Ord is the ordinal of a step in the canonical order of its plan, from 0; NoStep stands for the run itself.
type Ord int32

// NoStep is the subject of events about the whole run.
const NoStep Ord = -1

// ReducerRev is the revision of Fold. Checkpoints of other revisions are folded again (contract T32, T188).
const ReducerRev = 8

// Status of a run.
type Status string

// Statuses of a run. The zero value is never shown; an empty log is PENDING.
const (
	Pending   Status = "PENDING"
	Approved  Status = "APPROVED"
	Running   Status = "RUNNING"
	Paused    Status = "PAUSED"
	Completed Status = "COMPLETED"
	Failed    Status = "FAILED"
	Cancelled Status = "CANCELLED"
)

// Statuses returns every status, in the order in which a run may take them.
func Statuses() []Status {
	return []Status{Pending, Approved, Running, Paused, Completed, Failed, Cancelled}
}

// Terminal reports whether no later event may change the status.
func (s Status) Terminal() bool { return s == Completed || s == Failed || s == Cancelled }

// Word returns the status as a word of a sentence.
func (s Status) Word() string { return strings.ToLower(string(s)) }

// Substatus refines a status for people; it is derived, never an event (contract T50).
type Substatus string

// Substatuses of a run and of a step.
const (
	Draining         Substatus = "DRAINING"
	AwaitingOperator Substatus = "AWAITING_OPERATOR"
	WaitingManual    Substatus = "WAITING_MANUAL"
	Compensating     Substatus = "COMPENSATING"
	Queued           Substatus = "QUEUED"
)

// StepStatus is the status of a step's latest logical attempt.
type StepStatus string

// Statuses of a step.
const (
	StepPending StepStatus = "PENDING"
	StepRunning StepStatus = "RUNNING"
	StepSuccess StepStatus = "SUCCESS"
	StepFailed  StepStatus = "FAILED"
	StepSkipped StepStatus = "SKIPPED"
)

// Terminal reports whether the attempt is over.
func (s StepStatus) Terminal() bool {
	return s == StepSuccess || s == StepFailed || s == StepSkipped
}

// Word returns the status as a word of a sentence.
func (s StepStatus) Word() string {
	if s == StepSuccess {
		return "succeeded"
	}
	return strings.ToLower(string(s))
}

// Category classifies a failure by its origin: the work of the user, a system that the step uses, dvt itself, or a
// timeout.
type Category string

// Failure categories.
const (
	CategoryUser     Category = "USER"
	CategorySystem   Category = "SYSTEM"
	CategoryPlatform Category = "PLATFORM"
	CategoryTimeout  Category = "TIMEOUT"
)
