// Package temporal runs dvt's runs on Temporal: one workflow per run that is a
// thin driver of the pure interpreter, activities that reach the log through an
// engine.Journal, workers, and the engine.Engine adapter. It is the only package
// that speaks Temporal.
//
// A run is addressed by its workflow id alone, never by an execution id, so that
// every execution of the chain answers (contract T107).
package temporal

import (
	"context"
	"errors"
	"fmt"
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

// The search attributes of a run; ids only, because their values are stored in
// clear (contract T115). All are keywords.
const (
	AttributeRun     = "DvtRunId"
	AttributeTenant  = "DvtTenantId"
	AttributeProject = "DvtProjectId"
)

// Engine is the adapter. Make it with New; it is safe for concurrent use.
type Engine struct {
	client    client.Client
	namespace string
	cfg       Config
}

// Config of an Engine.
type Config struct {
	// HeartbeatTimeout after which a silent execution counts as lost; default 30 s (contract O5).
	HeartbeatTimeout time.Duration
	// RotateAfter is how many steps one execution of a workflow schedules before the
	// next one of its chain goes on; default 50 (contract R381). A wider plan needs a higher
	// one to run its full width at once (contract T105).
	RotateAfter int
	// Tickets seal what the Engine starts, with the keys of its workers. An Engine without keys starts nothing that a
	// worker runs, and takes every execution for one of dvt's.
	Tickets ticket.Keys
	// Payloads are those of the client, nil for none.
	Payloads *Payloads
}

// defaultRotateAfter is CONTINUE_STEPS.
const defaultRotateAfter = 50

// New wraps a connected client of one namespace.
func New(c client.Client, namespace string, cfg Config) *Engine {
	if cfg.HeartbeatTimeout == 0 {
		cfg.HeartbeatTimeout = 30 * time.Second
	}
	if cfg.RotateAfter == 0 {
		cfg.RotateAfter = defaultRotateAfter
	}
	return &Engine{client: c, namespace: namespace, cfg: cfg}
}

// workflowPrefix begins the ids of the workflows of runs; the tenant and the run follow.
const workflowPrefix = "dvt/"

// WorkflowID is the address of a run in Temporal (contract T111).
func WorkflowID(id run.Identity) string {
	return fmt.Sprintf("%s%s/%s", workflowPrefix, id.TenantID, id.RunID)
}

// fairness has a server that knows fairness keys give each tenant its turn, whatever others have queued.
func fairness(id run.Identity) temporal.Priority { return temporal.Priority{FairnessKey: id.TenantID} }

// mostStarts is how often one Start tries to start a run under an id that others take.
const mostStarts = 3

// Start implements engine.Engine. Temporal reports an execution that holds the id, and Start looks whose it is.
func (e *Engine) Start(ctx context.Context, id run.Identity, q plan.Queues) (engine.Started, error) {
	out := engine.Started{Ref: run.EngineRunRef{Provider: "temporal", Namespace: e.namespace, WorkflowID: WorkflowID(id)}}
	// A workflow of dvt's that failed is not the run's end, which the log has.
	reuse := enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY
	for range mostStarts {
		w, err := e.execute(ctx, id, q.Control, reuse)
		var taken *serviceerror.WorkflowExecutionAlreadyStarted
		if err == nil {
			out.Ref.EngineRunID = w.GetRunID()
			return out, nil
		}
		if !errors.As(err, &taken) {
			return out, translate(err)
		}
		info, err := e.latest(ctx, id)
		if errors.Is(err, engine.ErrNotStarted) {
			continue // it was deleted in between
		}
		if err != nil {
			return out, err
		}
		why := e.foreign(info)
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

// execute asks Temporal to start the workflow of a run, unless an execution holds its id.
func (e *Engine) execute(
	ctx context.Context, id run.Identity, queue string, reuse enumspb.WorkflowIdReusePolicy,
) (client.WorkflowRun, error) {
	attributes := temporal.NewSearchAttributes(
		temporal.NewSearchAttributeKeyKeyword(AttributeRun).ValueSet(id.RunID),
		temporal.NewSearchAttributeKeyKeyword(AttributeTenant).ValueSet(id.TenantID),
		temporal.NewSearchAttributeKeyKeyword(AttributeProject).ValueSet(id.ProjectID),
	)
	in := Input{Identity: id, HeartbeatTimeoutMS: e.cfg.HeartbeatTimeout.Milliseconds(), RotateAfter: e.cfg.RotateAfter,
		OpaqueIDs: e.cfg.Payloads != nil}
	return e.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: WorkflowID(id), TaskQueue: queue, Priority: fairness(id), EnableEagerStart: true,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL, WorkflowIDReusePolicy: reuse,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		TypedSearchAttributes:                    attributes, Memo: memoOf(e.cfg.Tickets, WorkflowID(id), queue),
	}, workflowName, in.sealed(e.cfg.Tickets, WorkflowID(id), queue))
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
	case d.Open: // it was started in between
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

// terminate ends the chain of executions that info is of. The first execution of the chain guards it: what another
// start has begun under the same id meanwhile is left alone (contract T107, T200).
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

// latest describes the newest execution under the id of a run. engine.ErrNotStarted, engine.ErrUnavailable.
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
		HistorySize: info.GetHistoryLength(), Foreign: e.foreign(info),
	}
	if !d.Open {
		d.ClosedAs = info.GetStatus().String()
	}
	return d, nil
}

// Capabilities implements engine.Engine (R DD-14).
func (e *Engine) Capabilities() []engine.Capability {
	return []engine.Capability{
		{Name: "signals", Support: "native"},
		{Name: "pause", Support: "native", Note: "scheduling stops at once, steps in flight drain"},
		{Name: "parallel", Support: "native"},
		{Name: "cancellation", Support: "native", Note: "cooperative; seen within 2 s"},
		{Name: "retries", Support: "native"},
		{Name: "replay", Support: "native"},
	}
}

// translate turns the service's errors into the port's three.
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
