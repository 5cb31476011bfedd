package temporal

import (
	"context"
	"errors"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/dvt-engine/dvt/run"
)

// ofTenant is the query for every execution under the ids of a tenant's runs, also of foreign ones. The alphabet of ids
// has no quotes (contract T228).
func ofTenant(tenantID string) string {
	return "WorkflowId STARTS_WITH '" + workflowPrefix + strings.ReplaceAll(tenantID, "'", "''") + "/'"
}

// CountTenant counts the executions of a tenant, open and closed, as far as Temporal's index knows them.
func (e *Engine) CountTenant(ctx context.Context, tenantID string) (int64, error) {
	answer, err := e.client.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: e.namespace, Query: ofTenant(tenantID),
	})
	return answer.GetCount(), translate(err)
}

// ForgetTenant ends and deletes at most limit executions of a tenant with their histories. more says that others may be
// left; Temporal deletes in the background, so an execution may be listed again for a while. It may be repeated.
func (e *Engine) ForgetTenant(ctx context.Context, tenantID string, limit int) (forgotten int64, more bool, err error) {
	return e.forget(ctx, ofTenant(tenantID), limit)
}

// ForgetRun deletes the executions of a run with their histories, as far as Temporal's index knows them. It may be
// repeated. Temporal deletes in the background, within a minute.
func (e *Engine) ForgetRun(ctx context.Context, id run.Identity) error {
	query := "WorkflowId = '" + strings.ReplaceAll(WorkflowID(id), "'", "''") + "'"
	for more := true; more; {
		var err error
		if _, more, err = e.forget(ctx, query, runsPage); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) forget(ctx context.Context, query string, limit int) (forgotten int64, more bool, err error) {
	page, err := e.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: e.namespace, PageSize: int32(min(max(limit, 1), runsPage)), Query: query,
	})
	if err != nil {
		return 0, false, translate(err)
	}
	for _, info := range page.GetExecutions() {
		x := info.GetExecution()
		_, err := e.client.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
			Namespace:         e.namespace,
			WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: x.GetWorkflowId(), RunId: x.GetRunId()},
		})
		if errors.As(err, new(*serviceerror.NotFound)) {
			continue // deleted before, and still in the index
		}
		if err != nil {
			return forgotten, true, translate(err)
		}
		forgotten++
	}
	return forgotten, len(page.GetNextPageToken()) > 0 && forgotten > 0, nil
}
