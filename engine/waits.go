package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Waiter is an Engine that knows what an open run waits for. Only what people are shown may depend on it, because
// anybody with access to the engine can forge it.
type Waiter interface {
	// Waits describes what a run waits for now. Each call queries the engine, so callers should cache the answer. Errors:
	// ErrNotStarted, ErrClosed, ErrUnavailable.
	Waits(ctx context.Context, id run.Identity) (Waits, error)
}

// Waits is what a run waits for beside its log.
type Waits struct {
	// Loading is set while the engine loads the plan.
	Loading *PlanLoad
	// StoreSince is the time since which a call of the engine to the store has failed; zero if none fails.
	StoreSince time.Time
	// WorkerSince is the time since which no control worker has taken the run's next decision; zero if none waits.
	WorkerSince time.Time
	// Steps are the steps that the engine holds back, in plan order; at most MaxStepWaits.
	Steps []StepWait
}

// MaxStepWaits is the maximum number of steps in Waits.
const MaxStepWaits = 1000

// PlanLoad is the progress of loading a plan.
type PlanLoad struct {
	Since time.Time
	// Until is the time at which the last try ends; zero while no try has reported.
	Until time.Time
	// Try counts from 1, and Tries is the last one; 0 while no try has reported.
	Try, Tries int
}

// StepWait is the reason why a step has not started, why its end is not in the log, or why nothing works on it between
// two tries.
type StepWait struct {
	StepID string    `json:"stepId"`
	Cause  WaitCause `json:"cause"`
	// Status is the HTTP status with which something answered in place of the Journal, else 0.
	Status int       `json:"status,omitempty"`
	Since  time.Time `json:"since,omitzero"` // zero if the engine has forgotten it
	Until  time.Time `json:"until,omitzero"` // when the step is offered to a worker again; zero if it is offered now
	// Ended says that the work of the attempt has ended, and that its worker cannot report that. Since is when it first
	// tried.
	Ended bool `json:"ended,omitempty"`
	// Try is the next try of the attempt and Tries the last one, both from 1; only with WaitRetry, else 0.
	Try   int `json:"try,omitempty"`
	Tries int `json:"tries,omitempty"`
}

// WaitCause is what a step waits for.
type WaitCause string

// Causes of a StepWait.
const (
	WaitQuota   WaitCause = "QUOTA"   // a token for a heavy step
	WaitJournal WaitCause = "JOURNAL" // its worker has no access to the Journal, or does not reach it
	WaitStore   WaitCause = "STORE"   // the store did not answer the start or the end in time
	WaitWorker  WaitCause = "WORKER"  // its worker does not serve the run, or the tenant's share of slots is used
	// WaitRetry is the time between two tries of an attempt. The log says that the step runs.
	WaitRetry WaitCause = "RETRY"
)

// DeniedError is an ErrDenied with the HTTP status of the answer.
type DeniedError struct {
	Status int
	Why    string // a sentence
}

func (e *DeniedError) Error() string { return fmt.Sprintf("%s: %s", ErrDenied, e.Why) }

// Is implements the interface of errors.Is.
func (e *DeniedError) Is(target error) bool { return target == ErrDenied }

type loadProgressKey struct{}

// LoadProgress is called before each try to fetch the document of a plan. It must be safe for concurrent use.
type LoadProgress func(try, tries int, until time.Time)

// WithLoadProgress returns a context with which Journal.Skeleton reports its tries.
func WithLoadProgress(ctx context.Context, report LoadProgress) context.Context {
	return context.WithValue(ctx, loadProgressKey{}, report)
}

// ReportLoad calls the LoadProgress of ctx, if it has one.
func ReportLoad(ctx context.Context, try, tries int, until time.Time) {
	if report, ok := ctx.Value(loadProgressKey{}).(LoadProgress); ok {
		report(try, tries, until)
	}
}
