package server

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
)

const (
	// reportEvery is the time between two reports of a worker. Servers count a worker as alive for two minutes.
	reportEvery = 20 * time.Second
	// reportTimeout limits one call, so that a call that hangs does not delay the next report.
	reportTimeout = 20 * time.Second
	// reportQueues is the maximum number of queues in one report.
	reportQueues = 64
)

// workerReports sends the reports of a worker for its queues, and carries out the orders of their answers. One
// goroutine at a time may use it.
type workerReports struct {
	to      engine.WorkerReporter
	queues  []string
	current func() engine.WorkerReport
	drain   func(bool)
	ended   func(runIDs []string) // removes their workspaces
	log     *slog.Logger

	drained  bool
	stopping atomic.Bool // the process was asked to stop, and only its running steps go on

	failing bool // the last report was not accepted
	denied  int  // consecutive reports that were denied
}

// newWorkerReports reports the sandbox of a worker with what it runs, and its providers of secrets.
func newWorkerReports(to engine.WorkerReporter, version string, w temporal.WorkerConfig, box *isolation,
	secrets *secretsWatch, workspaces *executor.Workspaces, log *slog.Logger) *workerReports {
	started := time.Now().UTC()
	return &workerReports{
		to: to, queues: w.Data, drain: w.Executions.Drain, ended: workspaces.Remove, log: log,
		current: func() engine.WorkerReport {
			r := w.Executions.Report(box.workerReport())
			r.Version, r.StartedAt, r.Secrets = buildVersion(version), started, secrets.report()
			r.Workspaces = workspaces.Ask(engine.MaxWorkspaces)
			return r
		},
	}
}

// whileReporting reports the worker and runs work, the service of data queues, until work ends or the server
// denies the reports. It returns the denial, which wraps engine.ErrDenied, so that the process ends with the reason.
//
// work starts after the answer to the first report. A worker whose first report is denied therefore polls no queue, not
// even when a supervisor keeps restarting it. Later only mostDenied consecutive denials end work, because servers that
// restart one after the other may know different accounts for a moment. Other errors never end work.
//
// After the end of ctx the reports go on until work returns, because its running steps may take hours: a worker
// without reports would be shown as lost. They say that it begins no further steps.
func whileReporting(ctx context.Context, r *workerReports, work func(context.Context) error) error {
	if err := r.send(ctx); errors.Is(err, engine.ErrDenied) {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { r.stopping.Store(true) })()
	reporting, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.Go(func() error {
		defer stop()
		return work(ctx)
	})
	g.Go(func() error { return r.repeat(reporting) })
	return g.Wait()
}

// run is whileReporting for a process that runs the work itself.
func (r *workerReports) run(ctx context.Context) error {
	if err := r.send(ctx); errors.Is(err, engine.ErrDenied) {
		return err
	}
	return r.repeat(ctx)
}

// repeat sends a report every reportEvery until ctx ends, and after a denial every accessEvery. A lost report is not
// repeated, because the next one replaces it. The error is the last of mostDenied consecutive denials.
func (r *workerReports) repeat(ctx context.Context) error {
	for {
		pause := reportEvery
		if r.denied > 0 {
			pause = accessEvery
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		err := r.send(ctx)
		if r.denied == mostDenied {
			return err
		}
		if err != nil && r.denied > 0 {
			r.log.WarnContext(ctx, "the server denied the report of this worker's sandbox: this worker ends if this continues; check its worker token",
				slog.Any("error", err))
		}
	}
}

// send sends one report and returns its error, or nil when ctx ended. Of consecutive failures it logs only the first,
// and then the recovery. It logs no denial.
func (r *workerReports) send(ctx context.Context) error {
	report := r.current()
	report.Drained = report.Drained || r.stopping.Load()
	order, err := sendReport(ctx, r.to, r.queues, report)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the process ends
	}
	if errors.Is(err, engine.ErrDenied) {
		r.denied++
		r.failing = true
		return err
	}
	r.denied = 0
	switch {
	case err != nil && !r.failing:
		r.log.WarnContext(
			ctx, "the report of this worker's sandbox was not accepted: plans that require a part of it are refused",
			slog.Any("error", err))
	case err == nil && r.failing:
		r.log.InfoContext(ctx, "the report of this worker's sandbox is accepted again")
	}
	r.failing = err != nil
	if err == nil {
		r.carryOut(ctx, order)
	}
	return err
}

func (r *workerReports) carryOut(ctx context.Context, order engine.WorkerOrder) {
	switch {
	case order.Drain && !r.drained:
		r.log.InfoContext(ctx, "this worker is drained: it begins no further steps, and its running steps go on")
	case !order.Drain && r.drained:
		r.log.InfoContext(ctx, "this worker is not drained any more: it begins steps")
	}
	r.drained = order.Drain
	r.drain(order.Drain)
	if len(order.EndedRuns) > 0 {
		r.ended(order.EndedRuns)
	}
}

func sendReport(ctx context.Context, to engine.WorkerReporter, queues []string,
	r engine.WorkerReport) (order engine.WorkerOrder, err error) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	queues = slices.Compact(slices.Sorted(slices.Values(queues)))
	for part := range slices.Chunk(queues, reportQueues) {
		r.Queues = part
		said, failed := to.Report(ctx, r)
		order.Drain = order.Drain || said.Drain
		order.EndedRuns = append(order.EndedRuns, said.EndedRuns...)
		r.Workspaces = nil // one part asks
		err = errors.Join(err, failed)
	}
	return order, err
}

// buildVersion returns the version of a released program. For other programs it is that of the module, or the commit
// that it was built from.
func buildVersion(released string) string {
	if released != "" && released != "dev" {
		return released
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && !strings.HasPrefix(info.Main.Version, "v") {
			return s.Value[:min(len(s.Value), 12)]
		}
	}
	return info.Main.Version
}
