package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/store"
)

// oneStart lets every tenant start one run a minute.
func oneStart() *admission.Quotas {
	return &admission.Quotas{
		Tiers: map[string]admission.Tier{admission.DefaultTier: {
			StartRunPerMinute: 1, HeavyStepsPerMinute: 5, SignalOpsPerMinute: 100, MaxActive: 1000, MaxQueueDepth: 2, Weight: 1,
		}},
		MaxActive: 10_000, Strategy: store.StrategyQueue, TTL: 5 * time.Minute,
	}
}

const quotaPlan = `{"schemaVersion":"v1.2","metadata":{"planId":"p","planVersion":"1","createdAt":"2026-01-01T00:00:00Z","createdBy":"t","schemaVersion":"v1.2"},
"scope":{"tenantId":"acme","projectId":"shop","environmentId":"dev","repoSha":"0000000000000000000000000000000000000000"},
"steps":[{"stepId":"s1","type":"NOOP","inputs":{},"timeout":"1m"}]}`

func TestQuotaAndQueue_ShowSetHistoryAndList(t *testing.T) {
	address, _ := serve(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ask := func(token string, want int, says string, args ...string) string {
		t.Helper()
		out, status, err := dvt(t, address, token, args...)
		words := out
		if err != nil {
			words += err.Error()
		}
		if status != want || !strings.Contains(words, says) {
			t.Errorf("dvt %s: status %d, want %d and %q\n%s", strings.Join(args, " "), status, want, says, words)
		}
		return out
	}
	plan := file("plan.json", quotaPlan)
	ask("dev-engineer", 0, "", "run", "start", plan, "--request-id", "r1")
	slow := strings.TrimSpace(ask("dev-engineer", 0, "", "run", "start", plan, "--request-id", "r2", "--priority", "1"))
	fast := strings.TrimSpace(ask("dev-engineer", 0, "", "run", "start", plan, "--request-id", "r3", "--priority", "8"))
	ask("dev-engineer", 2, "priority", "run", "start", plan, "--request-id", "r4", "--priority", "10")
	ask("dev-engineer", 3, "QUEUE_FULL", "run", "start", plan, "--request-id", "r4")
	list := strings.Split(ask("dev-viewer", 0, "2 runs of the tenant waiting", "queue", "list"), "\n")
	if !strings.HasPrefix(list[1], fast) || !strings.Contains(list[1], "quota") || !strings.HasPrefix(list[2], slow) ||
		!strings.Contains(list[2], "runs ahead") {
		t.Errorf("the queue is %q, want the run of priority 8 before that of priority 1", list)
	}
	ask("dev-mallory", 0, "0 runs of the tenant waiting", "queue", "list")
	short := strings.Split(ask("dev-viewer", 0, "2 runs of the tenant waiting", "queue"), "\n")
	if short[0] != list[0] || !strings.HasPrefix(short[1], fast) {
		t.Errorf("dvt queue prints %q, want what dvt queue list prints: %q", short, list)
	}
	ask("dev-viewer", 2, "dvt queue --help", "queue", "lst")

	ask("dev-engineer", 0, "to read the settings of the quotas. Who can: dev-admin.", "quota", "show")
	ask("dev-engineer", 3, "", "quota", "show", "-o", "json")
	document := ask("dev-admin", 0, "version 0, tier default", "quota", "show")
	same := file("same.yaml", document) // set must accept the output of show
	ask("dev-admin", 0, "version 1 is in force", "quota", "set", same, "--expected-version", "0", "--reason", "none")
	less := file("less.yaml", "tenant: {startRunPerMinute: 0}\nprojects: [{projectId: shop, limits: {maxActive: "+
		"3}}]\nstrategy: REJECT\n")
	out := ask("dev-admin", 0, "version 2 is in force", "quota", "set", less, "--expected-version", "1", "--reason",
		"freeze")
	for _, line := range []string{"- starts per minute of the tenant: the tier's 1",
		"+ starts per minute of the tenant: 0", "+ active runs of project shop: 3",
		"+ runs over a limit are refused"} {
		if !strings.Contains(out, line) {
			t.Errorf("want the line %q in\n%s", line, out)
		}
	}
	if strings.Contains(out, "weight") {
		t.Errorf("want no line about a weight that nobody set in\n%s", out)
	}
	ask("dev-admin", 3, "QUOTA_MOVED", "quota", "set", less, "--expected-version", "1", "--reason", "late")
	ask("dev-admin", 2, "settings.tenant.startRunPerMinute", "quota", "set", file("more.yaml",
		"tenant: {startRunPerMinute: 2}"), "--expected-version", "2", "--reason", "more")
	ask("dev-admin", 2, `it has no setting "tenants"; its settings are tenant, startRunPerMinute`, "quota", "set",
		file("odd.yaml", "tenants: {}"), "--expected-version", "2",
		"--reason", "odd")
	ask("dev-admin", 0, "strategy: REJECT", "quota", "show")
	ask("dev-admin", 0, "+ starts per minute of the tenant: 0", "quota", "history")
}

func TestPolicySet_WarnsWhatTheChangeTakesAway(t *testing.T) {
	address, _ := serve(t)
	file := filepath.Join(t.TempDir(), "policy.yaml")
	doc := "grants: [{principal: dev-admin, role: ADMIN}, {principal: dev-planner, role: PLANNER}]\n" +
		"approvals: [{projectId: shop, environmentId: prod, required: 2}]\n"
	if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	out, status, err := dvt(t, address, "dev-admin", "policy", "set", file, "--expected-version", "0", "--reason", "test")
	if status != 0 || err != nil {
		t.Fatalf("status %d and error %v, want a new version:\n%s", status, err, out)
	}
	for _, line := range []string{"+ approvals needed in shop/prod: 2", "lose a right",
		"Warning: 2 approvals are required in shop / prod, but only dev-planner can approve there, so no run can start."} {
		if !strings.Contains(out, line) {
			t.Errorf("want %q in\n%s", line, out)
		}
	}
}
