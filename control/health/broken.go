package health

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// dependencyGauge is dvt_dependency_up. Every part counts as up until the first sample.
type dependencyGauge struct {
	*prometheus.GaugeVec
	register func() // once; only a process that measures serves the metric
}

// newDependencyGauge makes the gauge of the registry r, which may be nil.
func newDependencyGauge(r prometheus.Registerer) dependencyGauge {
	up := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "dvt_dependency_up", Help: "1 while a part that dvt needs works, by check of the health.",
	}, []string{"check"})
	for _, check := range []string{CheckTemporal, CheckStore, CheckSecrets, CheckArtifacts, CheckBus} {
		up.WithLabelValues(check).Set(1)
	}
	return dependencyGauge{up, sync.OnceFunc(func() {
		if r != nil {
			r.MustRegister(up)
		}
	})}
}

// brokenChecks has the time since when each check fails. Only MeasureHealth uses it.
type brokenChecks map[string]time.Time

// advice returns the next step for an operator, or "" for a check without one.
func advice(check string) string {
	switch check {
	case CheckTemporal:
		return "check that Temporal runs, and that temporal and temporal-namespace name it"
	case CheckBus:
		return "check that Redis runs, and that redis names it"
	case CheckStore:
		return "check the database, and the setting `store`"
	case CheckSecrets:
		return "check that the provider runs, that the workers reach it, and that it accepts their identity"
	case CheckArtifacts:
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
		case failed == was:
		case failed:
			b[c.Name] = now
			if c.Name == CheckBus {
				continue
			}
			log.WarnContext(ctx, "a part that dvt needs does not work", slog.String("check", c.Name),
				slog.String("what", c.Message), slog.String("do", advice(c.Name)))
		default:
			delete(b, c.Name)
			if c.Name == CheckBus {
				continue
			}
			log.InfoContext(ctx, "dependency recovered", slog.String("check", c.Name),
				slog.Duration("after", now.Sub(since).Round(time.Second)))
		}
	}
}

// tellPeople raises an alert about each part that fails in two samples in a row, so that one slow answer wakes nobody,
// and resolves it when the part works again. broken has the checks that failed in the sample before. The store is only
// measured: its alert would be a row of the store.
func (s *Meter) tellPeople(ctx context.Context, h Health, broken brokenChecks) {
	var works []store.Alert
	for _, c := range h.Checks {
		_, was := broken[c.Name]
		if c.Unused && !was {
			continue
		}
		failed, up := c.Status == "UNHEALTHY", 1.0
		if failed {
			up = 0
		}
		s.up.WithLabelValues(c.Name).Set(up)
		a := store.Alert{Level: store.AlertHigh, Code: run.CodeDependencyDown, Subject: c.Name, Actor: control.EngineActor,
			Note: c.Message + " To do: " + advice(c.Name) + "."}
		switch {
		case c.Name == CheckStore || !was:
		case failed:
			_, err := s.checks.background.Alerts.Raise(ctx, a)
			s.logAlertError(ctx, err)
		default:
			works = append(works, a)
		}
	}
	s.logAlertError(ctx, s.checks.background.Alerts.Resolve(ctx, "The part works again.", works...))
}

func (s *Meter) logAlertError(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
		s.rights.Log.WarnContext(ctx, "the alert about a part that dvt needs was not written", slog.Any("error", err))
	}
}
