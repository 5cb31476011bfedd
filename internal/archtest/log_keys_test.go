package archtest_test

import (
	"path/filepath"
	"regexp"
	"testing"
)

// Log lines about the same thing have the same keys everywhere, so that one search finds all lines about a run.
// contract: T63
func TestLogs_KeysHaveOneName(t *testing.T) {
	t.Parallel()
	names := map[string]string{
		"run": "runId", "run_id": "runId", "step": "stepId", "step_id": "stepId", "tenant": "tenantId",
		"tenant_id": "tenantId", "request_id": "requestId", "trace_id": "traceId", "err": "error",
		"logical_attempt": "attemptId", "engine_attempt": "attemptId",
	}
	key := regexp.MustCompile(`slog\.[A-Z][A-Za-z0-9]*\("([^"]*)"`)
	_, files := repository(t)
	for _, name := range files {
		if filepath.Ext(name) != ".go" {
			continue
		}
		for _, m := range key.FindAllStringSubmatch(text(t, name), -1) {
			if better, wrong := names[m[1]]; wrong {
				t.Errorf("%s logs the key %q: use %q", name, m[1], better)
			}
		}
	}
}
