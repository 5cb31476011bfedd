package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server"
	"github.com/dvt-engine/dvt/server/config/configtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// graceToken is the token of an Engineer in globex.
const graceToken = "grace-has-one-of-her-own"

// controlRouter sends every step and every hook to the control queue, like a plan that was stored before plans were
// checked for planes.
type controlRouter struct {
	engine.Journal
	queue string
}

func (j controlRouter) Skeleton(ctx context.Context, runID string) (engine.Skeleton, error) {
	out, err := j.Journal.Skeleton(ctx, runID)
	if err != nil || out.Failure != nil {
		return out, err
	}
	var sk plan.Skeleton
	if err := sk.UnmarshalBinary(out.Binary); err != nil {
		return out, err
	}
	for i := range sk.Steps {
		sk.Steps[i].TaskQueue = j.queue
		if sk.Steps[i].CompensationQueue != "" {
			sk.Steps[i].CompensationQueue = j.queue
		}
	}
	out.Binary, err = sk.MarshalBinary()
	return out, err
}

// controlWorker is an installation on SQLite with a control worker in this process and without a data worker.
type controlWorker struct {
	control  *usecases.UseCases
	people   *authz.Directory
	store    store.Store
	frontend *testserver.TemporalServer
	dir      string
}

// startControlWorker starts the installation with a worker of the control queues. journal wraps the Journal of the
// worker.
func startControlWorker(t *testing.T, journal func(engine.Journal) engine.Journal, queues ...string) *controlWorker {
	t.Helper()
	frontend, redis := testserver.TemporalAlone(t), testserver.Redis(t)
	c := &controlWorker{dir: t.TempDir(), frontend: frontend}
	settings := fmt.Sprintf(`
store: sqlite:%[1]s/dvt.db
redis: redis://%[2]s/0
temporal: %[3]s
temporal-namespace: %[4]s
artifacts: file://%[1]s/artifacts?create_dir=true&no_tmp_dir=true
workspace: %[1]s/workspace
ticket-keys: ["k1:MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA="]
plan-roots: [%[1]s]
isolation-tenants: [initech]
accounts:
  - {id: ada, tenant: acme, tokenSha256: %[5]s, grants: [{role: ENGINEER, project: shop, environment: "*"}]}
  - {id: mallory, tenant: initech, tokenSha256: %[6]s, grants: [{role: ENGINEER, project: shop, environment: "*"}]}
  - {id: grace, tenant: globex, tokenSha256: %[7]s, grants: [{role: ENGINEER, project: shop, environment: "*"}]}
`, c.dir, redis.Addr, frontend.Addr, frontend.Namespace, tokenHash(adaToken), tokenHash(malloryToken),
		tokenHash(graceToken))
	cfg, err := configtest.Load(t, false, settings)
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		w := temporal.WorkerConfig{Namespace: frontend.Namespace, Control: queues, StopTimeout: time.Second}
		ended <- server.ControlInside(ctx, cfg, w, slog.New(slog.DiscardHandler), journal,
			func(s *usecases.UseCases, d *authz.Directory) {
				c.control, c.people = s, d
				close(ready)
			})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the control worker ended with %v", err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("the control worker ended at its start: %v", err)
	}
	c.store, err = sqlite.Open(t.Context(), filepath.Join(c.dir, "dvt.db"), sqlite.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, c.store.Close()) })
	return c
}

func (c *controlWorker) start(t *testing.T, token, environment string, in runs.StartRun) (runID string) {
	t.Helper()
	who, err := c.people.Authenticate(token)
	must(t, err)
	in.RequestID, in.ProjectID, in.EnvironmentID = "r", "shop", environment
	started, err := c.control.StartRun(t.Context(), who, in)
	must(t, err)
	return started.View.Run.RunID
}

func (c *controlWorker) waitForEnd(t *testing.T, runID string) run.State {
	t.Helper()
	var st run.State
	waitUntil(t, "the run ends", time.Minute, func() bool {
		l, err := c.store.Load(t.Context(), runID)
		st = l.State
		return err == nil && st.Status.Terminal()
	})
	return st
}

// contract: T203
func TestControlWorker_RunsNoProgramOfAPlan(t *testing.T) {
	t.Parallel()
	c := startControlWorker(t, func(j engine.Journal) engine.Journal { return controlRouter{j, "tq-control-dev"} },
		"tq-control-dev")
	marks := func(name string) string { return filepath.Join(c.dir, name) }
	touch := func(name string) string { return fmt.Sprintf(`{"argv":["/bin/sh","-c","echo > %s"]}`, marks(name)) }
	steps := []string{
		fmt.Sprintf(`{"stepId":"a","type":"NOOP","inputs":{},"timeout":"1m","dependsOn":[],"compensation":{"operation":"COMMAND","input":%s}}`, touch("hook")),
		fmt.Sprintf(`{"stepId":"command","type":"COMMAND","inputs":%s,"timeout":"1m","dependsOn":["a"],"retry":{"maxAttempts":1}}`, touch("step")),
		`{"stepId":"http","type":"HTTP_NOTIFY","inputs":{"url":"http://127.0.0.1:1"},"timeout":"1m","dependsOn":["a"],"retry":{"maxAttempts":1}}`,
		`{"stepId":"dbt","type":"DBT_RUN","inputs":{"projectDir":"."},"timeout":"1m","dependsOn":["a"],"retry":{"maxAttempts":1}}`,
	}
	st := c.waitForEnd(t, c.start(t, adaToken, "dev", runs.StartRun{Inline: stepsPlan("planes", steps...)}))
	if st.Status != run.Failed {
		t.Fatalf("the run ended %s, want FAILED", st.Status)
	}
	failed := 0
	for _, s := range st.Steps {
		switch {
		case s.StepID == "a":
			if s.Status != run.StepSuccess {
				t.Errorf("the step NOOP is %s, want SUCCESS", s.Status)
			}
		case s.Status == run.StepFailed:
			failed++
			if e := s.Attempts[0].Error; e == nil || e.Code != executor.CodeTypeUnsupported {
				t.Errorf("%s failed with %+v, want %s", s.StepID, e, executor.CodeTypeUnsupported)
			}
		case s.Status != run.StepSkipped: // fail-fast may skip the others before their start
			t.Errorf("the step %s is %s, want FAILED or SKIPPED", s.StepID, s.Status)
		}
	}
	if failed == 0 {
		t.Error("no step failed, want one or more that the control worker refuses")
	}
	for _, name := range []string{"step", "hook"} {
		if _, err := os.Stat(marks(name)); err == nil {
			t.Errorf("the program of the %s ran on the control worker", name)
		}
	}
	events, err := c.store.Events(t.Context(), st.RunID, 0, store.MaxPage)
	must(t, err)
	if log, _ := json.Marshal(events); !strings.Contains(string(log), "StepCompensationFailed") {
		t.Errorf("the log has no StepCompensationFailed, want a refused hook: %s", log)
	}
}

// A plan by reference is not checked before a control worker fetches it.
//
// contract: T203, T144
func TestControlWorker_RefusesAPlanWithACommandOnItsQueue(t *testing.T) {
	t.Parallel()
	c := startControlWorker(t, func(j engine.Journal) engine.Journal { return j }, "tq-control-dev")
	doc := stepsPlan("planes", `{"stepId":"s","type":"COMMAND","inputs":{"argv":["true"]},"timeout":"1m","dispatch":{"taskQueue":"tq-control-dev"}}`)
	must(t, os.WriteFile(filepath.Join(c.dir, "plan.json"), doc, 0o600))
	lenient, err := plan.Parse([]byte(strings.ReplaceAll(string(doc), "tq-control-dev", "tq-data-dev")),
		plan.DefaultQueues())
	must(t, err)
	ref := plan.RefOf(doc, lenient, "file://"+filepath.Join(c.dir, "plan.json"))
	st := c.waitForEnd(t, c.start(t, adaToken, "dev", runs.StartRun{Ref: &ref}))
	var got string
	if st.Failure != nil {
		got = st.Failure.Code
	}
	if diff := cmp.Diff(string(run.CodePlanInvalid), got); diff != "" || !strings.Contains(st.Failure.Message,
		"taskQueue") {
		t.Errorf("the run ended %s: %+v, want PLAN_INVALID about taskQueue", st.Status, st.Failure)
	}
}

// executionRecorder records the executions of data workers: the scopes and types of the steps, by queue.
type executionRecorder struct {
	mu         sync.Mutex
	executions map[string]map[string]bool
}

// executorFor returns the executor of a worker of one queue.
func (w *executionRecorder) executorFor(queue string) executor.Executor {
	return recordingExecutor{w, queue}
}

type recordingExecutor struct {
	*executionRecorder
	queue string
}

func (w recordingExecutor) Execute(_ context.Context, t executor.Task, _ executor.Host) (executor.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.executions[w.queue] == nil {
		w.executions[w.queue] = map[string]bool{}
	}
	w.executions[w.queue][fmt.Sprintf("%s/%s %s", t.Identity.TenantID, t.Identity.EnvironmentID, t.Step.Type)] = true
	return executor.Result{}, nil
}

// Two environments and an isolated tenant have separate workers.
//
// contract: E-13, T218
func TestQueues_StepsLandOnTheWorkersOfTheirEnvironmentAndTenant(t *testing.T) {
	t.Parallel()
	var journal engine.Journal
	c := startControlWorker(t, func(j engine.Journal) engine.Journal { journal = j; return j }, "tq-control-dev",
		"tq-control-prod")
	frontend, err := temporal.Dial(c.frontend.Addr, c.frontend.Namespace, slog.New(slog.DiscardHandler))
	must(t, err)
	t.Cleanup(frontend.Close)
	w := &executionRecorder{executions: map[string]map[string]bool{}}
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	t.Cleanup(func() { stop(); workers.Wait() })
	for _, queue := range []string{"tq-data-dev", "tq-data-prod", "tq-isolation-initech-prod"} {
		r := &executor.Runner{Journal: journal, WorkspaceRoot: filepath.Join(c.dir, queue),
			Executors: map[plan.StepType]executor.Executor{}}
		for _, kind := range []plan.StepType{plan.DBTRun, plan.Command, plan.HTTPNotify, plan.Noop} {
			r.Executors[kind] = w.executorFor(queue)
		}
		workers.Go(func() {
			cfg := temporal.WorkerConfig{Namespace: c.frontend.Namespace, Data: []string{queue}, StopTimeout: time.Second}
			if err := temporal.Run(ctx, frontend, cfg, journal, r); err != nil {
				t.Errorf("worker of %s: %v", queue, err)
			}
		})
	}
	begin := func(token, tenant, environment string) string {
		doc := stepsPlan("planes",
			`{"stepId":"dbt","type":"DBT_RUN","inputs":{"projectDir":"p"},"timeout":"1m"}`,
			`{"stepId":"command","type":"COMMAND","inputs":{"argv":["true"]},"timeout":"1m"}`,
			`{"stepId":"http","type":"HTTP_NOTIFY","inputs":{"url":"http://h"},"timeout":"1m"}`,
			`{"stepId":"noop","type":"NOOP","inputs":{},"timeout":"1m"}`,
		)
		scoped := strings.NewReplacer(`"acme"`, `"`+tenant+`"`, `"dev"`, `"`+environment+`"`).Replace(string(doc))
		return c.start(t, token, environment, runs.StartRun{Inline: []byte(scoped)})
	}
	// no worker serves their queues
	stranded := []string{begin(adaToken, "acme", "stage"), begin(malloryToken, "initech", "dev")}
	ids := map[string]string{
		begin(adaToken, "acme", "dev"): "tq-control-dev", begin(adaToken, "acme", "prod"): "tq-control-prod",
		begin(malloryToken, "initech", "prod"): "tq-control-prod",
	}
	for id, queue := range ids {
		if st := c.waitForEnd(t, id); st.Status != run.Completed {
			t.Errorf("the run of %s in %s ended %s, want COMPLETED: %+v", st.TenantID, st.EnvironmentID, st.Status, st.Failure)
		}
		r, err := c.store.Get(t.Context(), id)
		must(t, err)
		d, err := frontend.DescribeWorkflowExecution(t.Context(), temporal.WorkflowID(r.Identity), "")
		must(t, err)
		if got := d.GetExecutionConfig().GetTaskQueue().GetName(); got != queue {
			t.Errorf("the workflow of %s in %s is on %s, want %s", r.TenantID, r.EnvironmentID, got, queue)
		}
	}
	scope := func(name string) map[string]bool {
		return map[string]bool{name + " DBT_RUN": true, name + " COMMAND": true, name + " HTTP_NOTIFY": true}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(map[string]map[string]bool{
		"tq-data-dev": scope("acme/dev"), "tq-data-prod": scope("acme/prod"),
		"tq-isolation-initech-prod": scope("initech/prod"),
	}, w.executions); diff != "" {
		t.Errorf("executions by worker (-want +got):\n%s", diff)
	}
	for _, id := range stranded {
		l, err := c.store.Load(t.Context(), id)
		must(t, err)
		for _, s := range l.State.Steps {
			if s.Type != string(plan.Noop) && s.Status != run.StepPending {
				t.Errorf("%s of %s in %s is %s, although no worker serves its queue", s.StepID, l.State.TenantID,
					l.State.EnvironmentID, s.Status)
			}
		}
	}
}
