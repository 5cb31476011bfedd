package temporal_test

import (
	"testing"

	"github.com/dvt-engine/dvt/engine/temporal"
)

// contract: Z03
func TestForgetTenant_DeletesOpenAndClosedExecutionsOfThatTenantOnly(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	h.hold("s1")
	open, ended := h.start(document(0, step{id: "s1"})), h.start(document(0, step{id: "s1"}))
	h.waitUntilRunning(open, "s1")
	h.waitUntilRunning(ended, "s1")
	must(t, h.engine.Terminate(t.Context(), h.identity(ended), "test"))
	tenant := h.identity(open).TenantID
	h.waitUntil("both executions are in the index", func() bool {
		n, err := h.engine.CountTenant(t.Context(), tenant)
		must(t, err)
		return n == 2
	})
	for _, other := range []string{tenant[:len(tenant)-1], tenant + "x", "%"} {
		n, _, err := h.engine.ForgetTenant(t.Context(), other, 10)
		if must(t, err); n != 0 {
			t.Errorf("forgetting the tenant %q deleted %d executions of %q", other, n, tenant)
		}
	}
	n, more, err := h.engine.ForgetTenant(t.Context(), tenant, 1)
	if must(t, err); n != 1 || !more {
		t.Errorf("a batch of one forgot %d, more %t, want 1 and true", n, more)
	}
	h.waitUntil("nothing of the tenant is left", func() bool {
		_, _, err := h.engine.ForgetTenant(t.Context(), tenant, 10)
		must(t, err)
		n, err := h.engine.CountTenant(t.Context(), tenant)
		must(t, err)
		return n == 0
	})
	for _, id := range []string{open, ended} {
		if _, err := h.client.DescribeWorkflowExecution(t.Context(), temporal.WorkflowID(h.identity(id)), ""); err == nil {
			t.Errorf("the execution of run %s is still there", id)
		}
	}
}
