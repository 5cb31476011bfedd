package temporal

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// Holding is what a namespace holds of dvt.
type Holding struct {
	Namespace    string
	Open, Closed int64 // executions of runs that Temporal's index knows
	Recent       int64 // of these, those that were started since
}

// mostNamespaces bounds the namespaces that Holdings reads.
const mostNamespaces = 1000

// Holdings returns what each namespace of the server holds, by name. since says for a namespace from when on a start is
// recent. The account must have the right to list namespaces and to read each of them. It changes nothing.
func (to Connection) Holdings(ctx context.Context, since func(namespace string) time.Time) (out []Holding, err error) {
	c, err := client.DialContext(ctx, to.options(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, fmt.Errorf("temporal: namespaces: %w", err)
	}
	defer c.Close()
	for token, more := []byte(nil), true; more && len(out) < mostNamespaces; {
		page, err := c.WorkflowService().ListNamespaces(ctx, &workflowservice.ListNamespacesRequest{
			PageSize: 100, NextPageToken: token})
		if err != nil {
			return nil, fmt.Errorf("temporal: namespaces: %w", err)
		}
		for _, n := range page.GetNamespaces() {
			name := n.GetNamespaceInfo().GetName()
			if name == "temporal-system" || n.GetNamespaceInfo().GetState() != enumspb.NAMESPACE_STATE_REGISTERED {
				continue
			}
			h, err := holdingOf(ctx, c, name, since(name))
			if err != nil {
				return nil, fmt.Errorf("temporal: the namespace %s: %w", name, err)
			}
			out = append(out, h)
		}
		token = page.GetNextPageToken()
		more = len(token) > 0
	}
	slices.SortFunc(out, func(a, b Holding) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return out, nil
}

// holdingOf counts the executions of dvt in one namespace.
func holdingOf(ctx context.Context, c client.Client, namespace string, since time.Time) (Holding, error) {
	h := Holding{Namespace: namespace}
	const ours = "WorkflowType = '" + workflowName + "'"
	count := func(and string) (int64, error) {
		answer, err := c.WorkflowService().CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Namespace: namespace, Query: ours + and})
		return answer.GetCount(), err
	}
	var err error
	if h.Open, err = count(" AND ExecutionStatus = 'Running'"); err != nil {
		return h, err
	}
	all, err := count("")
	if err != nil {
		return h, err
	}
	h.Closed = max(all-h.Open, 0)
	h.Recent, err = count(" AND StartTime >= '" + since.UTC().Format(time.RFC3339Nano) + "'")
	return h, err
}
