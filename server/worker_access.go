package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/engine"
)

const (
	// accessEvery is the time between two looks at whether a worker still has access to the Journal.
	accessEvery = 20 * time.Second
	// mostDenied looks in a row end the worker. One that goes on takes steps from workers that could execute them.
	mostDenied = 3
)

// checker asks the server of a worker for access; remote.Client is one.
type checker interface {
	Check(ctx context.Context) error
}

// checkJournal refuses to start a worker whom its server does not know: it would take steps and begin none. A server that
// does not answer may be about to start.
func checkJournal(ctx context.Context, j checker, log *slog.Logger) error {
	err := j.Check(ctx)
	if errors.Is(err, engine.ErrDenied) {
		return err
	}
	if err != nil {
		log.WarnContext(ctx, "the server does not answer yet; steps begin once it does", slog.Any("error", err))
	}
	return nil
}

// whileGranted runs a worker until its access to the Journal is gone for mostDenied looks, so that its process ends with
// the reason.
func whileGranted(ctx context.Context, j checker, log *slog.Logger, work func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	g.Go(func() error {
		defer stop()
		return work(ctx)
	})
	g.Go(func() error { return watchAccess(ctx, j, log) })
	return g.Wait()
}

func watchAccess(ctx context.Context, j checker, log *slog.Logger) error {
	tick := time.NewTicker(accessEvery)
	defer tick.Stop()
	denied := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := j.Check(ctx)
		if !errors.Is(err, engine.ErrDenied) {
			denied = 0
			continue
		}
		if denied++; denied == mostDenied {
			return err
		}
		log.WarnContext(ctx, "this worker begins no steps, and ends when that goes on", slog.Any("error", err))
	}
}
