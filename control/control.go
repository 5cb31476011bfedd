// Package control is the kernel of the use cases: it decides who may do and see what (Rights), and it holds errors,
// alerts, the audit, pages, and background work that contains its panics. The use cases themselves are in the packages
// below, one package for each subject. Authorisation, store and engine meet only here and in those packages.
//
// Every use case takes the principal as a parameter, decides about rights before it reads, and returns a *Error with a
// code of run. A run of another tenant gets the same NOT_FOUND, word for word, as a run that does not exist, so that
// nobody can find out that it exists.
package control

import (
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// RunView is a run as a query shows it: its state at the head, or at a past seq, and the operational fields.
type RunView struct {
	Run          store.Run // zero in views made from frames
	State        run.State
	Epoch        string
	OpsRev       int64
	AsOf         time.Time
	Queue        *QueueEntry     // nil once the run has started
	Approval     *store.Approval // of a run that waits for approval; nil in frames of one run
	PendingRetry map[string]bool // by stepId: an accepted retry has not begun
	Past         bool            // the state is at a past seq, so no actions are available
}

// RunFilter selects runs. Use cases overwrite TenantID with the tenant of the caller.
type RunFilter = store.RunFilter

// RunSort is an order of a list of runs other than by creation.
type RunSort = store.RunSort

// RunsQuery asks for a page of runs of the caller's tenant.
type RunsQuery struct {
	Filter        RunFilter // with Steps the rows carry their steps; QUERY_TOO_COMPLEX above store.MaxListSteps
	First, Last   int
	After, Before string // cursors of RunsPage
}

// RunsPage is a page of runs in display order.
type RunsPage struct {
	Runs             []RunView // without steps unless the filter asked for them
	Cursors          []string  // one per run
	HasNext, HasPrev bool
}

// QueueEntry describes a run in the queue that has not started.
type QueueEntry struct {
	store.WaitingRun
	// Why is the reason why the run waits. It is "" when the run does not wait but is being started.
	Why store.WaitReason
	// Wait is the estimated time until the start, from now. 0 means that there is no estimate.
	Wait time.Duration
	// Slots is set when an active run must end before this one can start. Nobody knows when, so Wait is then 0.
	Slots *SlotUse
}

// SlotUse describes a limit of active runs whose slots are all in use, or will be by the runs ahead in the queue.
type SlotUse struct {
	Scope SlotScope
	// Active and Max count runs. They are 0 for SlotsOfInstallation, because other tenants' runs are nobody's business.
	Active, Max int
}

// SlotScope says whose runs share a limit of active runs.
type SlotScope string

// Scopes of slots.
const (
	SlotsOfProject      SlotScope = "PROJECT"
	SlotsOfTenant       SlotScope = "TENANT"
	SlotsOfInstallation SlotScope = "INSTALLATION"
)
