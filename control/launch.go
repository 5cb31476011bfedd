package control

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Launcher starts runs in the engine and watches how long that takes. It is safe for concurrent use.
type Launcher struct {
	rights  *Rights
	probe   *EngineProbe
	queues  plan.Queues
	modes   *Modes
	alerts  *Alerts
	foreign *Sweeper
}

// NewLauncher makes a Launcher.
func NewLauncher(rights *Rights, probe *EngineProbe, queues plan.Queues, modes *Modes, alerts *Alerts,
	foreign *Sweeper) *Launcher {
	return &Launcher{rights: rights, probe: probe, queues: queues, modes: modes, alerts: alerts, foreign: foreign}
}

// startInEngine starts a run and takes the time.
func (s *Launcher) startInEngine(ctx context.Context, id run.Identity) error {
	began := s.rights.now()
	started, err := s.probe.Engine.Start(ctx, id, s.queues.For(id.TenantID, id.EnvironmentID))
	if ctx.Err() == nil {
		trouble := err
		if errors.Is(err,
			engine.ErrHeld) { // the engine answered; somebody who holds up one run must not hold up all starts
			trouble = nil
		}
		s.observed(ctx, s.rights.now().Sub(began), trouble)
	}
	for _, f := range started.Foreign {
		s.foreign.reportForeign(ctx, id, f)
	}
	return err
}

// tryEngine asks the engine about nothing, when it was to be tried and no start waits.
func (s *Launcher) tryEngine(ctx context.Context) {
	if _, _, open := s.modes.breaker.seen(); !open {
		return
	}
	within, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	began := s.rights.now()
	err := s.probe.answers(within)
	if ctx.Err() == nil {
		s.observed(ctx, s.rights.now().Sub(began), err)
	}
}

// observed tells the breaker, and people when it opens or closes.
func (s *Launcher) observed(ctx context.Context, took time.Duration, err error) {
	if !s.modes.breaker.observe(took, err != nil) {
		return
	}
	s.modes.state.set(nil)
	p95, n, open := s.modes.breaker.seen()
	word, why := "CLOSED", "A start within the limit: new runs are taken again."
	if open {
		word, why = "OPENED", "The P95 of the engine's last "+strconv.Itoa(n)+" starts within a minute is "+
			p95.Round(time.Millisecond).String()+": new runs are refused."
	} else {
		wake(s.modes.waker.starts)
	}
	s.rights.log.WarnContext(ctx, "the breaker of starts has changed", slog.String("state", word),
		slog.String("why", why),
		slog.Any("error", err))
	s.auditBreaker(ctx, word, why)
}

// auditBreaker leaves a row with the operators: at most one a minute for each turn.
func (s *Launcher) auditBreaker(ctx context.Context, word, why string) {
	if s.rights.operators == "" {
		return
	}
	if !s.alerts.isFirst("breaker/" + word) {
		return
	}
	row := store.AuditRow{ID: uuid.NewString(), TenantID: s.rights.operators, Actor: engineActor, Action: "BREAKER",
		Outcome: word, Code: run.CodeEngineDegraded, Reason: why}
	if err := s.rights.Trail.store.Audit(ctx, row); err != nil && !errors.Is(err, store.ErrUnavailable) {
		s.rights.log.WarnContext(ctx, "audit row not written", slog.Any("error", err))
	}
}
