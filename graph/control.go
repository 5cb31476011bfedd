// Package graph is the GraphQL edge: short resolvers over the use cases of control, the error presenter, limits and
// scalars. It does not import store or engine adapters.
package graph

import (
	"context"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

// UseCases are the use cases that resolvers call, one interface for each subject. The API answers INTERNAL for a use
// case that panics. Errors of use cases are *control.Error or the error of ctx; the API answers INTERNAL for all
// others.
type UseCases interface { //nolint:interfacebloat // the sum of its subjects; a resolver calls one of them
	Commands
	RunReads
	ListReads
	ManualReads
	DeadLetterReads
	AuditReads
	PreviewService
	Streams
	FrameSharer
	PolicyService
	TokenService
	RoleReads
	ApprovalService
	ServiceModes
	ShareLinks
	IncidentService
	QuotaService
	RetentionService
	InboxReads
	Annotations
	ViewService
	ScopeReads
	DBTReads
	NodeReads
	EvidenceReads
	SecretService
	ArtifactReads
	PastReads
	PlanReads
	CountReads
	BulkService
	PollerReads
	Diagnoses
	WaitReads
	AlertService
	DeliveryService
	ErasureService
}

// PollerReads reads when workers polled their task queues.
type PollerReads interface {
	// PollerSeen returns the time of the last poll, or nil when no poll is known.
	PollerSeen(ctx context.Context, queue string) *time.Time
}

// WaitReads read what runs and their steps wait for.
type WaitReads interface {
	RunWaits(ctx context.Context, p authz.Principal, runID string) ([]reads.RunWait, error)
	// StepWaits returns what the engine knows about steps of the run, by their ids.
	StepWaits(ctx context.Context, v control.RunView) map[string]reads.StepWait
}

// Commands start runs, signal them and redrive dead letters. Each is idempotent by its request id, signal id
// or token.
type Commands interface {
	StartRun(ctx context.Context, p authz.Principal, in runs.StartRun) (runs.StartedRun, error)
	SignalRun(ctx context.Context, p authz.Principal, in runs.SignalRun) (runs.SignalReceipt, error)
	CompleteManualStep(ctx context.Context, p authz.Principal, in runs.CompleteManualStep) (runs.SignalReceipt, error)
	Rerun(ctx context.Context, p authz.Principal, in runs.Rerun) (runs.StartedRun, error)
	RedriveDeadLetters(ctx context.Context, p authz.Principal, in reads.RedriveDeadLetters) (reads.RedrivenDeadLetters,
		error)
}

// PreviewService computes what an action would do now, without doing it.
type PreviewService interface {
	PreviewAction(ctx context.Context, p authz.Principal, in runs.PreviewAction) (runs.ActionPreview, error)
}

// AuditReads reads the audit log and checks its hash chain.
type AuditReads interface {
	Audit(ctx context.Context, p authz.Principal, q control.AuditQuery) (control.AuditPage, error)
	CheckAudit(ctx context.Context, p authz.Principal, after string) (control.AuditCheckPage, error)
}

// RunReads reads one run. A run that does not exist and a run of another tenant are both NOT_FOUND, so that a caller
// cannot probe for ids. A query shows NOT_FOUND as null (contract T222).
type RunReads interface {
	Run(ctx context.Context, p authz.Principal, runID string, at *run.Seq) (control.RunView, error)
	DiffRun(ctx context.Context, p authz.Principal, runID string, a, b run.Seq) (reads.RunDiff, error)
	Receipt(ctx context.Context, p authz.Principal, runID, signalID string) (runs.SignalReceipt, error)
	Receipts(ctx context.Context, p authz.Principal, runID, afterSignalID string, limit int) (runs.ReceiptsPage, error)
	LogReads
	// Actions returns the actions that p may take on the run now. It does no I/O.
	Actions(p authz.Principal, v control.RunView) runs.Availability
}

// LogReads reads the events of a run and the logs of its steps.
type LogReads interface {
	Events(ctx context.Context, p authz.Principal, runID string, page reads.EventPage) (reads.EventsPage, error)
	StepLog(ctx context.Context, p authz.Principal, in reads.StepLogQuery) (reads.StepLog, error)
	SearchLogs(ctx context.Context, p authz.Principal, q reads.LogSearchQuery) (reads.LogSearchPage, error)
}

// ListReads reads lists, the viewer, the capabilities of engines and the health of the service.
type ListReads interface {
	Runs(ctx context.Context, p authz.Principal, q control.RunsQuery) (control.RunsPage, error)
	MySignals(ctx context.Context, p authz.Principal, single bool, limit int) ([]runs.SignalReceipt, error)
	Viewer(p authz.Principal) access.Viewer
	Capabilities(p authz.Principal) []access.EngineCapability
	SampledHealth(ctx context.Context) health.Health
	HealthHistory(ctx context.Context, p authz.Principal, last int) (health.HealthHistory, error)
}

// ManualReads reads the steps that wait for a person.
type ManualReads interface {
	ManualTasks(ctx context.Context, p authz.Principal, q runs.ManualTasksQuery) (runs.ManualTasksPage, error)
}

// DeadLetterReads reads the messages whose delivery failed too often.
type DeadLetterReads interface {
	DeadLetters(ctx context.Context, p authz.Principal, q reads.DeadLettersQuery) (reads.DeadLettersPage, error)
	DeadLetter(ctx context.Context, p authz.Principal, id string) (reads.DeadLetter, error)
}

// Streams opens streams of changes for one viewer. A stream checks the viewer's rights again while it runs, so that a
// revoked right ends it (contract T178). It ends with a *control.Error that names the cause. Next blocks for at most 15
// s.
type Streams interface {
	WatchRun(ctx context.Context, p authz.Principal, in watch.WatchRun) (Stream[live.Frame], error)
	WatchEvents(ctx context.Context, p authz.Principal, in watch.WatchRun) (Stream[watch.EventsFrame], error)
	WatchRuns(ctx context.Context, p authz.Principal, q control.RunsQuery) (Stream[watch.RunsFrame], error)
	WatchReceipts(ctx context.Context, p authz.Principal, runID, signalID string) (Stream[runs.SignalReceipt], error)
	WatchStepLog(ctx context.Context, p authz.Principal, in reads.StepLogQuery) (Stream[watch.StepLogFrame], error)
}

// FrameSharer opens streams that several viewers share. AdmitRun and AdmitRuns check the right of one viewer and return
// its ticket. OpenRun and OpenRuns open a stream for all viewers whose tickets have the class of t.
type FrameSharer interface {
	AdmitRun(ctx context.Context, p authz.Principal, runID string) (*watch.Ticket, error)
	AdmitRuns(ctx context.Context, p authz.Principal, q control.RunsQuery) (*watch.Ticket, error)
	OpenRun(ctx context.Context, t *watch.Ticket) (Stream[live.Frame], error)
	OpenRuns(ctx context.Context, t *watch.Ticket) (Stream[watch.RunsFrame], error)
	// RightsChanged returns a channel that is closed when rights may have changed after the call.
	RightsChanged() <-chan struct{}
}

// Stream is read by one goroutine until Next returns an error. Close frees its resources at once.
type Stream[T any] = control.Stream[T]

// availability returns a function that computes once, at its first call, the actions of p on a run. A past state has no
// actions.
func availability(c UseCases, p authz.Principal, v control.RunView) model.Available {
	return sync.OnceValue(func() runs.Availability {
		if v.Past {
			return runs.Availability{}
		}
		return c.Actions(p, v)
	})
}

func availabilityTo(c UseCases, p authz.Principal) func(control.RunView) model.Available {
	return func(v control.RunView) model.Available { return availability(c, p, v) }
}
