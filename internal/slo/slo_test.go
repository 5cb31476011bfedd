package slo_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/dvt-engine/dvt/internal/slo"
)

const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// contracted returns the part of the data dictionary about metrics and alerts.
func contracted(t *testing.T) (metrics, alerts string) {
	t.Helper()
	_, part, _ := strings.Cut(read(t, "docs/contract/data-dictionary.md"), "### DD-30 ")
	part, _, _ = strings.Cut(strings.Join(strings.Fields(part), " "), "### ")
	metrics, alerts, ok := strings.Cut(part, "Alerts: ")
	if !ok {
		t.Fatal("the data dictionary has no DD-30 with metrics and alerts")
	}
	return metrics, alerts
}

// Plugins are not built yet. `up` is Prometheus' own, and errors_total is a word of the seeds for
// engine_errors_total.
// contract: H04
func TestMetrics_HaveTheNamesAndLabelsOfTheContract(t *testing.T) {
	t.Parallel()
	text, _ := contracted(t)
	_, text, _ = strings.Cut(text, "Metrics: ")
	text = strings.ReplaceAll(text, "engine.backpressure.queued/rejected/delayed{tenant}",
		"engine_backpressure_queued{tenant}; engine_backpressure_rejected{tenant}; engine_backpressure_delayed{tenant}")
	known, found := map[string][]string{}, 0
	for _, m := range slo.Metrics() {
		known[m.Name] = m.Labels
	}
	for _, entry := range strings.Split(strings.TrimRight(text, ". "), ";") {
		name, labels, _ := strings.Cut(strings.Trim(strings.TrimSpace(entry), "`}"), "{")
		if name == "up" || name == "errors_total" || strings.HasPrefix(name, "engine_plugin_") {
			continue
		}
		found++
		got, ok := known[name]
		if !ok {
			t.Errorf("the table lacks %s", name)
			continue
		}
		if want := strings.FieldsFunc(labels, func(r rune) bool { return r == ',' }); labels != "" &&
			!slices.Equal(got, want) {
			t.Errorf("%s has the labels %v, want %v", name, got, want)
		}
	}
	if found < 28 {
		t.Errorf("%d names of the contract were read, want at least 28", found)
	}
}

// contract: H04
func TestAlerts_HaveTheNamesOfTheContract(t *testing.T) {
	t.Parallel()
	_, text := contracted(t)
	// The contract describes these alerts without a name.
	described := map[string]string{"history bytes": "WorkflowHistoryLarge",
		"steps since continue": "WorkflowStepsSinceContinue", "signal rate": "SignalRateHigh",
		"write timeouts": "StateStoreWriteTimeouts", "buffered ratio": "StateStoreEventsBuffered",
		"run_queue growth/leases": "RunQueueGrowing"}
	severity := map[string]string{"P1": slo.Critical, "P2": slo.Warning, "P3": slo.Info, "warning": slo.Warning,
		"critical": slo.Critical, "": ""}
	found := 0
	for _, entry := range strings.Split(strings.TrimRight(text, ". "), ",") {
		name, level, _ := strings.Cut(strings.TrimSpace(entry), " (")
		if described[name] != "" {
			name = described[name]
		}
		found++
		i := slices.IndexFunc(slo.Alerts(), func(a slo.Alert) bool { return a.Name == name })
		if i < 0 {
			t.Errorf("no alert is called %s", name)
			continue
		}
		if want := severity[strings.TrimSuffix(level, ")")]; want != "" && slo.Alerts()[i].Severity != want {
			t.Errorf("%s has the severity %s, want %s", name, slo.Alerts()[i].Severity, want)
		}
	}
	if found < 15 {
		t.Errorf("%d alerts of the contract were read, want at least 15", found)
	}
}

// The linter of promtool finds nothing but the names that the contract fixes, and for each of these there is a
// conventional metric.
func TestMetrics_AreCleanButForNamesOfTheContract(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	var want []string
	names := map[string]bool{}
	for _, m := range slo.Metrics() {
		if names[m.Name] {
			t.Errorf("%s stands twice", m.Name)
		}
		names[m.Name] = true
		var labels []string
		for _, name := range m.Labels {
			labels = append(labels, name+`="x"`)
		}
		suffix := map[string]string{slo.Histogram: "_count"}[m.Type]
		fmt.Fprintf(&page, "# HELP %s %s\n# TYPE %s %s\n%s%s{%s} 1\n", m.Name, m.Meaning, m.Name, m.Type, m.Name, suffix,
			strings.Join(labels, ","))
		if m.Instead != "" {
			want = append(want, m.Name)
		}
	}
	for _, m := range slo.Metrics() {
		if m.Instead != "" && !names[m.Instead] {
			t.Errorf("%s stands in for %s and is not in the table", m.Instead, m.Name)
		}
	}
	problems, err := promlint.New(strings.NewReader(page.String())).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if !slices.Contains(want, p.Metric) {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// Every expression reads only metrics that exist.
func TestExpressions_ReadMetricsOfTheTable(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"up": true}
	for _, m := range slo.Metrics() {
		known[m.Name] = true
		if m.Type == slo.Histogram {
			known[m.Name+"_bucket"], known[m.Name+"_count"], known[m.Name+"_sum"] = true, true, true
		}
	}
	read := map[string]bool{}
	check := func(where, expr string) {
		expr = regexp.MustCompile(`"[^"]*"|\{[^}]*\}`).ReplaceAllString(expr, " ")
		expr = regexp.MustCompile(`(?:by|on|group_left) \([^)]*\)`).ReplaceAllString(expr, " ")
		for _, name := range regexp.MustCompile(`[a-z][a-z0-9_]*_[a-z0-9_]+|\bup\b`).FindAllString(expr, -1) {
			switch {
			case known[name]:
				read[name] = true
			case slices.Contains([]string{"histogram_quantile", "min_over_time", "avg_over_time"}, name),
				strings.Contains(expr, "slo:"): // records are checked by their own expressions
			default:
				t.Errorf("%s reads %s, which no process serves", where, name)
			}
		}
	}
	for _, r := range slo.Recordings() {
		check(r.Record, r.Expr)
	}
	for _, a := range slo.Alerts() {
		check(a.Name, a.Expr)
	}
	for _, d := range slo.Dashboards() {
		for _, p := range d.Panels {
			for _, q := range p.Queries {
				check(d.File+" "+p.Title, q.Expr)
			}
		}
	}
	if len(read) < 40 {
		t.Errorf("only %d metrics are read by any rule or dashboard, want at least 40", len(read))
	}
}

// An alert in the night links a page that exists.
func TestAlerts_LinkSectionsOfOperations(t *testing.T) {
	t.Parallel()
	sections := map[string]bool{}
	strip := regexp.MustCompile(`[^a-z0-9 _-]`)
	for line := range strings.Lines(read(t, slo.Operations)) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			slug := strip.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			sections[strings.ReplaceAll(slug, " ", "-")] = true
		}
	}
	for _, a := range slo.Alerts() {
		if !sections[a.Section] {
			t.Errorf("%s links #%s, which %s does not have", a.Name, a.Section, slo.Operations)
		}
	}
}

// Somebody who is woken finds what to do: each alert has a runbook, and the runbook names the alert.
func TestAlerts_LinkRunbooksThatNameThem(t *testing.T) {
	t.Parallel()
	parts := []string{"Symptom", "Check", "Decide", "Do", "Verify", "Wake"}
	pages := map[string]string{}
	for _, name := range slo.Runbooks() {
		pages[name] = read(t, filepath.Join(slo.RunbooksDir, name+".md"))
		var got []string
		for _, found := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(pages[name], -1) {
			got = append(got, found[1])
		}
		if diff := cmp.Diff(parts, got); diff != "" {
			t.Errorf("the parts of %s (-want +got):\n%s", name, diff)
		}
	}
	for _, a := range slo.Alerts() {
		symptom, _, _ := strings.Cut(pages[a.Playbook], "\n## Check")
		if !strings.Contains(symptom, "`"+a.Name+"`") {
			t.Errorf("the symptoms of %s.md lack `%s`, which links it", a.Playbook, a.Name)
		}
	}
}

// promcheck runs the program that evaluates rules by the engine of Prometheus.
func promcheck(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(root, ".tools/bin/promcheck"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("promcheck is missing: run tools/prepare promcheck: %v", err)
	}
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	return string(out), err
}

// Each alert has one case in which it fires with its labels, and one in which it does not: promcheck counts both.
func TestRules_FireAndKeepSilent(t *testing.T) {
	t.Parallel()
	out, err := promcheck(t, "test", filepath.Join(root, slo.RulesFile), filepath.Join(root, slo.TestsFile))
	if want := fmt.Sprintf("%d tests of %d alerts, 0 failed\n", 2*len(slo.Alerts()), len(slo.Alerts())); err != nil ||
		out != want {
		t.Errorf("promcheck test: %v\n%s\nwant %s", err, out, want)
	}
}

// The check above is worth nothing if it accepts rules that never fire.
func TestRules_AnAlertThatNeverFiresIsFound(t *testing.T) {
	t.Parallel()
	rules := strings.Replace(read(t, slo.RulesFile), "max(run_queue_pending) > 10", "max(run_queue_pending) > 1000", 1)
	broken := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(broken, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := promcheck(t, "test", broken, filepath.Join(root, slo.TestsFile))
	if err == nil || !strings.Contains(out, "RunQueueGrowing fires: RunQueueGrowing at 30m fires , want ") {
		t.Errorf("promcheck test of a rule that never fires: %v\n%s", err, out)
	}
}

// `go generate ./internal/slo` gives these files.
func TestGeneratedFiles_AreCurrent(t *testing.T) {
	t.Parallel()
	page := read(t, slo.Operations)
	want, err := slo.Replace(page, slo.MetricsFrom, slo.MetricsTo, slo.MetricsTable())
	if err != nil {
		t.Fatal(err)
	}
	if want, err = slo.Replace(want, slo.ObjectivesFrom, slo.ObjectivesTo, slo.ObjectivesTable()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, page); diff != "" {
		t.Errorf("%s (-want +got):\n%s", slo.Operations, diff)
	}
	rules, err := slo.Rules()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(rules), read(t, slo.RulesFile)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", slo.RulesFile, diff)
	}
}
