package temporal

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
)

var _ engine.Census = (*Engine)(nil)

// ListClosed implements engine.Census.
func (e *Engine) ListClosed(ctx context.Context, since time.Time) iter.Seq2[engine.Description, error] {
	return e.list(ctx, fmt.Sprintf(
		"WorkflowType = '%s' AND CloseTime >= '%s' AND ExecutionStatus IN ('Failed', 'Canceled', 'Terminated', 'TimedOut')",
		workflowName, since.UTC().Format(time.RFC3339Nano)))
}

// FindOpen implements engine.Census.
func (e *Engine) FindOpen(ctx context.Context, ids []run.Identity) (map[string]bool, error) {
	if len(ids) > engine.MaxCensus {
		return nil, fmt.Errorf("temporal: a census of %d runs exceeds the maximum of %d", len(ids), engine.MaxCensus)
	}
	open := make(map[string]bool, len(ids))
	if len(ids) == 0 {
		return open, nil
	}
	quoted := make([]string, len(ids))
	for i, id := range ids {
		quoted[i] = "'" + WorkflowID(id) + "'" // the alphabet of ids has no quotes (contract T228)
	}
	for d, err := range e.list(ctx, "ExecutionStatus = 'Running' AND WorkflowId IN ("+strings.Join(quoted, ", ")+")") {
		if err != nil {
			return nil, err
		}
		if d.Foreign == "" {
			open[d.Identity.RunID] = true
		}
	}
	return open, nil
}

// ListOpen implements engine.Census. The index decides by the workflow type alone, so the page may contain runs whose
// open execution is foreign.
func (e *Engine) ListOpen(ctx context.Context, page string) (ids []run.Identity, next string, err error) {
	answer, err := e.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: e.namespace, PageSize: runsPage, NextPageToken: []byte(page),
		Query: "WorkflowType = '" + workflowName + "' AND ExecutionStatus = 'Running'",
	})
	if err != nil {
		return nil, "", translate(err)
	}
	for _, info := range answer.GetExecutions() {
		if id, ok := runOf(info.GetExecution().GetWorkflowId()); ok {
			ids = append(ids, id)
		}
	}
	return ids, string(answer.GetNextPageToken()), nil
}

// TerminateForeign implements engine.Census.
func (e *Engine) TerminateForeign(ctx context.Context, id run.Identity, reason string) error {
	info, err := e.latest(ctx, id)
	if err != nil {
		return err
	}
	if e.foreignReason(info) == "" {
		return engine.ErrClosed
	}
	return e.terminate(ctx, info, reason)
}

// list yields the runs of the index that match a query, page by page. It omits executions whose id is not that of a
// run.
func (e *Engine) list(ctx context.Context, query string) iter.Seq2[engine.Description, error] {
	return func(yield func(engine.Description, error) bool) {
		var token []byte
		for {
			page, err := e.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
				Namespace: e.namespace, PageSize: runsPage, NextPageToken: token, Query: query,
			})
			if err != nil {
				yield(engine.Description{}, translate(err))
				return
			}
			for _, info := range page.GetExecutions() {
				d, err := e.descriptionOf(info)
				if err != nil {
					yield(d, err)
					return
				}
				if d.Identity.RunID != "" && !yield(d, nil) {
					return
				}
			}
			if token = page.GetNextPageToken(); len(token) == 0 {
				return
			}
		}
	}
}
