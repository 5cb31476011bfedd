package control

import (
	"context"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

func newAlerts(r prometheus.Registerer) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dvt_alerts_total", Help: "Alerts raised about runs, by people or by dvt itself, by level.",
	}, []string{"level"})
	for _, level := range store.AlertLevels() {
		c.WithLabelValues(string(level))
	}
	if r != nil {
		r.MustRegister(c)
	}
	return c
}

// acceptAlert raises an alert; the run goes on as it is (T197, R260).
func (j *judging) acceptAlert(ctx context.Context, tx store.RunTx) error {
	p, err := run.PayloadOf[escalateAlert](j.in.Payload)
	if err != nil {
		return err
	}
	if err := tx.Raise(ctx, store.Alert{
		ID: uuid.NewString(), TenantID: j.run.TenantID, ProjectID: j.run.ProjectID, RunID: j.run.RunID,
		SignalID: j.in.Signal.ID,
		Level:    p.Level, Note: p.Note, Actor: j.p.ID,
	}); err != nil {
		return err
	}
	j.raised = p.Level
	return j.appliedHere(ctx, tx, 0)
}

// raise keeps an alert that dvt itself raises and counts it.
func (s *Service) raise(ctx context.Context, a store.Alert) error {
	if err := s.cfg.Store.Raise(ctx, a); err != nil {
		return err
	}
	s.alerts.WithLabelValues(string(a.Level)).Inc()
	return nil
}
