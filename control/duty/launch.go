package duty

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Launcher starts runs in the engine and measures how long that takes. It is safe for concurrent use.
type Launcher struct {
	rights  *control.Rights
	probe   *health.EngineProbe
	queues  plan.Queues
	modes   *admission.Modes
	alerts  *control.Alerts
	foreign *Reconciler
}

// NewLauncher makes a Launcher.
func NewLauncher(rights *control.Rights, probe *health.EngineProbe, queues plan.Queues, modes *admission.Modes,
	alerts *control.Alerts,
	foreign *Reconciler) *Launcher {
	return &Launcher{rights: rights, probe: probe, queues: queues, modes: modes, alerts: alerts, foreign: foreign}
}

func (s *Launcher) stopper() *runs.Stopper { return s.foreign.stopper }

// startInEngine starts a run and reports the duration to the breaker.
func (s *Launcher) startInEngine(ctx context.Context, id run.Identity) error {
	began := s.rights.Now()
	started, err := s.probe.Engine.Start(ctx, id, s.queues.For(id.TenantID, id.EnvironmentID))
	if ctx.Err() == nil {
		trouble := err
		if errors.Is(err, engine.ErrHeld) || errors.Is(err, engine.ErrRejected) {
			trouble = nil // the engine answered; one run must not hold up all starts
		}
		s.observeStart(ctx, s.rights.Now().Sub(began), trouble)
	}
	if err == nil {
		queues := s.queues.For(id.TenantID, id.EnvironmentID)
		s.foreign.admission.Usage.NoteQueues(started.Ref.Provider, queues, s.rights.Now())
	}
	for _, f := range started.Foreign {
		s.foreign.reportForeign(ctx, id, f)
	}
	return err
}

// tryEngine probes the engine for the breaker while it is open and no run waits to be started.
func (s *Launcher) tryEngine(ctx context.Context) {
	if _, _, open := s.modes.Breaker.Stats(); !open {
		return
	}
	within, cancel := context.WithTimeout(ctx, admission.StartLimit)
	defer cancel()
	began := s.rights.Now()
	err := s.probe.Answers(within)
	if ctx.Err() == nil {
		s.observeStart(ctx, s.rights.Now().Sub(began), err)
	}
}

// observeStart reports a start to the breaker. It logs and audits the change when the breaker opens or closes.
func (s *Launcher) observeStart(ctx context.Context, took time.Duration, err error) {
	if !s.modes.Breaker.Observe(took, err != nil) {
		return
	}
	s.modes.State.Set(nil)
	p95, n, open := s.modes.Breaker.Stats()
	if !open {
		control.Wake(s.modes.Waker.Starts)
		why := "A start within the limit: new runs are accepted again."
		s.rights.Log.InfoContext(ctx, "the engine starts runs in time again", slog.String("why", why))
		s.auditBreaker(ctx, "CLOSED", why)
		return
	}
	why := "The P95 of the engine's last " + strconv.Itoa(n) + " starts within a minute is " +
		plan.DurationWords(p95) + ": new runs are refused."
	if err != nil {
		why = "The engine does not answer: the last of " + strconv.Itoa(n) + " starts within a minute failed. New runs are " +
			"refused."
	}
	s.rights.Log.WarnContext(ctx, "new runs are refused until the engine starts runs in time again",
		slog.String("why", why), slog.Any("error", err))
	s.auditBreaker(ctx, "OPENED", why)
}

// auditBreaker writes an audit row for the operators, at most one a minute for each direction.
func (s *Launcher) auditBreaker(ctx context.Context, word, why string) {
	if s.rights.Operators == "" {
		return
	}
	if !s.alerts.IsFirst("breaker/" + word) {
		return
	}
	row := store.AuditRow{ID: uuid.NewString(), TenantID: s.rights.Operators, Actor: control.EngineActor,
		Action:  "BREAKER",
		Outcome: word, Code: run.CodeEngineDegraded, Reason: why}
	if err := s.rights.Store.Audit(ctx, row); err != nil && !errors.Is(err, store.ErrUnavailable) {
		s.rights.Log.WarnContext(ctx, "an audit row was not written; the audit may lack it", slog.Any("error", err))
	}
}
