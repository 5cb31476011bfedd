// Package control is the kernel of the use cases: who may do and see what (Rights), errors, alerts, the audit, pages,
// and background work that contains its panics. The use cases themselves are in the packages below, one for each
// subject. It is here and there only that authorisation, store and engine meet. Every use case takes the principal as a
// parameter, decides before it looks, and returns a *Error with a code of the one table. A run of another tenant is
// NOT_FOUND, word for word like one that does not exist, so that nobody learns that it exists.
package control

import (
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// RunView is a run as a query shows it: state at the head (or at a past seq) and
// the operational fields beside it.
type RunView struct {
	Run          store.Run // zero in views made from frames
	State        run.State
	Epoch        string
	OpsRev       int64
	AsOf         time.Time
	Queue        *QueueEntry     // until it is started
	Approval     *store.Approval // of a run that waits for it, where one run is read
	PendingRetry map[string]bool // stepIds with an accepted retry that has not begun
	Past         bool            // made with at: no actions
}

// RunFilter selects runs; TenantID is ignored, it is the caller's.
type RunFilter = store.RunFilter

// RunsQuery asks for a page of runs of the caller's tenant.
type RunsQuery struct {
	Filter        RunFilter // with Steps the runs have theirs: QUERY_TOO_COMPLEX above store.MaxListSteps
	First, Last   int
	After, Before string // cursors of RunsPage
}

// RunsPage is a page of runs in display order.
type RunsPage struct {
	Runs             []RunView // without steps unless the filter asked for them
	Cursors          []string  // one per run
	HasNext, HasPrev bool
}

// QueueEntry is a run that is to be started.
type QueueEntry struct {
	store.WaitingRun
	// Why it waits; "": it does not, it is being started.
	Why store.WaitReason
	// Wait is estimated from now; 0: nothing is known.
	Wait time.Duration
}
