// Package graph is the GraphQL edge: resolvers of a few lines over control, the
// error presenter, limits, and scalars. It never sees store or engine adapters.
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

// UseCases are the use cases that resolvers call, one interface for each subject. A nil one panics when it is asked,
// which the edge answers with INTERNAL.
type UseCases struct {
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
	QuotaService
	InboxReads
	PlaceReads
	DBTReads
	PastReads
	CountReads
	BulkService
	PollerReads
}

// UseCasesOf takes each use case from one value.
func UseCasesOf(c interface { //nolint:interfacebloat // never called by this type: it is divided at once
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
	QuotaService
	InboxReads
	PlaceReads
	DBTReads
	PastReads
	CountReads
	BulkService
	PollerReads
}) UseCases {
	return UseCases{Commands: c, RunReads: c, ListReads: c, ManualReads: c, DeadLetterReads: c, AuditReads: c,
		PreviewService: c, Streams: c, FrameSharer: c, PolicyService: c, TokenService: c,
		RoleReads: c, ApprovalService: c, ServiceModes: c, QuotaService: c, InboxReads: c,
		PlaceReads: c, DBTReads: c, PastReads: c, CountReads: c, BulkService: c, PollerReads: c}
}

// PollerReads are about the workers of queues.
type PollerReads interface {
	PollerSeen(ctx context.Context, queue string) *time.Time
}

// Commands change something.
type Commands interface {
	StartRun(ctx context.Context, p authz.Principal, in runs.StartRun) (runs.StartedRun, error)
	SignalRun(ctx context.Context, p authz.Principal, in runs.SignalRun) (runs.SignalReceipt, error)
	CompleteManualStep(ctx context.Context, p authz.Principal, in runs.CompleteManualStep) (runs.SignalReceipt, error)
	Rerun(ctx context.Context, p authz.Principal, in runs.Rerun) (runs.StartedRun, error)
	RedriveDeadLetters(ctx context.Context, p authz.Principal, in reads.RedriveDeadLetters) (reads.RedrivenDeadLetters,
		error)
}

// PreviewService says what an action would do now.
type PreviewService interface {
	PreviewAction(ctx context.Context, p authz.Principal, in runs.PreviewAction) (runs.ActionPreview, error)
}

// AuditReads are about the audit.
type AuditReads interface {
	Audit(ctx context.Context, p authz.Principal, q control.AuditQuery) (control.AuditPage, error)
	CheckAudit(ctx context.Context, p authz.Principal, after string) (control.AuditCheckPage, error)
}

// RunReads are about one run. What does not exist or is not the caller's is an error with code NOT_FOUND, which a query
// shows as null (T222).
type RunReads interface {
	Run(ctx context.Context, p authz.Principal, runID string, at *run.Seq) (control.RunView, error)
	DiffRun(ctx context.Context, p authz.Principal, runID string, a, b run.Seq) (reads.RunDiff, error)
	Receipt(ctx context.Context, p authz.Principal, runID, signalID string) (runs.SignalReceipt, error)
	Receipts(ctx context.Context, p authz.Principal, runID, afterSignalID string, limit int) (runs.ReceiptsPage, error)
	LogReads
	// Actions says what p may do to the run now (no I/O).
	Actions(p authz.Principal, v control.RunView) runs.Availability
}

// LogReads are about what a run and its steps have written.
type LogReads interface {
	Events(ctx context.Context, p authz.Principal, runID string, page reads.EventPage) (reads.EventsPage, error)
	StepLog(ctx context.Context, p authz.Principal, in reads.StepLogQuery) (reads.StepLog, error)
}

// ListReads are about many things.
type ListReads interface {
	Runs(ctx context.Context, p authz.Principal, q control.RunsQuery) (control.RunsPage, error)
	MySignals(ctx context.Context, p authz.Principal, limit int) ([]runs.SignalReceipt, error)
	Viewer(p authz.Principal) access.Viewer
	Capabilities(p authz.Principal) []access.EngineCapability
	SampledHealth(ctx context.Context) health.Health
	HealthHistory(ctx context.Context, p authz.Principal, last int) (health.HealthHistory, error)
}

// ManualReads are about steps that wait for a person.
type ManualReads interface {
	ManualTasks(ctx context.Context, p authz.Principal, q runs.ManualTasksQuery) (runs.ManualTasksPage, error)
}

// DeadLetterReads are about messages that were given up.
type DeadLetterReads interface {
	DeadLetters(ctx context.Context, p authz.Principal, q reads.DeadLettersQuery) (reads.DeadLettersPage, error)
	DeadLetter(ctx context.Context, p authz.Principal, id string) (reads.DeadLetter, error)
}

// Streams follow what changes. Each re-checks the viewer's rights while it runs (T178)
// and ends with a *control.Error that names why. Next blocks until there is
// something to show, at most 15 s.
type Streams interface {
	WatchRun(ctx context.Context, p authz.Principal, in watch.WatchRun) (Stream[live.Frame], error)
	WatchEvents(ctx context.Context, p authz.Principal, in watch.WatchRun) (Stream[watch.EventsFrame], error)
	WatchRuns(ctx context.Context, p authz.Principal, q control.RunsQuery) (Stream[watch.RunsFrame], error)
	WatchReceipts(ctx context.Context, p authz.Principal, runID, signalID string) (Stream[runs.SignalReceipt], error)
	WatchStepLog(ctx context.Context, p authz.Principal, in reads.StepLogQuery) (Stream[watch.StepLogFrame], error)
}

// FrameSharer is streams that viewers may have together: a ticket is one viewer's
// right, a stream is of all who hold tickets of one class (control.Ticket).
type FrameSharer interface {
	AdmitRun(ctx context.Context, p authz.Principal, runID string) (*watch.Ticket, error)
	AdmitRuns(ctx context.Context, p authz.Principal, q control.RunsQuery) (*watch.Ticket, error)
	OpenRun(ctx context.Context, t *watch.Ticket) (Stream[live.Frame], error)
	OpenRuns(ctx context.Context, t *watch.Ticket) (Stream[watch.RunsFrame], error)
	// RightsChanged gives a channel that is closed when rights may have changed.
	RightsChanged() <-chan struct{}
}

// Stream is pulled until it ends; Close frees it at once.
type Stream[T any] = control.Stream[T]

// availability computes what p may do when it is first asked for. The past cannot be acted on, so it offers nothing.
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
