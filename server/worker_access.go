package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/store"
)

const (
	// accessEvery is the time between two checks of the worker's access to the Journal.
	accessEvery = 20 * time.Second
	// mostDenied is the number of consecutive denied checks that end the worker. Without access, a worker would only
	// take steps away from workers that could execute them.
	mostDenied = 3
)

// checker asks the server of a worker for access; remote.Client implements it.
type checker interface {
	Check(ctx context.Context) error
}

// checkJournal returns engine.ErrDenied when the server does not know the worker, because such a worker would take
// steps and begin none. It only logs other errors, because the server may be starting.
func checkJournal(ctx context.Context, j checker, log *slog.Logger) error {
	err := j.Check(ctx)
	if errors.Is(err, engine.ErrDenied) {
		return err
	}
	if err != nil && !errors.Is(err, store.ErrReadOnly) {
		log.WarnContext(ctx, "the server does not answer: this worker begins no steps until it does; check the setting server", slog.Any("error", err))
	}
	return nil
}

// whileGranted runs work until it ends or until mostDenied consecutive checks deny access to the Journal. It then
// returns the denial, so that the process ends with the reason.
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
	denied, away := 0, outage{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := j.Check(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, store.ErrReadOnly) {
			return errSiteChanged
		}
		if !errors.Is(err, engine.ErrDenied) {
			denied = 0
			away.note(ctx, err, log)
			continue
		}
		if denied++; denied == mostDenied {
			return err
		}
		log.WarnContext(ctx, "the server denied access: this worker begins no steps, and ends if this continues; check its worker token",
			slog.Any("error", err))
	}
}

// outageLogEvery is the number of failed checks between two lines about one outage.
const outageLogEvery = 30

// outage is the time in which the server did not answer the checks of a worker. The zero value means that it answers.
// One goroutine may use it.
type outage struct {
	since  time.Time
	failed int
}

// note logs the begin of an outage, its end, and every outageLogEvery checks that it goes on. err is the result of the
// newest check.
func (o *outage) note(ctx context.Context, err error, log *slog.Logger) {
	switch {
	case err == nil && o.failed > 0:
		log.InfoContext(ctx, "the server answers again: this worker begins steps", slog.Int("failedChecks", o.failed),
			slog.Duration("after", time.Since(o.since).Round(time.Second)))
		*o = outage{}
	case err == nil:
	default:
		if o.failed == 0 {
			o.since = time.Now()
		}
		if o.failed%outageLogEvery == 0 {
			log.WarnContext(ctx, "the server does not answer: this worker begins no steps until it does; check the setting "+
				"server, and let proxies pass /engine/journal", slog.Int("failedChecks", o.failed+1), slog.Any("error", err))
		}
		o.failed++
	}
}
