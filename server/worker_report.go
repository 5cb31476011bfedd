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
	// reportTimeout bounds one call, so that a report that hangs does not delay the next one.
	reportTimeout = 20 * time.Second
	// reportQueues is how many queues one report names.
	reportQueues = 64
)

// reportSandbox sends what current returns for the queues of a worker, at once and then each minute until ctx ends. A
// report that does not arrive is made good by the next one; the first failure in a row is logged, and the end of the
// failures.
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
			log.WarnContext(ctx, "the report of this worker's sandbox was not taken: plans that require a part of it are refused", slog.Any("error", err))
		case err == nil && failing:
			log.InfoContext(ctx, "the report of this worker's sandbox is taken again")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// whileReporting does the work of data queues, and reports the sandbox of the worker until the work ends.
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
