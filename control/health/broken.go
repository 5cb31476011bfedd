package health

import (
	"context"
	"log/slog"
	"time"
)

// brokenChecks has the time since when each check fails. Only MeasureHealth uses it.
type brokenChecks map[string]time.Time

// advice returns the next step for an operator, or "" for a check without one.
func advice(check string) string {
	switch check {
	case CheckTemporal:
		return "check that Temporal runs, and that temporal and temporal-namespace name it"
	case CheckStore:
		return "check the database, and the setting `store`"
	case checkArtifacts:
		return "check that the bucket of artifacts exists, has space and may be written"
	}
	return ""
}

// note logs each check once when it begins to fail and once when it works again, with the time in between. The bus logs
// its own state.
func (b brokenChecks) note(ctx context.Context, h Health, now time.Time, log *slog.Logger) {
	for _, c := range h.Checks {
		since, was := b[c.Name]
		switch failed := c.Status == "UNHEALTHY"; {
		case c.Name == CheckBus || failed == was:
		case failed:
			b[c.Name] = now
			log.WarnContext(ctx, "a part that dvt needs does not work", slog.String("check", c.Name),
				slog.String("what", c.Message), slog.String("do", advice(c.Name)))
		default:
			delete(b, c.Name)
			log.InfoContext(ctx, "dependency recovered", slog.String("check", c.Name),
				slog.Duration("after", now.Sub(since).Round(time.Second)))
		}
	}
}
