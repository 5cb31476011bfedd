package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// bed is dvt on a Temporal dev server of its own: a store on SQLite, and one worker
// in this process that runs workflows and steps.
type bed struct {
	server *testserver.TemporalServer
	store  *sqlite.Store
	logs   *artifact.Store
	client client.Client
	engine *temporal.Engine
	queues plan.Queues
	runs   int
	stop   context.CancelFunc
	work   *errgroup.Group
}

// newBed starts everything; executors replace those of dvt for their types.
func newBed(ctx context.Context, r *rig, executors map[plan.StepType]executor.Executor) (b *bed, err error) {
	b = &bed{queues: plan.Queues{Control: "tq-control-bench", Data: "tq-data-bench", Known: []string{"tq-control-bench", "tq-data-bench"}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.server, err = testserver.StartTemporal(); err != nil {
		return b, err
	}
	r.beds++
	if b.store, err = sqlite.Open(ctx, filepath.Join(r.dir, fmt.Sprintf("bed-%d.db", r.beds)), sqlite.Options{}); err != nil {
		return b, err
	}
	if b.logs, err = artifact.Open(ctx, "mem://"); err != nil {
		return b, err
	}
	quiet := slog.New(slog.DiscardHandler)
	if b.client, err = temporal.Dial(b.server.Addr, b.server.Namespace, quiet); err != nil {
		return b, err
	}
	b.engine = temporal.New(b.client, b.server.Namespace, temporal.Config{})
	journal := control.NewJournal(control.JournalConfig{
		Store: b.store, Logs: b.logs, Blobs: b.logs, Queues: b.queues, MaxSteps: plan.MaxSteps, Fetch: control.NewFetcher(nil, false),
	})
	all := executor.New(executor.Config{})
	for t, x := range executors {
		all[t] = x
	}
	runner := &executor.Runner{Journal: journal, Executors: all, WorkspaceRoot: filepath.Join(r.dir, "workspaces"), ProjectRoot: r.dir, Log: quiet}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop, b.work = stop, &errgroup.Group{}
	b.work.Go(func() error {
		return temporal.Run(working, b.client, temporal.WorkerConfig{
			Namespace: b.server.Namespace, Control: []string{b.queues.Control}, Data: []string{b.queues.Data}, StopTimeout: time.Second,
		}, journal, runner)
	})
	return b, nil
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

// layers is a plan of n NOOP steps in layers of width, each step after one of the
// layer before.
func layers(n, width int) []byte {
	steps := make([]map[string]any, n)
	for i := range steps {
		steps[i] = map[string]any{"stepId": stepName(i), "type": "NOOP", "inputs": map[string]any{}, "timeout": "1m"}
		if i >= width {
			steps[i]["dependsOn"] = []string{stepName(i - width)}
		}
	}
	return document(steps)
}

func document(steps []map[string]any) []byte {
	doc, err := json.Marshal(map[string]any{
		"schemaVersion": "v1.2",
		"metadata": map[string]any{
			"planId": runtest.ID.PlanID, "planVersion": runtest.ID.PlanVersion, "createdAt": "2026-01-01T00:00:00Z", "createdBy": "bench", "schemaVersion": "v1.2",
			"failurePolicy": map[string]any{"retryWindowSeconds": 0},
		},
		"scope": map[string]any{
			"tenantId": runtest.ID.TenantID, "projectId": runtest.ID.ProjectID, "environmentId": runtest.ID.EnvironmentID,
			"repoSha": fmt.Sprintf("%040d", 0),
		},
		"steps": steps,
	})
	if err != nil {
		panic(err) // maps of strings and numbers
	}
	return doc
}

// create makes n runs of a plan, approved and in no queue.
func (b *bed) create(ctx context.Context, doc []byte, n int) ([]run.Identity, error) {
	p, err := plan.Parse(doc, b.queues)
	if err != nil {
		return nil, err
	}
	ids := make([]run.Identity, n)
	for i := range ids {
		b.runs++
		of := runtest.ID
		of.RunID = runName(b.runs)
		_, _, err := b.store.CreateRun(ctx, store.NewRun{
			Run: store.Run{
				Identity: of, RequestID: of.RunID, PlanRef: plan.RefOf(doc, p, ""),
				RequestKey: run.RequestKey(of.TenantID, of.ProjectID, of.EnvironmentID, of.PlanID, of.PlanVersion, of.RunID),
			},
			Plan: doc, Events: []run.Draft{runtest.Draft(run.RunApproved, "", 1)},
		})
		if err != nil {
			return nil, err
		}
		ids[i] = of
	}
	return ids, nil
}

// starter begins the workflow of a run.
type starter func(ctx context.Context, id run.Identity) error

func (b *bed) start(ctx context.Context, id run.Identity) error {
	_, err := b.engine.Start(ctx, id, b.queues)
	return err
}

// ended waits until the workflow of a run is over, and checks that the run is.
func (b *bed) ended(ctx context.Context, id run.Identity) error {
	if err := b.client.GetWorkflow(ctx, temporal.WorkflowID(id), "").Get(ctx, nil); err != nil {
		return err
	}
	l, err := b.store.Load(ctx, id.RunID)
	if err == nil && l.State.Status != run.Completed {
		err = fmt.Errorf("run %s is %s, not COMPLETED", id.RunID, l.State.Status)
	}
	return err
}

// through runs n runs of a plan, so many at once, and returns what one takes.
func (b *bed) through(ctx context.Context, doc []byte, n, atOnce int, start starter) (time.Duration, error) {
	ids, err := b.create(ctx, doc, n)
	if err != nil {
		return 0, err
	}
	took, err := timed(func() error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(atOnce)
		for _, id := range ids {
			g.Go(func() error {
				if err := start(ctx, id); err != nil {
					return err
				}
				return b.ended(ctx, id)
			})
		}
		return g.Wait()
	})
	return took / time.Duration(n), err
}

// events counts a run's history over the whole chain.
func (b *bed) events(ctx context.Context, id run.Identity) (n int, err error) {
	about, err := b.client.DescribeWorkflowExecution(ctx, temporal.WorkflowID(id), "")
	if err != nil {
		return 0, err
	}
	for next := about.GetWorkflowExecutionInfo().GetFirstRunId(); next != ""; {
		all := b.client.GetWorkflowHistory(ctx, temporal.WorkflowID(id), next, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		next = ""
		for all.HasNext() {
			e, err := all.Next()
			if err != nil {
				return 0, err
			}
			n++
			next = e.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
		}
	}
	return n, nil
}
