package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// bed is an installation of dvt on a Temporal dev server of its own. One worker in this process executes workflows and
// steps.
type bed struct {
	server   *testserver.TemporalServer
	postgres *testserver.PostgresServer // nil when the store is on SQLite
	store    bedStore
	logs     *artifact.Store
	client   client.Client
	engine   *temporal.Engine
	queues   plan.Queues
	runs     int
	stop     context.CancelFunc
	work     *errgroup.Group
}

type bedStore interface {
	store.Store
	Close() error
}

// bedOptions configure a bed.
type bedOptions struct {
	postgres  bool                                // use a store on PostgreSQL instead of SQLite in this process
	executors map[plan.StepType]executor.Executor // replace those of dvt
	dataSlots int                                 // concurrent steps of the data queue; default 4
}

// newBed starts the servers and the worker.
func newBed(ctx context.Context, r *rig.Rig, o bedOptions) (b *bed, err error) {
	b = &bed{queues: plan.Queues{Control: "tq-control-bench", Data: "tq-data-bench",
		Known: []string{"tq-control-bench", "tq-data-bench"}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.server, err = testserver.StartTemporal(); err != nil {
		return b, err
	}
	if err := b.openStore(ctx, r, o.postgres); err != nil {
		return b, err
	}
	if b.logs, err = artifact.Open(ctx, "mem://"); err != nil {
		return b, err
	}
	quiet := slog.New(slog.DiscardHandler)
	if b.client, err = temporal.Dial(b.server.Addr, b.server.Namespace, quiet); err != nil {
		return b, err
	}
	keys, err := newTicketKeys()
	if err != nil {
		return b, err
	}
	b.engine = temporal.New(b.client, b.server.Namespace, temporal.Config{Tickets: keys})
	journal := journal.New(journal.Config{
		Store: journal.On(b.store), Logs: b.logs, Blobs: b.logs, Queues: b.queues, MaxSteps: plan.MaxSteps,
		Fetch:   journal.NewFetcher(nil, nil),
		Tickets: keys,
	})
	all := executor.New(executor.Config{})
	for t, x := range o.executors {
		all[t] = x
	}
	runner := &executor.Runner{Journal: journal, Executors: all, WorkspaceRoot: filepath.Join(r.Dir, "workspaces"),
		ProjectRoot: r.Dir, Log: quiet}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop, b.work = stop, &errgroup.Group{}
	b.work.Go(func() error {
		return temporal.Run(working, b.client, temporal.WorkerConfig{
			Namespace: b.server.Namespace, Control: []string{b.queues.Control}, Data: []string{b.queues.Data},
			StopTimeout: time.Second,
			Tickets:     keys, DataConcurrency: o.dataSlots,
		}, journal, runner)
	})
	return b, nil
}

// openStore opens a new store.
func (b *bed) openStore(ctx context.Context, r *rig.Rig, onPostgres bool) error {
	if onPostgres {
		s, _, err := r.Store(ctx, rig.NativeFlush, 32)
		if err != nil {
			return err
		}
		b.store, b.postgres = s, r.Servers[rig.NativeFlush]
		return nil
	}
	r.Beds++
	s, err := sqlite.Open(ctx, filepath.Join(r.Dir, fmt.Sprintf("bed-%d.db", r.Beds)), sqlite.Options{})
	if err == nil {
		b.store = s
	}
	return err
}

// newTicketKeys returns random keys.
func newTicketKeys() (ticket.Keys, error) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return ticket.Keys{}, err
	}
	return ticket.ParseKeys([]string{"bench:" + base64.StdEncoding.EncodeToString(secret)})
}

// processes returns the process ids of the servers of the bed.
func (b *bed) processes() []int {
	ids := []int{b.server.PID()}
	if b.postgres != nil {
		ids = append(ids, b.postgres.PID())
	}
	return ids
}

func (b *bed) close() error {
	var errs []error
	if b.stop != nil {
		b.stop()
		errs = append(errs, b.work.Wait())
	}
	if b.client != nil {
		b.client.Close()
	}
	if b.logs != nil {
		errs = append(errs, b.logs.Close())
	}
	if b.store != nil {
		errs = append(errs, b.store.Close())
	}
	if b.server != nil {
		errs = append(errs, b.server.Close())
	}
	return errors.Join(errs...)
}

// layers returns a plan of n NOOP steps in layers of width steps. Each step depends on one step of the previous layer.
func layers(n, width int) []byte {
	steps := noops(n)
	for i := width; i < n; i++ {
		steps[i]["dependsOn"] = []string{rig.StepName(i - width)}
	}
	return document(steps)
}

// noops returns n independent steps. Each has an empty list of dependencies, because a plan in which no step has a list
// is a chain.
func noops(n int) []map[string]any {
	steps := make([]map[string]any, n)
	for i := range steps {
		steps[i] = map[string]any{"stepId": rig.StepName(i), "type": "NOOP", "inputs": map[string]any{}, "timeout": "1m",
			"dependsOn": []string{}}
	}
	return steps
}

// document returns a plan of the default tenant.
func document(steps []map[string]any) []byte { return documentOf(runtest.ID.TenantID, steps) }

// documentOf returns a plan of a tenant.
func documentOf(tenant string, steps []map[string]any) []byte {
	doc, err := json.Marshal(map[string]any{
		"schemaVersion": "v1.2",
		"metadata": map[string]any{
			"planId": runtest.ID.PlanID, "planVersion": runtest.ID.PlanVersion, "createdAt": "2026-01-01T00:00:00Z",
			"createdBy": "bench", "schemaVersion": "v1.2",
			"failurePolicy": map[string]any{"retryWindowSeconds": 0},
		},
		"scope": map[string]any{
			"tenantId": tenant, "projectId": runtest.ID.ProjectID, "environmentId": runtest.ID.EnvironmentID,
			"repoSha": fmt.Sprintf("%040d", 0),
		},
		"steps": steps,
	})
	if err != nil {
		panic(err) // impossible: the value has only maps, strings and numbers
	}
	return doc
}

// newIdentity returns the identity of a new run.
func (b *bed) newIdentity(tenant string) run.Identity {
	b.runs++
	of := runtest.ID
	of.RunID, of.TenantID = rig.RunName(b.runs), tenant
	return of
}

// create creates n approved runs of a plan. They may start at once; the bed has no dispatcher, so the caller starts
// them.
func (b *bed) create(ctx context.Context, doc []byte, n int) ([]run.Identity, error) {
	p, err := plan.Parse(doc, b.queues)
	if err != nil {
		return nil, err
	}
	ids := make([]run.Identity, n)
	for i := range ids {
		of := b.newIdentity(p.Scope.TenantID)
		_, _, err := b.store.CreateRun(ctx, store.NewRun{
			Run: store.Run{
				Identity: of, RequestID: of.RunID, PlanRef: plan.RefOf(doc, p, ""),
				RequestKey: run.RequestKey(of.TenantID, of.ProjectID, of.EnvironmentID, of.PlanID, of.PlanVersion, of.RunID),
			},
			Plan: doc, Events: []run.Draft{runtest.Draft(run.RunApproved, "", 1)},
			Enqueue: &store.Enqueue{Terms: store.Unlimited()},
		})
		if err != nil {
			return nil, err
		}
		ids[i] = of
	}
	return ids, nil
}

// contender runs workflows of one shape on a bed.
type contender struct {
	create func(ctx context.Context, n int) ([]run.Identity, error)
	start  func(ctx context.Context, id run.Identity) error
	check  func(ctx context.Context, id run.Identity) error // checks the result of a workflow that has ended
}

// dvt returns the contender that executes a plan with dvt.
func (b *bed) dvt(doc []byte) contender {
	return contender{
		create: func(ctx context.Context, n int) ([]run.Identity, error) { return b.create(ctx, doc, n) },
		start:  b.start, check: b.checkCompleted,
	}
}

func (b *bed) start(ctx context.Context, id run.Identity) error {
	_, err := b.engine.Start(ctx, id, b.queues)
	return err
}

// await waits until the workflow of a run has ended.
func (b *bed) await(ctx context.Context, id run.Identity) error {
	return b.client.GetWorkflow(ctx, temporal.WorkflowID(id), "").Get(ctx, nil)
}

// checkCompleted returns an error unless the run is COMPLETED.
func (b *bed) checkCompleted(ctx context.Context, id run.Identity) error {
	l, err := b.store.Load(ctx, id.RunID)
	if err == nil && l.State.Status != run.Completed {
		err = fmt.Errorf("run %s is %s, not COMPLETED", id.RunID, l.State.Status)
	}
	return err
}

// runAll runs n workflows, atOnce of them concurrently, and returns the elapsed time divided by n.
func (b *bed) runAll(ctx context.Context, c contender, n, atOnce int) (time.Duration, error) {
	ids, err := c.create(ctx, n)
	if err != nil {
		return 0, err
	}
	took, err := rig.Timed(func() error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(atOnce)
		for _, id := range ids {
			g.Go(func() error {
				if err := c.start(ctx, id); err != nil {
					return err
				}
				return b.await(ctx, id)
			})
		}
		return g.Wait()
	})
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if err := c.check(ctx, id); err != nil {
			return 0, err
		}
	}
	return took / time.Duration(n), nil
}

// closeAfter closes the bed and returns err. It ignores the error of closing, because err is its cause.
func (b *bed) closeAfter(err error) error {
	_ = b.close()
	return err
}

// closeOr closes the bed and returns err, or the error of closing if err is nil.
func (b *bed) closeOr(err error) error {
	if closed := b.close(); err == nil {
		err = closed
	}
	return err
}
