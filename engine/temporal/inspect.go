package temporal

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// Facts is what Inspect learned about a namespace.
type Facts struct {
	ServerVersion string // empty when the server does not say
	Retention     time.Duration
	Archival      bool // it archives histories
	// Attributes are the types of the search attributes by name. They are nil when AttributesErr says why the server
	// does not list them, for example to a client without that right.
	Attributes    map[string]string
	AttributesErr error
}

// RequiredAttributes returns the search attributes that runs are started with. A connection that encrypts payloads
// omits those that name the plan.
func (to Connection) RequiredAttributes() []string {
	if to.Payloads != nil {
		return Attributes()[:4]
	}
	return Attributes()
}

// AttributeType is the type that each search attribute of dvt must have.
const AttributeType = "Keyword"

// Inspect reads the retention and the search attributes of the namespace. Errors are those of Ping, which it calls
// first. It changes nothing.
func (to Connection) Inspect(ctx context.Context) (f Facts, err error) {
	if err := to.Ping(ctx); err != nil {
		return f, err
	}
	c, err := client.DialContext(ctx, to.options(slog.New(slog.DiscardHandler)))
	if err != nil {
		return f, fmt.Errorf("temporal: inspect: %w", err)
	}
	defer c.Close()
	n, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{
		Namespace: to.Namespace})
	if err != nil {
		return f, fmt.Errorf("temporal: inspect: %w", err)
	}
	f.Retention = n.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	f.Archival = n.GetConfig().GetHistoryArchivalState() == enumspb.ARCHIVAL_STATE_ENABLED
	if info, err := c.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{}); err == nil {
		f.ServerVersion = info.GetServerVersion()
	}
	list, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{
		Namespace: to.Namespace})
	if err != nil {
		f.AttributesErr = err
		return f, nil
	}
	f.Attributes = map[string]string{}
	for name, kind := range list.GetCustomAttributes() {
		f.Attributes[name] = kind.String()
	}
	return f, nil
}
