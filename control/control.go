// Package control is the use cases, one file each, and the duties that keep
// runs moving. It is the only place where authorisation, store and engine meet.
// Every use case takes the principal as a parameter, decides before it looks,
// and returns a *Error with a code of the one table; a thing of another tenant
// is NOT_FOUND, word for word like one that does not exist (T101).
package control

import (
	"encoding/json"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// StartRun asks for a run. Exactly one of Inline and Ref is set.
type StartRun struct {
	RequestID     string
	ProjectID     string
	EnvironmentID string
	Inline        json.RawMessage
	Ref           *plan.Ref
	Params        json.RawMessage
	Priority      int // 0 to store.MaxPriority: while runs wait, higher goes first within a project
}

// DefaultPriority is that of runs for which nobody asked for another.
const DefaultPriority = 5

// StartedRun answers StartRun; it is durable before it is given.
type StartedRun struct {
	View         RunView
	Deduplicated bool
}

// SignalRun asks for one signal (cancelRun included, as CANCEL).
type SignalRun struct {
	RunID          string
	Signal         run.Signal
	Payload        json.RawMessage // the chosen @oneOf member as compact JSON
	Reason         string
	ExpectedRunSeq *run.Seq
}

// CompleteManualStep asks to complete a step that waits for a person.
type CompleteManualStep struct {
	RunID, StepID  string
	Token          string
	Outcome        run.ManualOutcome
	Notes          string
	EvidenceRefs   []string
	CompletedAt    time.Time // zero: now
	Actor          string    // "" or the caller, else FORBIDDEN (T84)
	ExpectedRunSeq *run.Seq
}

// ManualTasksQuery asks for steps that wait for a person. RunID narrows it to one run.
type ManualTasksQuery struct {
	RunID string
	First int
	After string // cursor of ManualTasksPage
}

// ManualTask is a step that waits for a person. Token is empty for those who may
// not complete it (T85, T201).
type ManualTask struct {
	Identity       run.Identity
	StepID         string
	LogicalAttempt int
	Instructions   string
	Evidence       json.RawMessage
	Since          time.Time
	Deadline       *time.Time
	Action         ActionAvailability
	Token          string
}

// ManualTasksPage is a page of tasks, the longest wait first.
type ManualTasksPage struct {
	Tasks   []ManualTask
	Cursors []string // one per task
	HasNext bool
}

// Rerun asks for a new run of the plan of one that has ended. Exactly one of
// Start, Failed and Steps is set.
type Rerun struct {
	RunID, RequestID string
	Start, Failed    bool
	Steps            []string
	Reason           string
}

// PreviewAction asks what an action would do. Exactly one member is set; of
// Signal the ID is ignored.
type PreviewAction struct {
	Signal         *SignalRun
	CompleteManual *CompleteManualStep
	Rerun          *Rerun
	Start          *StartRun
	Approve        *ApproveRun
}

// ActionPreview is what an action would do now, if nothing else happened.
type ActionPreview struct {
	BasedOnSeq run.Seq
	Outcome    string // as of ActionAvailability
	Code       run.Code
	Reason     string
	Status     run.Status // of the run afterwards; "" when refused
	Changes    []StepChange
	Blocked    []string
	Warnings   []string
	Bulk       *BulkPreview // of a bulk
}

// StepChange is what becomes of one step.
type StepChange struct {
	StepID   string
	Kind     string // SCHEDULE, RERUN, CANCEL, SKIP, REUSE or CHANGE
	From, To run.StepStatus
	Why      string
}

// Receipt is a stored receipt and whether this answer repeats an earlier one.
type Receipt struct {
	run.Receipt
	Duplicate bool
}

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

// EventPage asks for the First or the Last of the events between After and Before, both excluded; 0 is no bound.
type EventPage struct {
	First, Last   int
	After, Before run.Seq
	Types         []string
}

// EventsPage is a page of the log in ascending order.
type EventsPage struct {
	Events           []run.Event
	HasNext, HasPrev bool
}

// ReceiptsPage is a page of receipts in the order they were received.
type ReceiptsPage struct {
	Receipts []Receipt
	HasNext  bool
}

// Approval is a run's way through approval, with what people decided.
type Approval = store.Approval

// ApprovalDecision is what one of them decided.
type ApprovalDecision = store.ApprovalDecision

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

// StepLogQuery asks for lines of one logical attempt.
type StepLogQuery struct {
	RunID, StepID string
	Attempt       int // 0: the latest
	FromLine      int64
	First         int
	Find          string
	ErrorLine     bool // look for it
}

// StepLog is some lines of one logical attempt.
type StepLog struct {
	RunID, StepID string
	Attempt       int
	artifact.Page
	Matches      []int64
	TotalMatches int64
	// ErrorLine is where to begin to read why the attempt failed (artifact.Logs); 0: it has not failed, or was not asked
	// for.
	ErrorLine int64
}

// StepLogFrame is lines as they come.
type StepLogFrame struct {
	Attempt int
	artifact.Page
	Complete bool
	AsOf     time.Time
}

// WatchRun asks to follow one run. After and Epoch resume.
type WatchRun struct {
	RunID string
	After *run.Seq
	Epoch string
}

// EventsFrame is events as they are appended; Events is empty in a quiet frame.
type EventsFrame struct {
	Sync    live.Sync
	Reason  live.Reason
	Events  []run.Event
	HeadSeq run.Seq
	Epoch   string
	AsOf    time.Time
	Reset   bool
}

// RunsFrame is a page of runs, then rows as they change.
type RunsFrame struct {
	Sync    live.Sync
	Reason  live.Reason
	Runs    []RunView
	Removed []string
	AsOf    time.Time
	Reset   bool
}

// Viewer says who is asking.
type Viewer struct {
	Principal     authz.Principal
	Grants        []ViewerGrant
	PolicyVersion int64 // 0: the tenant has no policy of its own
	// BreakGlassUntil is when the last role that the viewer took in an emergency ends; zero: none.
	BreakGlassUntil time.Time
}

// ViewerGrant is a grant with the actions it gives.
type ViewerGrant struct {
	authz.Grant
	Actions []authz.Action
}

// Availability says what may be done to a run and to its steps, and why not.
type Availability struct {
	Run   []ActionAvailability
	Steps map[string][]ActionAvailability // by stepId
}

// ActionAvailability is one action's outcome if it were done now.
type ActionAvailability struct {
	Action         authz.Action
	Outcome        string // APPLY, NOOP, REFUSED or UNSUPPORTED
	Code           run.Code
	Reason         string
	Rule           string
	RequiredRole   authz.Role
	WhoCould       []string
	ReasonRequired bool
	Strength       string // REVERSIBLE, NORMAL or STRONG
}

// EngineCapability is one row of the capability matrix.
type EngineCapability struct{ Engine, Name, Support, Note string }

// Health is the state of what dvt stands on (T136).
type Health struct {
	Status string // HEALTHY, DEGRADED or UNHEALTHY
	Checks []HealthCheck
}

// HealthCheck is one part of Health.
type HealthCheck struct {
	Name, Status, Message string
	Latency               time.Duration
}
