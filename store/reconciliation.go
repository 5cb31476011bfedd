package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Reconciliation reads drift: runs without progress, runs that do not stop, starts that no server made, and steps that
// wait for a person. Steps come from checkpoints, which may lag; heads, ages and events come from the log. Ages use the
// store's clock. Each method is one statement.
type Reconciliation interface {
	// ListQuietRuns lists runs that have not ended and have had no event for at least quiet, by run id, strictly after the
	// given one, at most limit (≤ MaxPage). It omits runs with an empty log, such as runs that wait for approval. The cost
	// grows with the open runs that it reads.
	ListQuietRuns(ctx context.Context, quiet time.Duration, afterRunID string, limit int) ([]QuietRun, error)
	// ListStuckStarts lists admitted queue rows that have been PENDING and due, or LOCKED by an expired lease, for at
	// least age, the oldest first, at most limit (≤ MaxPage).
	ListStuckStarts(ctx context.Context, age time.Duration, limit int) ([]QueueRow, error)
	// ListStoppingRuns lists open runs with an accepted CANCEL or EMERGENCY_STOP that is at least age old and has no final
	// application, by run id, strictly after the given one, at most limit (≤ MaxPage). StoppingRun names the first such
	// signal of the run. The cost grows with the open runs that it reads.
	ListStoppingRuns(ctx context.Context, age time.Duration, afterRunID string, limit int) ([]StoppingRun, error)
	// ListWaits lists steps of open runs that wait for a person, the longest wait first.
	ListWaits(ctx context.Context, f WaitFilter) ([]Wait, error)
}

// QuietRun is an open run without recent events.
type QuietRun struct {
	run.Identity
	PlanRef plan.Ref
	Head    Head
	Now     time.Time   // the store's clock
	Queue   QueueStatus // of the queue row, "" without one
	// Running are the steps that are RUNNING in the checkpoint and do not wait for a person; empty when Head.Running is
	// 0.
	Running []*run.Step
	// The rest is that of the checkpoint.
	StartedAt *time.Time
	DueAt     *time.Time   // when the run should have ended; nil without a deadline
	RootCause *run.StepRef // nil while no step is FAILED
	Manual    int          // steps that wait for a person
}

// ReadFacts decodes the facts that adapters read from the header of the checkpoint; all of them may be empty.
func (q *QuietRun) ReadFacts(started, due string, rootCause []byte) error {
	var broken error
	at := func(text string) *time.Time {
		if text == "" {
			return nil
		}
		t, err := time.Parse(time.RFC3339Nano, text)
		broken = errors.Join(broken, err)
		return &t
	}
	q.StartedAt, q.DueAt = at(started), at(due)
	if len(rootCause) > 0 {
		broken = errors.Join(broken, json.Unmarshal(rootCause, &q.RootCause))
	}
	return broken
}

// StoppingRun is an open run with a stop signal that was not applied yet.
type StoppingRun struct {
	run.Identity
	SignalID   string
	ReceivedAt time.Time // of that signal, by the store's clock
}

// WaitFilter selects waits of one tenant. Empty fields do not restrict, but an empty TenantID matches no wait.
type WaitFilter struct {
	TenantID      string
	ProjectIDs    []string // nil: every project of the tenant
	EnvironmentID string
	Scopes        Scopes // nil: every scope
	RunID         string
	Limit         int      // at most MaxPage
	After         *WaitPos // only waits strictly after it
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
