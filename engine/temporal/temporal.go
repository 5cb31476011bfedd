// Package temporal executes runs on Temporal. It has one workflow per run, which is a thin driver of the pure
// interpreter, the activities that reach the log through an engine.Journal, the workers, and the engine.Engine adapter.
// It is the only package that uses Temporal's SDK.
//
// Calls address a run by its workflow id alone. The id of an execution becomes stale at the next rotation, and calls
// with it would fail (contract T107).
package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// The search attributes of a run, of type Keyword. They contain only ids, because Temporal stores them in clear
// (contract T115).
const (
	AttributeRun         = "DvtRunId"
	AttributeTenant      = "DvtTenantId"
	AttributeProject     = "DvtProjectId"
	AttributeEnvironment = "DvtEnvironmentId"
	AttributePlan        = "DvtPlanId"
	AttributePlanVersion = "DvtPlanVersion"
	// AttributeTier is set on the runs of tenants with a regulatory tier. Only an installation with tiers needs it.
	AttributeTier = "DvtRegulatoryTier"
)

// Attributes returns the names of the search attributes that a namespace of every installation must know.
func Attributes() []string {
	return []string{AttributeRun, AttributeTenant, AttributeProject, AttributeEnvironment, AttributePlan,
		AttributePlanVersion}
}

// Engine implements engine.Engine, and also engine.Census, engine.Debugger, engine.Historian and engine.Pollers. Make
// it with New; it is safe for concurrent use.
type Engine struct {
	client    client.Client
	namespace string
	cfg       Config

	mu sync.Mutex
	// Until fewUntil starts name only the attributes of earlier versions, because the namespace lacks others.
	fewUntil time.Time
}

// Config configures an Engine. Zero values mean the defaults.
type Config struct {
	// HeartbeatTimeout is the time without a heartbeat after which an execution counts as lost; default 30 s (contract
	// O5).
	HeartbeatTimeout time.Duration
	// RotateAfter is the number of steps that one execution of a workflow schedules before the next one of its chain
	// continues; default 50 (contract R381). A plan that is wider than RotateAfter does not run in its full width at once
	// (contract T105).
	RotateAfter int
	// Tickets seal the executions that the Engine starts. Its workers must have the same keys. Workers reject the
	// executions of an Engine without keys, and such an Engine treats every execution as dvt's own.
	Tickets ticket.Keys
	// Payloads must be those of the client's Connection; nil for data in clear.
	Payloads *Payloads
	// Tier returns the regulatory tier of a tenant, or ""; nil for an installation without tiers.
	Tier func(tenantID string) string
	// Log takes the line about search attributes that the namespace lacks; nil discards it.
	Log *slog.Logger
	// Now is the clock to which times of Temporal are compared; default time.Now. Give it a clock that does not depend
	// on that of the machine, like the store's, because a machine whose clock is wrong takes every call for slow, or none.
	Now func() time.Time
}

// defaultRotateAfter is the default of Config.RotateAfter, which the contract calls CONTINUE_STEPS.
const defaultRotateAfter = 50

// New makes an Engine on a client of the namespace.
func New(c client.Client, namespace string, cfg Config) *Engine {
	if cfg.HeartbeatTimeout == 0 {
		cfg.HeartbeatTimeout = 30 * time.Second
	}
	if cfg.RotateAfter == 0 {
		cfg.RotateAfter = defaultRotateAfter
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Engine{client: c, namespace: namespace, cfg: cfg}
}

// workflowPrefix begins the ids of the workflows of runs; the tenant and the run follow.
const workflowPrefix = "dvt/"

// WorkflowID returns the workflow id of a run in Temporal (contract T111).
func WorkflowID(id run.Identity) string {
	return fmt.Sprintf("%s%s/%s", workflowPrefix, id.TenantID, id.RunID)
}

// fairness makes a server that supports fairness keys take turns between tenants, regardless of the length of their
// queues.
func fairness(id run.Identity) temporal.Priority { return temporal.Priority{FairnessKey: id.TenantID} }

// mostStarts is the number of tries of one Start while foreign executions hold the id.
const mostStarts = 3

// Start implements engine.Engine. If an execution holds the id, Start checks whether dvt started it.
func (e *Engine) Start(ctx context.Context, id run.Identity, q plan.Queues) (engine.Started, error) {
	out := engine.Started{Ref: run.EngineRunRef{Provider: "temporal", Namespace: e.namespace, WorkflowID: WorkflowID(id),
		TaskQueue: q.Control}}
	// A failed workflow of dvt may be started again, because only the log decides whether the run has ended.
	reuse := enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY
	for range mostStarts {
		w, err := e.execute(ctx, id, q.Control, reuse)
		var taken *serviceerror.WorkflowExecutionAlreadyStarted
		if err == nil {
			out.Ref.EngineRunID = w.GetRunID()
			return out, nil
		}
		if !errors.As(err, &taken) {
			return out, translateStart(err)
		}
		info, err := e.latest(ctx, id)
		if errors.Is(err, engine.ErrNotStarted) {
			continue // somebody deleted the execution in between
		}
		if err != nil {
			return out, err
		}
		why := e.foreignReason(info)
		if why == "" {
			out.Ref.EngineRunID = info.GetExecution().GetRunId()
			return out, nil
		}
		out.Foreign = append(out.Foreign, engine.ForeignExecution{EngineRunID: info.GetExecution().GetRunId(), Why: why})
		err = e.terminate(ctx, info, "dvt: this execution held the id of a run, and dvt did not start it: "+why)
		if err != nil && !errors.Is(err, engine.ErrClosed) && !errors.Is(err, engine.ErrNotStarted) {
			return out, err
		}
		reuse = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE // a foreign execution that completed is not the run's
	}
	return out, engine.ErrHeld
}

// fewAttributesFor is how long starts leave out the attributes that the namespace lacks, before one tries them again.
const fewAttributesFor = 5 * time.Minute

// execute asks Temporal to start the workflow of a run, unless an execution holds its id. A namespace that was set up
// for an earlier version lacks some search attributes, and Temporal then refuses the start. The run starts without
// them.
func (e *Engine) execute(
	ctx context.Context, id run.Identity, queue string, reuse enumspb.WorkflowIdReusePolicy,
) (client.WorkflowRun, error) {
	e.mu.Lock()
	few := time.Now().Before(e.fewUntil)
	e.mu.Unlock()
	w, err := e.executeWith(ctx, id, queue, reuse, e.attributesOf(id, few))
	var refused *serviceerror.InvalidArgument
	if few || !errors.As(err, &refused) {
		return w, err
	}
	w, again := e.executeWith(ctx, id, queue, reuse, e.attributesOf(id, true))
	if errors.As(again, &refused) {
		return nil, err // the attributes are not the reason
	}
	e.mu.Lock()
	e.fewUntil = time.Now().Add(fewAttributesFor)
	e.mu.Unlock()
	if e.cfg.Log != nil {
		e.cfg.Log.WarnContext(ctx, "runs are started without some search attributes, because the namespace lacks one of them; "+
			"create them as the page on operations says", slog.Any("attributes", Attributes()), slog.Any("error", err))
	}
	return w, again
}

// attributesOf returns the search attributes of a run; few leaves out those that a namespace of an earlier version does
// not know. The plan is named only in a namespace whose payloads are in clear too, because an installation that
// encrypts them hides the names of its plans and steps.
func (e *Engine) attributesOf(id run.Identity, few bool) temporal.SearchAttributes {
	values := []string{id.RunID, id.TenantID, id.ProjectID, id.EnvironmentID, id.PlanID, id.PlanVersion}
	switch {
	case few:
		values = values[:3]
	case e.cfg.Payloads != nil:
		values = values[:4]
	}
	updates := make([]temporal.SearchAttributeUpdate, len(values))
	for i, v := range values {
		updates[i] = temporal.NewSearchAttributeKeyKeyword(Attributes()[i]).ValueSet(v)
	}
	if e.cfg.Tier != nil && !few {
		if tier := e.cfg.Tier(id.TenantID); tier != "" {
			updates = append(updates, temporal.NewSearchAttributeKeyKeyword(AttributeTier).ValueSet(tier))
		}
	}
	return temporal.NewSearchAttributes(updates...)
}

func (e *Engine) executeWith(ctx context.Context, id run.Identity, queue string, reuse enumspb.WorkflowIdReusePolicy,
	attributes temporal.SearchAttributes) (client.WorkflowRun, error) {
	in := Input{Version: startVersion, Identity: id, HeartbeatTimeoutMS: e.cfg.HeartbeatTimeout.Milliseconds(),
		RotateAfter: e.cfg.RotateAfter, OpaqueIDs: e.cfg.Payloads != nil}
	return e.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: WorkflowID(id), TaskQueue: queue, Priority: fairness(id), EnableEagerStart: true,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL, WorkflowIDReusePolicy: reuse,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		TypedSearchAttributes:                    attributes, Memo: memoOf(e.cfg.Tickets, WorkflowID(id), queue),
	}, workflowName, in.withSeal(e.cfg.Tickets, WorkflowID(id), queue))
}

// Signal implements engine.Engine.
func (e *Engine) Signal(ctx context.Context, id run.Identity, s engine.Signal) error {
	err := e.client.SignalWorkflow(ctx, WorkflowID(id), "", signalChannel, wake{No: s.No})
	var missing *serviceerror.NotFound
	if !errors.As(err, &missing) {
		return translate(err)
	}
	d, describing := e.Describe(ctx, id)
	switch {
	case describing != nil:
		return describing
	case d.Open: // another call started the run in between
		return translate(e.client.SignalWorkflow(ctx, WorkflowID(id), "", signalChannel, wake{No: s.No}))
	}
	return engine.ErrClosed
}

// Terminate implements engine.Engine.
func (e *Engine) Terminate(ctx context.Context, id run.Identity, reason string) error {
	info, err := e.latest(ctx, id)
	if err != nil {
		return err
	}
	return e.terminate(ctx, info, reason)
}

// terminate ends the chain of executions to which info belongs. It names the first execution of the chain, so that it
// cannot end a chain that another start has begun under the same id meanwhile (contract T107, T200).
func (e *Engine) terminate(ctx context.Context, info *workflowpb.WorkflowExecutionInfo, reason string) error {
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return engine.ErrClosed
	}
	_, err := e.client.WorkflowService().TerminateWorkflowExecution(ctx,
		&workflowservice.TerminateWorkflowExecutionRequest{
			Namespace:           e.namespace,
			WorkflowExecution:   &commonpb.WorkflowExecution{WorkflowId: info.GetExecution().GetWorkflowId()},
			FirstExecutionRunId: info.GetFirstRunId(), Reason: reason, Identity: "dvt",
		})
	return translate(err)
}

// latest describes the newest execution under the id of a run. Errors: engine.ErrNotStarted, engine.ErrUnavailable.
func (e *Engine) latest(ctx context.Context, id run.Identity) (*workflowpb.WorkflowExecutionInfo, error) {
	out, err := e.client.DescribeWorkflowExecution(ctx, WorkflowID(id), "")
	if err != nil {
		return nil, translate(err)
	}
	return out.GetWorkflowExecutionInfo(), nil
}

// Describe implements engine.Engine.
func (e *Engine) Describe(ctx context.Context, id run.Identity) (engine.Description, error) {
	info, err := e.latest(ctx, id)
	if err != nil {
		return engine.Description{}, err
	}
	d := engine.Description{
		Ref: run.EngineRunRef{
			Provider: "temporal", Namespace: e.namespace, WorkflowID: WorkflowID(id),
			EngineRunID: info.GetExecution().GetRunId(),
		},
		Open:        info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
		HistorySize: info.GetHistoryLength(), Foreign: e.foreignReason(info),
	}
	if !d.Open {
		d.ClosedAs = info.GetStatus().String()
	}
	return d, nil
}

// Capabilities implements engine.Engine (contract DD-14).
func (e *Engine) Capabilities() []engine.Capability {
	return []engine.Capability{
		{Name: "signals", Support: "native"},
		{Name: "pause", Support: "native", Note: "no step is scheduled after the pause; running steps drain"},
		{Name: "parallel", Support: "native"},
		{Name: "cancellation", Support: "native", Note: "cooperative; an execution sees it within 2 s"},
		{Name: "retries", Support: "native"},
		{Name: "replay", Support: "native"},
	}
}

// translateStart is translate for the error of a start. A refusal of the input, or of the namespace, is
// engine.ErrRejected.
func translateStart(err error) error {
	var input *serviceerror.InvalidArgument
	var namespace *serviceerror.NamespaceNotFound
	if errors.As(err, &input) || errors.As(err, &namespace) {
		return fmt.Errorf("%w: %w", engine.ErrRejected, err)
	}
	return translate(err)
}

// translate converts an error of Temporal to engine.ErrNotStarted or engine.ErrUnavailable. It returns context.Canceled
// unchanged.
func translate(err error) error {
	var missing *serviceerror.NotFound
	switch {
	case err == nil:
		return nil
	case errors.As(err, &missing):
		return engine.ErrNotStarted
	case errors.Is(err, context.Canceled):
		return err
	default:
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
	}
}
