package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/dvt-engine/dvt/server/config"

	"github.com/spf13/pflag"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server"
)

// serveDev runs `dvt dev` without its sample, on a Temporal server that is already running.
func serveDev(ctx context.Context, o rig.Options) (figureServer, error) {
	flags := pflag.NewFlagSet("dev", pflag.ContinueOnError)
	config.Flags(flags, "listen", "data", "no-sample", "temporal", "temporal-namespace")
	flags.String("config", "", "")
	namespace, addr, _ := strings.Cut(o.Temporal, "@")
	if err := flags.Parse([]string{
		"--listen=127.0.0.1:0", "--data=" + o.Dir, "--no-sample", "--temporal=" + addr, "--temporal-namespace=" + namespace,
	}); err != nil {
		return figureServer{}, err
	}
	cfg, err := config.Load(flags, true)
	if err != nil {
		return figureServer{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	output, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := server.RunDev(ctx, cfg, slog.New(slog.NewTextHandler(os.Stderr, nil)), w)
		w.CloseWithError(errors.Join(err, io.EOF))
		done <- err
	}()
	line, err := bufio.NewReader(output).ReadString('\n')
	_, link, ok := strings.Cut(strings.TrimSpace(line), "http://")
	at, _, _ := strings.Cut(link, "/")
	if !ok {
		stop()
		return figureServer{}, fmt.Errorf("dvt dev printed %q, not its address: %w", line, errors.Join(err, <-done))
	}
	return figureServer{addr: at, close: func() error { stop(); return <-done }}, nil
}

const (
	statusQuery    = `subscription($runId:String!){runUpdates(runId:$runId){runSeq snapshot{status substatus}}}`
	startMutation  = `mutation($plan:JSON!,$request:String!){startRun(input:{plan:{inline:$plan},runRequestId:$request,projectId:"shop",environmentId:"dev"}){run{runId}}}`
	signalMutation = `mutation($runId:String!,$id:String!){signalRun(input:{runId:$runId,signalId:$id,signal:{%s:{}}}){signal{decision}}}`
)

// pauseToPaused measures the p95 from the PAUSE mutation to the frame with status PAUSED, for a run without running
// steps. The floor is a bare workflow, from the signal to the activity that it starts.
func pauseToPaused(ctx context.Context, r *rig.Rig) (_ *rig.Trial, err error) {
	const pauses, perRun = 40, 20 // a run accepts at most 60 signals a minute
	// After a second without updates the server is idle, and the run has its full allowance of ten frames a second.
	const idle = time.Second
	var ends []func() error
	done := func() error {
		var errs []error
		for i := len(ends) - 1; i >= 0; i-- {
			errs = append(errs, ends[i]())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, done())
		}
	}()
	t, err := testserver.StartTemporal()
	if err != nil {
		return nil, err
	}
	ends = append(ends, t.Close)
	bare, err := newBare(ctx, t)
	if err != nil {
		return nil, err
	}
	ends = append(ends, bare.close)
	s, err := rig.StartOwn(ctx, rig.AnyCore, "dev", rig.Options{Dir: filepath.Join(r.Dir, "dev"), Temporal: t.Namespace +
		"@" +
		t.Addr})
	if err != nil {
		return nil, err
	}
	ends = append(ends, s.Close)
	access, err := server.ReadDevAccess(filepath.Join(r.Dir, "dev"))
	if err != nil {
		return nil, err
	}
	p := pauser{apiClient: newAPIClient(access.Tokens["dev-engineer"], 2), Service: s}
	ends = append(ends, func() error { p.leave(); return nil })
	repeat := func(ctx context.Context) (rig.Sample, error) {
		var costs, floors []time.Duration
		for i := range pauses {
			if i%perRun == 0 {
				p.leave()
				if err := p.start(ctx); err != nil {
					return rig.Sample{}, err
				}
			}
			floor, err := bare.signal(ctx)
			if err != nil {
				return rig.Sample{}, err
			}
			select {
			case <-time.After(idle):
			case <-ctx.Done():
				return rig.Sample{}, ctx.Err()
			}
			cost, err := p.until(ctx, "pause", "PAUSED")
			if err != nil {
				return rig.Sample{}, err
			}
			if _, err := p.until(ctx, "resume", "RUNNING"); err != nil {
				return rig.Sample{}, err
			}
			costs, floors = append(costs, cost), append(floors, floor)
		}
		return rig.Sample{Cost: rig.Quantile(costs, 0.95), Floor: rig.Quantile(floors, 0.95)}, nil
	}
	return &rig.Trial{Repeat: repeat, Done: done}, nil
}

// pauser pauses and resumes a run that has a viewer.
type pauser struct {
	apiClient
	*rig.Service
	watching *watching
	runID    string
	runs     int
	signals  int
}

// leave disconnects the viewer.
func (p *pauser) leave() {
	if p.watching != nil {
		p.watching.viewers.close()
		p.watching = nil
	}
}

// start starts a run whose only step waits for a person, and connects a viewer.
func (p *pauser) start(ctx context.Context) error {
	doc := document([]map[string]any{{
		"stepId": rig.StepName(0), "type": "MANUAL", "inputs": map[string]any{"instructions": "wait"}, "timeout": "1h",
	}})
	at := strings.NewReplacer(
		`"tenantId":"`+runtest.ID.TenantID+`"`, `"tenantId":"acme"`, `"projectId":"`+runtest.ID.ProjectID+`"`,
		`"projectId":"shop"`,
		`"environmentId":"`+runtest.ID.EnvironmentID+`"`, `"environmentId":"dev"`,
	)
	p.runs++
	answer, err := p.post(ctx, p.Addr, startMutation, map[string]any{
		"plan": json.RawMessage(at.Replace(string(doc))), "request": fmt.Sprintf("pause-%d", p.runs),
	})
	if err != nil {
		return err
	}
	var started struct {
		Data struct {
			StartRun struct{ Run struct{ RunID string } }
		}
	}
	if err := json.Unmarshal(answer, &started); err != nil {
		return err
	}
	p.runID = started.Data.StartRun.Run.RunID
	d := runsDialect(p.token, statusQuery, func(int) string { return p.runID })
	if p.watching, err = connectViewers(ctx, p.Service, d, 1, nil); err != nil {
		return err
	}
	p.watching.want(`"substatus":"WAITING_MANUAL"`)
	return p.watching.until(ctx, p.watching.isShown)
}

// until sends a signal and returns the time until the viewer has received the status.
func (p *pauser) until(ctx context.Context, signal, status string) (time.Duration, error) {
	p.signals++
	p.watching.want(`"status":"` + status + `"`)
	answered := make(chan error, 1)
	began := time.Now()
	go func() {
		_, err := p.post(ctx, p.Addr, fmt.Sprintf(signalMutation, signal), map[string]any{"runId": p.runID,
			"id": fmt.Sprintf("s-%d", p.signals)})
		answered <- err
	}()
	if err := errors.Join(p.watching.until(ctx, p.watching.isShown), <-answered); err != nil {
		return 0, fmt.Errorf("%s: %w", signal, err)
	}
	return p.watching.wantedAt.Sub(began), nil
}

// bare is a workflow without dvt that starts an activity at each signal.
type bare struct {
	client client.Client
	worker worker.Worker
	acted  chan time.Time
}

const bareName = "bare"

// newBare starts the worker and the workflow.
func newBare(ctx context.Context, t *testserver.TemporalServer) (*bare, error) {
	c, err := temporal.Dial(t.Addr, t.Namespace, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	b := &bare{client: c, worker: worker.New(c, bareName, worker.Options{}), acted: make(chan time.Time, 1)}
	b.worker.RegisterActivityWithOptions(func(context.Context) error { b.acted <- time.Now(); return nil },
		activity.RegisterOptions{Name: bareName})
	b.worker.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		for {
			workflow.GetSignalChannel(ctx, bareName).Receive(ctx, nil)
			if err := workflow.ExecuteActivity(ctx, bareName).Get(ctx, nil); err != nil {
				return err
			}
		}
	}, workflow.RegisterOptions{Name: bareName})
	if err := b.worker.Start(); err != nil {
		c.Close()
		return nil, err
	}
	_, err = c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: bareName, TaskQueue: bareName}, bareName)
	return b, err
}

// signal signals the workflow and returns the time until the activity runs.
func (b *bare) signal(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	if err := b.client.SignalWorkflow(ctx, bareName, "", bareName, nil); err != nil {
		return 0, err
	}
	select {
	case at := <-b.acted:
		return at.Sub(began), nil
	case <-time.After(rig.Patience):
		return 0, errors.New("the activity of the bare workflow did not run within " + rig.Patience.String())
	}
}

func (b *bare) close() error {
	b.worker.Stop()
	b.client.Close()
	return nil
}
