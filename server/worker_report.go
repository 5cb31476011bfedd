package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/engine"
)

const (
	// reportEvery is the time between two reports of a worker. Servers count a worker as alive for two minutes.
	reportEvery = time.Minute
	// reportTimeout limits one call, so that a call that hangs does not delay the next report.
	reportTimeout = 20 * time.Second
	// reportQueues is the maximum number of queues in one report.
	reportQueues = 64
)

// reportSandbox sends the report that current returns for the queues of a worker, at once and then every reportEvery
// until ctx ends. A lost report is not repeated, because the next one replaces it. Of consecutive failures only the
// first is logged, and then the recovery.
func reportSandbox(ctx context.Context, to engine.WorkerReporter, queues []string, current func() engine.WorkerReport, log *slog.Logger) error {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	failing := false
	for {
		err := sendReport(ctx, to, queues, current())
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case err != nil && !failing:
			log.WarnContext(ctx, "the report of this worker's sandbox was not accepted: plans that require a part of it are refused", slog.Any("error", err))
		case err == nil && failing:
			log.InfoContext(ctx, "the report of this worker's sandbox is accepted again")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// whileReporting runs work, the service of data queues, and reports the worker's sandbox until work ends.
func whileReporting(
	ctx context.Context, to engine.WorkerReporter, queues []string, current func() engine.WorkerReport, log *slog.Logger,
	work func(context.Context) error,
) error {
	g, ctx := errgroup.WithContext(ctx)
	reporting, stop := context.WithCancel(ctx)
	g.Go(func() error {
		defer stop()
		return work(ctx)
	})
	g.Go(func() error { return reportSandbox(reporting, to, queues, current, log) })
	return g.Wait()
}

func sendReport(ctx context.Context, to engine.WorkerReporter, queues []string, r engine.WorkerReport) (err error) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	queues = slices.Compact(slices.Sorted(slices.Values(queues)))
	for part := range slices.Chunk(queues, reportQueues) {
		r.Queues = part
		err = errors.Join(err, to.Report(ctx, r))
	}
	return err
}
