package temporal_test

import (
	"testing"

	"github.com/google/uuid"
	"go.temporal.io/sdk/client"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/run"
)

// contract: Z03
func TestForgetTenant_DeletesOpenAndClosedExecutionsOfThatTenantOnly(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	tenant := "forget-" + uuid.NewString() // other tests use the namespace, too
	ids := []run.Identity{{TenantID: tenant, RunID: "r1"}, {TenantID: tenant, RunID: "r2"},
		{TenantID: tenant + "x", RunID: "r3"}}
	for _, id := range ids {
		_, err := h.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: temporal.WorkflowID(id),
			TaskQueue: "nobody"}, "none")
		must(t, err)
	}
	must(t, h.engine.Terminate(t.Context(), ids[1], "test"))
	waiting := h.start(document(0, step{id: "s1"}))
	count := func(tenant string) int64 {
		n, err := h.engine.CountTenant(t.Context(), tenant)
		must(t, err)
		return n
	}
	h.waitFor(waiting, "in the index with the others", func(run.State) bool {
		return count(tenant) == 2 && count(tenant+"x") == 1
	})
	for _, other := range []string{tenant[:len(tenant)-1], "%", "' OR WorkflowId STARTS_WITH 'dvt/" + tenant} {
		n, _, err := h.engine.ForgetTenant(t.Context(), other, 10)
		if err == nil && n != 0 {
			t.Errorf("forgetting the tenant %q deleted %d executions of %q", other, n, tenant)
		}
	}
	n, more, err := h.engine.ForgetTenant(t.Context(), tenant, 1)
	if must(t, err); n != 1 || !more {
		t.Errorf("a batch of one forgot %d, more %t, want 1 and true", n, more)
	}
	h.waitFor(waiting, "alone in the index", func(run.State) bool {
		_, _, err := h.engine.ForgetTenant(t.Context(), tenant, 10)
		must(t, err)
		return count(tenant) == 0
	})
	for _, id := range ids {
		_, err := h.client.DescribeWorkflowExecution(t.Context(), temporal.WorkflowID(id), "")
		if exists := id.TenantID != tenant; (err == nil) != exists {
			t.Errorf("the execution of %s exists: %v, want %t", temporal.WorkflowID(id), err == nil, exists)
		}
	}
}
