package installcmd

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/dvt-engine/dvt/server/config"
)

// reloadOnSignal reads the file of settings again at each SIGHUP, applies the level of the log, and logs which of the
// settings that changed took effect and which need a restart. An invalid file changes nothing. The caller calls the
// returned function when the process ends.
func reloadOnSignal(ctx context.Context, r *config.Reloader, level *slog.LevelVar, log *slog.Logger) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
				reload(ctx, r, level, log)
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		cancel()
	}
}

func reload(ctx context.Context, r *config.Reloader, level *slog.LevelVar, log *slog.Logger) {
	c, changed, err := r.Reload()
	if err == nil {
		err = setLevel(level, c.LogLevel)
	}
	if err != nil {
		log.ErrorContext(ctx, "the settings that were read again are invalid, so the earlier ones stay in use: correct the "+
			"file and send SIGHUP again", slog.Any("error", err))
		return
	}
	facts := []any{slog.Any("tookEffect", changed.Took), slog.Any("needRestart", changed.Restart)}
	if len(changed.Hidden) > 0 {
		facts = append(facts, slog.Any("givenElsewhere", changed.Hidden))
	}
	log.WarnContext(ctx, "the settings were read again", facts...)
}
