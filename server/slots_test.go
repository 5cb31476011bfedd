package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/egress"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// silentHost accepts requests and does not answer them until the test opens it.
type silentHost struct {
	*httptest.Server
	waiting atomic.Int32 // requests that wait for an answer
	gaveUp  atomic.Int32 // requests whose callers went away
	open    func()
}

func newSilentHost(t *testing.T) *silentHost {
	t.Helper()
	opened := make(chan struct{})
	h := &silentHost{open: sync.OnceFunc(func() { close(opened) })}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		h.waiting.Add(1)
		defer h.waiting.Add(-1)
		select {
		case <-opened:
		case <-r.Context().Done():
			h.gaveUp.Add(1)
		}
	}))
	t.Cleanup(func() { h.open(); h.Close() })
	return h
}

// runDataWorker runs a data worker with the real executors in this process.
func (c *controlWorker) runDataWorker(t *testing.T, j engine.Journal, w temporal.WorkerConfig) {
	t.Helper()
	frontend, err := temporal.Dial(c.frontend.Addr, c.frontend.Namespace, slog.New(slog.DiscardHandler))
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	guard, err := egress.New(egress.Settings{AllowPrivate: true}, nil)
	must(t, err)
	r := &executor.Runner{
		Journal: j, WorkspaceRoot: filepath.Join(c.dir, "data"), Executors: executor.New(executor.Config{Egress: guard}),
	}
	w.Namespace, w.StopTimeout = c.frontend.Namespace, time.Second
	go func() { ended <- temporal.Run(ctx, frontend, w, j, r) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the data worker ended with %v", err)
		}
		frontend.Close()
	})
}

// startFlood starts a run of acme with this number of calls to a host.
func (c *controlWorker) startFlood(t *testing.T, calls int, host *silentHost) (runID string) {
	t.Helper()
	var steps []string
	for i := range calls {
		steps = append(steps, fmt.Sprintf(
			`{"stepId":"call%02d","type":"HTTP_NOTIFY","inputs":{"url":%q},"dependsOn":[],"timeout":"5m"}`, i, host.URL))
	}
	return c.start(t, adaToken, "dev", runs.StartRun{Inline: stepsPlan("flood", steps...)})
}

// expectOtherTenantCompletes starts a run of globex with one step and waits until it is COMPLETED.
func (c *controlWorker) expectOtherTenantCompletes(t *testing.T, step string) {
	t.Helper()
	doc := strings.Replace(string(stepsPlan("other", step)), `"acme"`, `"globex"`, 1)
	if st := c.waitForEnd(t, c.start(t, graceToken, "dev",
		runs.StartRun{Inline: []byte(doc)})); st.Status != run.Completed {
		t.Errorf("the run of the other tenant ended %s, want COMPLETED", st.Status)
	}
}

// Fifty calls of one tenant to a host that does not answer occupy only the slots of HTTP_NOTIFY.
func TestSlots_AHostThatHangsHoldsUpNoCommandOfAnotherTenant(t *testing.T) {
	t.Parallel()
	var journal engine.Journal
	c := startControlWorker(t, func(j engine.Journal) engine.Journal { journal = j; return j }, "tq-control-dev")
	c.runDataWorker(t, journal, temporal.WorkerConfig{Data: []string{"tq-data-dev"}})
	host := newSilentHost(t)
	flood := c.startFlood(t, 50, host)
	waitUntil(t, "the flood holds all slots of HTTP_NOTIFY", time.Minute, func() bool { return host.waiting.Load() >= 4 })
	c.expectOtherTenantCompletes(t, `{"stepId":"s","type":"COMMAND","inputs":{"argv":["true"]},"timeout":"1m"}`)
	if held, gaveUp := host.waiting.Load(), host.gaveUp.Load(); held < 4 || gaveUp > 0 {
		t.Errorf("when the COMMAND ended %d calls hung and %d were given up, want 4 or more and none", held, gaveUp)
	}
	host.open()
	if st := c.waitForEnd(t, flood); st.Status != run.Completed {
		t.Errorf("the flood ended %s, want COMPLETED", st.Status)
	}
}

// When one tenant's steps occupy its whole share of slots-by-tenant, another tenant's steps of the same type still run.
func TestSlots_AFloodLeavesSlotsOfItsTypeToAnotherTenant(t *testing.T) {
	t.Parallel()
	var journal engine.Journal
	c := startControlWorker(t, func(j engine.Journal) engine.Journal { journal = j; return j }, "tq-control-dev")
	c.runDataWorker(t, journal, temporal.WorkerConfig{Data: []string{"tq-data-dev"}, Limits: temporal.Limits{
		Slots: map[plan.Workload]int{plan.HTTPWorkload: 4}, TenantShare: 50,
	}})
	host, answering := newSilentHost(t), newReceiver(t)
	flood := c.startFlood(t, 12, host)
	waitUntil(t, "the flood holds half of the four slots", time.Minute, func() bool { return host.waiting.Load() == 2 })
	c.expectOtherTenantCompletes(t, fmt.Sprintf(`{"stepId":"s","type":"HTTP_NOTIFY","inputs":{"url":%q},"timeout":"1m"}`,
		answering.URL))
	if held, gaveUp := host.waiting.Load(), host.gaveUp.Load(); held != 2 || gaveUp > 0 {
		t.Errorf("when the other call ended %d calls hung and %d were given up, want 2 and none", held, gaveUp)
	}
	host.open()
	waitUntil(t, "the flood completes", 4*time.Minute, func() bool {
		l, err := c.store.Load(t.Context(), flood)
		return err == nil && l.State.Status == run.Completed
	})
}

// A data worker serves its own metrics on metrics-listen, and not the API.
func TestWorker_ServesItsMetricsOnLoopback(t *testing.T) {
	t.Parallel()
	frontend, address := testserver.TemporalAlone(t), testserver.FreeAddress(t)
	spawn(t, "data worker", []string{"DVT_WORKER_TOKEN=" + workerToken}, "worker", "--queues", "tq-data-dev",
		"--temporal", frontend.Addr, "--temporal-namespace", frontend.Namespace, "--server", "http://127.0.0.1:1",
		"--workspace", t.TempDir(),
		"--metrics-listen", address, "--slots-by-type", "HTTP_NOTIFY=7")
	var page string
	waitUntil(t, "the worker serves its metrics", time.Minute, func() bool {
		res, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		page = string(body)
		// The worker registers them one after the other while it starts.
		return err == nil && strings.Contains(page, "worker_slots{") && strings.Contains(page, "worker_tenants_at_share")
	})
	for _, want := range []string{
		`worker_slots{type="COMMAND"} 4`, `worker_slots{type="DBT"} 4`, `worker_slots{type="HTTP_NOTIFY"} 7`,
		`worker_slots_in_use{type="HTTP_NOTIFY"} 0`,
		`worker_declined_total{reason="tenant_share",type="COMMAND"} 0`, "worker_tenants_at_share 0", "go_goroutines ",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the metrics do not say %s:\n%s", want, page)
		}
	}
	if status := get(t, "http://"+address+"/graphql").StatusCode; status != http.StatusNotFound {
		t.Errorf("/graphql of the listener of metrics answers %d, want 404", status)
	}
}
