package store

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Reconciliation reads drift: quiet runs, runs that do not stop, starts that no server made, and steps that wait for a
// person. The set of runs and steps comes from checkpoints, which may lag; heads, ages and events come from the log.
// Ages use the store's clock. Each method is one statement.
type Reconciliation interface {
	// Quiet lists runs that have not ended and whose log has not grown for at least quiet, by run id, strictly after
	// the given one, at most limit (≤ MaxPage). It costs as much as the open runs that it reads. An empty log, as of a
	// run that waits for approval, is not quiet.
	Quiet(ctx context.Context, quiet time.Duration, afterRunID string, limit int) ([]QuietRun, error)
	// StuckStarts lists queue rows that are PENDING and were due for at least age, or
	// LOCKED by a lease that is over for as long, oldest first, at most limit.
	StuckStarts(ctx context.Context, age time.Duration, limit int) ([]QueueRow, error)
	// Stopping lists open runs with an accepted CANCEL or EMERGENCY_STOP that is at least age old and has no final
	// application, by run id, strictly after the given one, at most limit (≤ MaxPage). Signal is the first such signal
	// of the run. It costs as much as the open runs that it reads.
	Stopping(ctx context.Context, age time.Duration, afterRunID string, limit int) ([]StoppingRun, error)
	// Waiting lists steps of open runs that wait for a person, the longest wait first.
	Waiting(ctx context.Context, f WaitFilter) ([]Wait, error)
}

// QuietRun is an open run whose log has not grown for a while.
type QuietRun struct {
	run.Identity
	PlanRef plan.Ref
	Head    Head
	Now     time.Time   // the store's clock
	Queue   QueueStatus // of the queue row, "" without one
	// Running are the steps that are RUNNING in the checkpoint and wait for nobody;
	// empty when the head says that nothing runs.
	Running []*run.Step
}

// StoppingRun is an open run that was ordered to stop.
type StoppingRun struct {
	run.Identity
	SignalID   string
	ReceivedAt time.Time // of that signal, by the store's clock
}

// WaitFilter selects waits of one tenant. Empty fields do not restrict, but
// without a TenantID there are none.
type WaitFilter struct {
	TenantID      string
	ProjectIDs    []string // nil: every project of the tenant
	EnvironmentID string
	Scopes        Scopes // nil: every scope
	RunID         string
	Limit         int      // at most MaxPage
	After         *WaitPos // strictly after it, in the order of the answer
}

// WaitPos is a position in a list of waits, which is ordered by (since, run, step).
type WaitPos struct {
	Since  time.Time
	RunID  string
	StepID string
}

// Wait is an attempt of a MANUAL step that waits for a person.
type Wait struct {
	run.Identity
	PlanRef        plan.Ref
	TriggeredBy    string
	StepID         string
	LogicalAttempt int
	Since          time.Time // persistedAt of its StepAwaitingManualCompletion
	Deadline       *time.Time
}
