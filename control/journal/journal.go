// Package journal implements engine.Journal on the store. Everything that an engine or a worker writes to the log of a
// run passes through it.
package journal

import (
	"context"
	"errors"
	"log/slog"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/nodes"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/internal/sizedlru"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/epoch"
)

// Config has the dependencies and settings of a Journal.
type Config struct {
	Store  Store
	Logs   artifact.Logs
	Blobs  artifact.Blobs
	Queues plan.Queues
	Fetch  *Fetcher
	// Tickets check tickets and make the keys of executions. Without ticket keys every ticket and every key is refused.
	Tickets ticket.Keys
	// Restoring means that the Journal writes the history of an engine back into a restored store. RunStarted and
	// RunCompleted are then written without checking the queue and the steps, because they were in the log before.
	Restoring bool
	// MaxSteps is the maximum number of steps of a plan, as for StartRun.
	MaxSteps int
	// WriteBudget is the time within which the store must confirm that a step started or completed; 0 means 3 s
	// (contract T120).
	WriteBudget time.Duration
	// Heavy returns the bucket from which a heavy step of a project takes a token when it starts. Steps of class heavy
	// and of type DBT_RUN are heavy. It does no I/O. nil sets no limit.
	Heavy func(tenantID, projectID string) store.Bucket
	// Sandbox returns the ceiling of the sandboxes of a scope. It does no I/O. nil sets no ceiling.
	Sandbox func(tenantID, projectID, environmentID string) (plan.SandboxCeiling, error)
	// Expiry returns when an artifact expires that a run of a tenant writes at a time; nil when it is kept for ever. A nil
	// Expiry sets no end.
	Expiry func(ctx context.Context, tenantID string, kind run.ArtifactKind, at time.Time) (*time.Time, error)
	// Ended is told the type of a step whose attempt ended, and whether it failed; also of a repeated report. It may be
	// nil.
	Ended func(stepType string, failed bool)
	// Traceparent returns the context with which an attempt continues the trace of its run. nil gives none.
	Traceparent func(runID, stepID string, logicalAttempt int) string
	// OperatorsTenant gets the audit rows about workers that serve all tenants. With "" they are only logged.
	OperatorsTenant string
	// Alerts are raised about hosts of plans that do not answer. nil raises none.
	Alerts  *control.Alerts
	Metrics prometheus.Registerer // nil registers no metrics
	Logger  *slog.Logger          // nil logs nothing
	Now     func() time.Time      // nil means time.Now
}

// Journal is engine.Journal on the store. Control workers use it in process; a server offers the part that For returns
// to data workers. It caches the facts and parsed plans of the maxKept most recently used runs, with plan documents of
// at most maxKeptBytes in total. It is safe for concurrent use.
type Journal struct {
	*attempts // for callers in this process
	cfg       Config
	writes    *writes
	runs      *sizedlru.Cache[*RunFacts]
	refusals  *refusals
	epochs    *epoch.Guard
	workers   *lru.Cache[string, knownWorker] // by account and worker
	orders    openOrders
	nodes     *nodes.Folds
	states    chan struct{} // a slot for each manifest that is read for a worker
	lostNotes chan struct{} // a slot for each note that waits; see noteLostLines
}

const (
	maxKept      = 256
	maxKeptBytes = 128 << 20 // bytes of plan documents
)

// RunFacts has a run and its plan, which are immutable, and the known facts of its log, which grow.
type RunFacts struct {
	run   store.Run
	plan  plan.Plan
	Steps map[string]int
	Log   *KnownLog
	nodes nodesBytes

	mirror string // that gave the document to this process
}

// New makes a Journal.
func New(cfg Config) *Journal {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	j := &Journal{cfg: cfg, writes: newWrites(cfg), runs: sizedlru.New[*RunFacts](maxKept, maxKeptBytes),
		epochs:   epoch.NewGuard(func(ctx context.Context) (string, error) { return cfg.Store.Runs.Epoch(ctx) }),
		refusals: newRefusals(cfg), workers: control.NewLRU[knownWorker](maxKnownWorkers),
		nodes: nodes.NewFolds(cfg.Store.Signals), lostNotes: make(chan struct{}, maxLostNotes),
		states: make(chan struct{}, stateReads)}
	j.attempts = &attempts{journal: j, worker: authz.Worker{ID: string(run.ByEngine), Serves: []string{"*"},
		Queues: []string{"*"}}}
	return j
}

var (
	_ engine.Journal         = (*Journal)(nil)
	_ engine.ForgeryReporter = (*Journal)(nil)
)

// attempts is engine.AttemptJournal for one worker.
type attempts struct {
	journal *Journal
	worker  authz.Worker
}

// For returns the part of the Journal that a worker may use. For a run of a tenant, or a dispatch to a queue, that the
// worker does not serve, its methods return store.ErrNotFound.
func (j *Journal) For(w authz.Worker) engine.AttemptJournal { return &attempts{journal: j, worker: w} }

// identityOf reads the identity of a run. It returns store.ErrNotFound for a tenant that the worker does not serve.
func (a *attempts) identityOf(ctx context.Context, runID string) (run.Identity, error) {
	id, err := a.journal.identity(ctx, runID)
	if err == nil && !a.worker.MayServe(id.TenantID) {
		return run.Identity{}, a.journal.refusals.hide("tenant", store.ErrNotFound)
	}
	return id, err
}

func (j *Journal) identity(ctx context.Context, runID string) (run.Identity, error) {
	if f, ok := j.runs.Get(runID); ok {
		return f.run.Identity, nil
	}
	r, err := j.cfg.Store.Runs.Get(ctx, runID)
	return r.Identity, err
}

// Signals implements engine.Journal.
func (j *Journal) Signals(ctx context.Context, runID string, after int64) ([]engine.Signal, error) {
	receipts, err := j.cfg.Store.Signals.After(ctx, runID, after)
	if err != nil {
		return nil, err
	}
	out := make([]engine.Signal, len(receipts))
	for i, r := range receipts {
		out[i] = runs.EngineSignal(r)
	}
	return out, nil
}

// Skeleton implements engine.Journal. A plan that can never be fetched or is invalid is an answer and not an error:
// Failure has the reason (contract T144).
func (j *Journal) Skeleton(ctx context.Context, runID string) (engine.Skeleton, error) {
	f, err := j.facts(ctx, runID)
	var broken *PlanError
	if errors.As(err, &broken) {
		r, err := j.cfg.Store.Runs.Get(ctx, runID)
		return engine.Skeleton{Identity: r.Identity, Policy: r.Policy, Failure: &run.FailurePayload{
			ErrorCode: string(broken.Code), ErrorMessage: broken.Message, FailureCategory: broken.Category,
			FailureSource: "planner",
		}}, err
	}
	if err != nil {
		return engine.Skeleton{}, err
	}
	refusal, err := j.sandboxFailure(ctx, f)
	if err != nil {
		return engine.Skeleton{}, err
	}
	if refusal != nil {
		return engine.Skeleton{Identity: f.run.Identity, Policy: f.run.Policy, Failure: refusal}, nil
	}
	sk := f.plan.Skeleton(j.cfg.Queues)
	b, err := sk.MarshalBinary()
	if err != nil {
		return engine.Skeleton{}, err
	}
	reused, err := j.reusedOrds(ctx, f)
	if err != nil {
		return engine.Skeleton{}, err
	}
	at, err := j.cfg.Store.Runs.Epoch(ctx)
	return engine.Skeleton{
		Epoch: at, Reused: reused, Identity: f.run.Identity, SHA256: f.run.PlanRef.SHA256, Binary: b,
		Policy: f.run.Policy.For(f.plan),
	}, err
}

// facts returns the run and its plan, from the cache when possible. Errors: store.ErrNotFound, *PlanError.
func (j *Journal) facts(ctx context.Context, runID string) (*RunFacts, error) {
	return j.factsBy(ctx, runID, j.cfg.Fetch.Fetch)
}

// fetchFunc fetches the document of a reference for a run of a tenant, and returns the address that gave it.
type fetchFunc func(ctx context.Context, tenant string, r plan.Ref) (doc []byte, from string, err error)

// withoutFetch is a fetchFunc for the end of a run whose document could not be fetched: it is not tried again.
func withoutFetch(context.Context, string, plan.Ref) (doc []byte, from string, err error) {
	return nil, "", errNotStored
}

// errNotStored says nothing about the host of the plan, because nobody asked it.
var errNotStored = &PlanError{Code: run.CodePlanFetchFailed, Message: "The plan document is not stored.",
	Category: run.CategorySystem}

// factsBy is facts with fetch in place of the Fetcher.
func (j *Journal) factsBy(ctx context.Context, runID string, fetch fetchFunc) (*RunFacts, error) {
	if f, ok := j.runs.Get(runID); ok {
		return f, nil
	}
	r, err := j.cfg.Store.Runs.Get(ctx, runID)
	if err != nil {
		return nil, err
	}
	pl, mirror, size, err := j.plan(ctx, r, fetch)
	if err != nil {
		return nil, err
	}
	f := &RunFacts{run: r, plan: pl, mirror: mirror, Steps: make(map[string]int, len(pl.Steps)),
		Log: NewKnownLog(len(pl.Steps))}
	for i, s := range pl.Steps {
		f.Steps[s.StepID] = i
	}
	j.runs.Put(runID, f, size)
	return f, nil
}

// plan reads the document of a run's plan, of size bytes. It fetches and stores a plan by reference that is not stored
// yet; mirror is the further address that gave it, if one did.
func (j *Journal) plan(ctx context.Context, r store.Run, fetch fetchFunc) (pl plan.Plan, mirror string, size int,
	err error) {
	doc, err := j.cfg.Store.Runs.Plan(ctx, r.PlanRef.SHA256)
	if errors.Is(err, store.ErrNotFound) {
		var from string
		doc, from, err = j.fetchUnlessEnded(ctx, r, fetch)
		j.tellAboutHost(ctx, r, from, err)
		if err != nil {
			return plan.Plan{}, "", 0, err
		}
		if from != r.PlanRef.URI {
			mirror = from
		}
		if err := j.cfg.Store.Runs.PutPlan(ctx, r.PlanRef.SHA256, doc); err != nil {
			return plan.Plan{}, "", 0, err
		}
	} else if err != nil {
		return plan.Plan{}, "", 0, err
	}
	body, err := r.PlanRef.Open(doc)
	if err != nil {
		return plan.Plan{}, "", 0, planError(err)
	}
	pl, err = plan.Parse(body, j.cfg.Queues)
	if err != nil {
		return plan.Plan{}, "", 0, planError(err)
	}
	if err := runs.CheckScope(pl, r.Identity, j.cfg.MaxSteps); err != nil {
		return plan.Plan{}, "", 0, planError(err)
	}
	if pl.Metadata.PlanID != r.PlanID || pl.Metadata.PlanVersion != r.PlanVersion {
		return plan.Plan{}, "", 0, &PlanError{Code: run.CodePlanInvalid,
			Message: "The document has another planId or planVersion than the reference.", Category: run.CategoryUser}
	}
	return pl, mirror, len(body), nil
}
