package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A second approval of one person counts nothing, and the command says so.
func TestRunApprove_SaysThatASecondDecisionCountsNothing(t *testing.T) {
	t.Parallel()
	address, _ := serve(t)
	dir := t.TempDir()
	policy, plan := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "plan.json")
	for name, text := range map[string]string{
		policy: "grants:\n" +
			"  - {principal: dev-admin, role: ADMIN, projectId: '*', environmentId: '*'}\n" +
			"  - {principal: dev-engineer, role: ENGINEER, projectId: '*', environmentId: '*'}\n" +
			"  - {principal: dev-planner, role: PLANNER, projectId: '*', environmentId: '*'}\n" +
			"approvals:\n  - {projectId: '*', environmentId: '*', required: 2}\n" +
			"sod: {approve: true, completeManual: true}\n",
		plan: `{"schemaVersion":"v1.2","scope":{"tenantId":"acme","projectId":"shop","environmentId":"dev",` +
			`"repoSha":"abc"},"metadata":{"planId":"p","planVersion":"1","schemaVersion":"v1.2",` +
			`"createdAt":"2026-11-21T00:00:00Z","createdBy":"ana"},` +
			`"steps":[{"stepId":"s1","type":"NOOP","inputs":{},"timeout":"1m"}]}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(token, args string) string {
		t.Helper()
		out, status, err := dvt(t, address, token, strings.Fields(args)...)
		if status != 0 {
			t.Fatalf("dvt %s as %s: status %d, %v\n%s", args, token, status, err, out)
		}
		return out
	}
	run("dev-admin", "policy set "+policy+" --expected-version 0 --reason test")
	id := regexp.MustCompile(`[0-9a-f-]{36}`).FindString(run("dev-engineer", "run start "+plan))
	first := run("dev-planner", "run approve "+id+" --request-id a1")
	repeated := run("dev-planner", "run approve "+id+" --request-id a1")
	second := run("dev-planner", "run approve "+id)
	if !strings.Contains(first, "has 1 of 2 approvals") || repeated != first {
		t.Errorf("the approval and its repetition say %q and %q, want 1 of 2 approvals twice", first, repeated)
	}
	if !strings.HasPrefix(second, "You decided at ") || !strings.Contains(second, "has 1 of 2 approvals") {
		t.Errorf("the second approval says %q, want that the first one stands", second)
	}
}
