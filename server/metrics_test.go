package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/slo"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
)

// scrape is the page /metrics of one process, before and after the runs of a test.
type scrape struct{ before, after string }

// metered is the kinds of processes of dvt, really started: their addresses of metrics.
type metered struct {
	addresses map[string]string
	pages     map[string]scrape
	runs      []string
}

// startMetered starts an installation of a server, a control worker and a data worker, and a `dvt dev`, runs the same
// plans on both, and scrapes each process before and after.
func startMetered(t *testing.T) *metered {
	t.Helper()
	dsn, redis, engine := testserver.Postgres(t), testserver.Redis(t), testserver.TemporalAlone(t)
	m := &metered{addresses: map[string]string{}, pages: map[string]scrape{}}
	for _, kind := range []string{"server", "control worker", "data worker", "dvt dev"} {
		m.addresses[kind] = testserver.FreeAddress(t)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "dvt.yaml")
	must(t, os.WriteFile(config, fmt.Appendf(nil, `
store: %s
redis: redis://%s/0
temporal: %s
temporal-namespace: %s
artifacts: file://%s/artifacts?create_dir=true&no_tmp_dir=true
quotas: {tiers: {default: {startRunPerMinute: 6000, maxActive: 1, maxQueueDepth: 2}}}
accounts:
  - {id: ada, tenant: acme, tokenSha256: %s, grants: [{role: ADMIN, project: "*", environment: "*"}]}
  - {id: steps-1, worker: true, serves: [acme], tokenSha256: %s}
`, dsn, redis.Addr, engine.Addr, engine.Namespace, dir, tokenHash(adaToken), tokenHash(workerToken)), 0o600))
	migrate := spawn(t, "dvt migrate", nil, "migrate", "--store", dsn)
	<-migrate.exited
	api, devAPI, data := testserver.FreeAddress(t), testserver.FreeAddress(t), dataDir(t)
	spawn(t, "server", nil, "server", "--config", config, "--listen", api, "--metrics-listen", m.addresses["server"])
	spawn(t, "control worker", nil, "worker", "--config", config, "--queues", "tq-control-dev", "--workspace",
		filepath.Join(dir, "control"), "--metrics-listen", m.addresses["control worker"])
	waitUntilReady(t, "http://"+api)
	spawn(t, "data worker", []string{"DVT_WORKER_TOKEN=" + workerToken}, "worker", "--queues", "tq-data-dev",
		"--temporal", engine.Addr, "--temporal-namespace", engine.Namespace, "--server", "http://"+api, "--workspace",
		filepath.Join(dir, "data"), "--metrics-listen", m.addresses["data worker"])
	spawn(t, "dvt dev", nil, "dev", "--listen", devAPI, "--data", data, "--no-sample", "--metrics-listen",
		m.addresses["dvt dev"])
	before := m.scrapeAll(t)
	m.use(t, client.New("http://"+api, adaToken), "http://"+api, true)
	m.use(t, client.New("http://"+devAPI, devToken(t, data, "dev-engineer")), "http://"+devAPI, false)
	time.Sleep(12 * time.Second) // gauges of queues and quotas are collected every 10 s
	for kind, page := range m.scrapeAll(t) {
		m.pages[kind] = scrape{before[kind], page}
	}
	return m
}

// scrapeAll waits until every process serves its metrics, and returns their pages by the kind of the process.
func (m *metered) scrapeAll(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for kind, address := range m.addresses {
		waitUntil(t, kind+" serves its metrics", time.Minute, func() bool {
			res, err := http.Get("http://" + address + "/readyz")
			if err != nil {
				return false
			}
			_ = res.Body.Close()
			out[kind] = get(t, "http://"+address+"/metrics").body
			return strings.Contains(out[kind], "go_goroutines") &&
				(!strings.Contains(kind, "worker") || strings.Contains(out[kind], "worker_slots{"))
		})
	}
	return out
}

// use runs a plan that succeeds, one that fails and one that is paused and resumed. With waiting it also starts runs
// that wait for a slot and one that is refused.
func (m *metered) use(t *testing.T, c *client.Client, base string, waiting bool) {
	t.Helper()
	nap := `{"stepId":"nap","type":"SLEEP","inputs":{"ms":3000},"dependsOn":[],"timeout":"1m"}`
	good := start(t, c, "good", stepsPlan("good", nap,
		`{"stepId":"noop","type":"NOOP","inputs":{},"dependsOn":["nap"],"timeout":"1m"}`,
		`{"stepId":"true","type":"COMMAND","inputs":{"argv":["true"]},"dependsOn":["noop"],"timeout":"1m"}`))
	signal := func(id string, in client.SignalInput) {
		_, err := client.SignalRun(t.Context(), c, client.SignalRunInput{RunId: good, SignalId: id, Signal: in})
		must(t, err)
	}
	waitUntil(t, "the run is RUNNING, so that it takes signals", time.Minute, func() bool {
		out, err := client.ShowRun(t.Context(), c, good, nil)
		return err == nil && out.Run != nil && out.Run.StatusRaw == string(run.Running)
	})
	why := "test"
	signal("pause-1", client.SignalInput{Pause: &client.PauseInput{Reason: &why}})
	signal("resume-1", client.SignalInput{Resume: &client.ResumeInput{Reason: &why}})
	ids := []string{good}
	ids = append(ids, start(t, c, "bad", stepsPlan("bad",
		`{"stepId":"false","type":"COMMAND","inputs":{"argv":["false"]},"dependsOn":[],"timeout":"1m"}`)))
	if waiting {
		ids = append(ids, start(t, c, "late", stepsPlan("late", nap)))
		raw := json.RawMessage(stepsPlan("refused", nap))
		if _, err := client.StartRun(t.Context(), c, client.StartRunInput{
			Plan: client.PlanInput{Inline: &raw}, RunRequestId: "refused", ProjectId: "shop", EnvironmentId: "dev",
		}); err == nil {
			t.Errorf("a run beyond the queue of %s was accepted", base)
		}
	}
	m.runs = append(m.runs, ids...)
	for _, id := range ids {
		waitForEnd(t, c, id, time.Minute)
	}
}

// kinds are the kinds of processes in the table.
var kinds = map[string]slo.Process{"dvt dev": slo.Dev, "server": slo.Server, "control worker": slo.ControlWorker,
	"data worker": slo.DataWorker}

// served is a metric as a page shows it.
type served struct {
	kind   string
	labels map[string]bool
}

var (
	typeLine  = regexp.MustCompile(`^# TYPE (\S+) (\S+)$`)
	labelName = regexp.MustCompile(`([A-Za-z_]+)="`)
)

// metricsOf returns the metrics of a page but for those of the Go runtime and of the process.
func metricsOf(page string) map[string]served {
	out, name := map[string]served{}, ""
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if m := typeLine.FindStringSubmatch(line); m != nil {
			if name = m[1]; strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
				name = ""
				continue
			}
			out[name] = served{m[2], map[string]bool{}}
		} else if name != "" && !strings.HasPrefix(line, "#") {
			for _, l := range labelName.FindAllStringSubmatch(line, -1) {
				if l[1] != "le" {
					out[name].labels[l[1]] = true
				}
			}
		}
	}
	return out
}

// Every process serves the metrics of the table that are for its kind, and no other. After runs, every query of every
// dashboard returns data.
// contract: H04
func TestMetrics_AreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	m := startMetered(t)
	table := map[string]slo.Metric{}
	for _, x := range slo.Metrics() {
		table[x.Name] = x
	}
	for kind, process := range kinds {
		page := m.pages[kind].after
		found := metricsOf(page)
		for name, got := range found {
			x, known := table[name]
			switch {
			case !known:
				t.Errorf("the %s serves %s, which the table lacks", kind, name)
			case x.On&process == 0:
				t.Errorf("the %s serves %s, which by the table only these do: %s", kind, name, x.On)
			case x.Type != got.kind:
				t.Errorf("%s is a %s, by the table a %s", name, got.kind, x.Type)
			default:
				want := slices.Sorted(slices.Values(x.Labels))
				if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got.labels)), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("labels of %s of the %s (-table +page):\n%s", name, kind, diff)
				}
			}
		}
		for _, x := range slo.Metrics() {
			if _, ok := found[x.Name]; !ok && x.On&process != 0 && !x.Rare {
				t.Errorf("the %s does not serve %s", kind, x.Name)
			}
		}
		problems, err := promlint.New(strings.NewReader(page)).Lint()
		must(t, err)
		for _, p := range problems {
			if table[p.Metric].Instead == "" {
				t.Errorf("the %s: %s: %s", kind, p.Metric, p.Text)
			}
		}
		for _, id := range m.runs {
			if strings.Contains(page, id) {
				t.Errorf("the %s has the run %s in a label, whose number is not bounded", kind, id)
			}
		}
	}
	m.expectData(t)
	m.expectExemplars(t)
}

// expectData evaluates the recording rules and the queries of all dashboards on the pages.
func (m *metered) expectData(t *testing.T) {
	t.Helper()
	var queries []string
	for _, r := range slo.Recordings() {
		if strings.HasSuffix(r.Record, "rate1h") {
			queries = append(queries, r.Expr)
		}
	}
	for _, d := range slo.Dashboards() {
		for _, p := range d.Panels {
			for _, q := range p.Queries {
				queries = append(queries, strings.ReplaceAll(q.Expr, "$tenant", ".*"))
			}
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "queries")
	must(t, os.WriteFile(file, []byte(strings.Join(queries, "\n")), 0o600))
	args := []string{"query", filepath.Join(root(t), slo.RulesFile), file}
	for kind, page := range m.pages {
		job := "dvt-" + strings.ReplaceAll(strings.TrimPrefix(kind, "dvt "), " ", "-")
		before, after := filepath.Join(dir, job+".before"), filepath.Join(dir, job+".after")
		must(t, os.WriteFile(before, []byte(page.before), 0o600))
		must(t, os.WriteFile(after, []byte(page.after), 0o600))
		args = append(args, job+"="+before+","+after)
	}
	program := filepath.Join(root(t), ".tools", "bin", "promcheck")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("promcheck is missing: run tools/prepare promcheck: %v", err)
	}
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	want := fmt.Sprintf("%d queries, 0 without data", len(queries))
	if err != nil || !strings.Contains(string(out), want) {
		t.Errorf("promcheck query: %v\n%s\nwant %s", err, out, want)
	}
}

// expectExemplars asks for OpenMetrics and finds a run beside a slow bucket.
func (m *metered) expectExemplars(t *testing.T) {
	t.Helper()
	for kind, metric := range map[string]string{"control worker": "engine_signal_latency_seconds",
		"data worker": "engine_execution_duration_seconds", "server": "engine_queue_wait_seconds"} {
		page := get(t, "http://"+m.addresses[kind]+"/metrics", "Accept: application/openmetrics-text; version=1.0.0").body
		if !regexp.MustCompile(metric+`_bucket\{.*# \{run_id="[0-9a-f-]+"\}`).MatchString(page) ||
			!strings.HasSuffix(page, "# EOF\n") {
			t.Errorf("the %s has no exemplar of %s in OpenMetrics:\n%.400s", kind, metric, page)
		}
	}
}
