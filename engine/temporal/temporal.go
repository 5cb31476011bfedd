// Package temporal runs dvt's runs on Temporal: one workflow per run that is a
// thin driver of the pure interpreter, activities that reach the log through an
// engine.Journal, workers, and the engine.Engine adapter. It is the only package
// that speaks Temporal.
//
// A run is addressed by its workflow id alone, never by an execution id, so that
// every execution of the chain answers (T107).
package temporal

import (
	"context"
	"errors"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// The search attributes of a run; ids only, because their values are stored in
// clear (T115). All are keywords.
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
	// HeartbeatTimeout after which a silent execution counts as lost; default 30 s (O5).
	HeartbeatTimeout time.Duration
	// RotateAfter is how many steps one execution of a workflow schedules before the
	// next one of its chain goes on; default 50 (R381). A wider plan needs a higher
	// one to run its full width at once (T105).
	RotateAfter int
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

// WorkflowID is the address of a run in Temporal (T111).
func WorkflowID(id run.Identity) string { return fmt.Sprintf("dvt/%s/%s", id.TenantID, id.RunID) }

// Start implements engine.Engine.
func (e *Engine) Start(ctx context.Context, id run.Identity, q plan.Queues) (run.EngineRunRef, error) {
	attributes := temporal.NewSearchAttributes(
		temporal.NewSearchAttributeKeyKeyword(AttributeRun).ValueSet(id.RunID),
		temporal.NewSearchAttributeKeyKeyword(AttributeTenant).ValueSet(id.TenantID),
		temporal.NewSearchAttributeKeyKeyword(AttributeProject).ValueSet(id.ProjectID),
	)
	ref := run.EngineRunRef{Provider: "temporal", Namespace: e.namespace, WorkflowID: WorkflowID(id)}
	w, err := e.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: ref.WorkflowID, TaskQueue: q.Control,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		TypedSearchAttributes:    attributes,
	}, workflowName, Input{Identity: id, HeartbeatTimeoutMS: e.cfg.HeartbeatTimeout.Milliseconds(), RotateAfter: e.cfg.RotateAfter})
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	switch {
	case errors.As(err, &started):
		ref.EngineRunID = started.RunId
		return ref, nil
	case err != nil:
		return ref, translate(err)
	}
	ref.EngineRunID = w.GetRunID()
	return ref, nil
}

// Signal implements engine.Engine.
func (e *Engine) Signal(ctx context.Context, id run.Identity, s engine.Signal) error {
	err := e.client.SignalWorkflow(ctx, WorkflowID(id), "", signalChannel, s)
	var missing *serviceerror.NotFound
	if !errors.As(err, &missing) {
		return translate(err)
	}
	d, describing := e.Describe(ctx, id)
	switch {
	case describing != nil:
		return describing
	case d.Open: // it was started in between
		return translate(e.client.SignalWorkflow(ctx, WorkflowID(id), "", signalChannel, s))
	}
	return engine.ErrClosed
}

// Terminate implements engine.Engine. The first execution of the chain guards it:
// what another start would have begun under the same id is left alone (T107, T200).
func (e *Engine) Terminate(ctx context.Context, id run.Identity, reason string) error {
	out, err := e.client.DescribeWorkflowExecution(ctx, WorkflowID(id), "")
	if err != nil {
		return translate(err)
	}
	info := out.GetWorkflowExecutionInfo()
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return engine.ErrClosed
	}
	_, err = e.client.WorkflowService().TerminateWorkflowExecution(ctx, &workflowservice.TerminateWorkflowExecutionRequest{
		Namespace: e.namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: WorkflowID(id)},
		FirstExecutionRunId: info.GetFirstRunId(), Reason: reason, Identity: "dvt",
	})
	return translate(err)
}

// Describe implements engine.Engine.
func (e *Engine) Describe(ctx context.Context, id run.Identity) (engine.Description, error) {
	out, err := e.client.DescribeWorkflowExecution(ctx, WorkflowID(id), "")
	if err != nil {
		return engine.Description{}, translate(err)
	}
	info := out.GetWorkflowExecutionInfo()
	d := engine.Description{
		Ref:         run.EngineRunRef{Provider: "temporal", Namespace: e.namespace, WorkflowID: WorkflowID(id), EngineRunID: info.GetExecution().GetRunId()},
		Open:        info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
		HistorySize: info.GetHistoryLength(),
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
