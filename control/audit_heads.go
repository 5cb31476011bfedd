package control

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// AuditHeads configures where the signed heads of the audit's chains are written. The zero value writes none.
type AuditHeads struct {
	Archive interface {
		// Write stores a document under a new name. It returns fs.ErrExist when the name is taken.
		Write(ctx context.Context, name string, body []byte) error
	}
	Key          func() ed25519.PrivateKey
	Every        time.Duration
	Installation string // named in each document
	// OperatorsTenant gets an alert when heads could not be written. With "" no alert is raised.
	OperatorsTenant string
}

const (
	// headsPerDocument bounds the number of tenants in one document of signed heads.
	headsPerDocument = 1000
	// headsTimeout bounds the time of one round of writing.
	headsTimeout = time.Minute
)

type headMetrics struct {
	failures prometheus.Counter
	written  prometheus.Gauge
}

func newHeadMetrics(r prometheus.Registerer) *headMetrics {
	register := promauto.With(r)
	return &headMetrics{
		failures: register.NewCounter(prometheus.CounterOpts{
			Name: "dvt_audit_heads_failures_total", Help: "Rounds in which the signed heads of the audit were not written.",
		}),
		written: register.NewGauge(prometheus.GaugeOpts{
			Name: "dvt_audit_heads_written_timestamp_seconds",
			Help: "When this server last saw the signed heads of the audit written; 0 before the first time.",
		}),
	}
}

// HeadStore reads the heads of the chains of audit rows.
type HeadStore interface {
	AuditHeads(ctx context.Context, after string, limit int) ([]store.AuditHead, error)
}

// AuditHeadWriter writes the signed heads of the audit.
type AuditHeadWriter struct {
	store   HeadStore
	to      AuditHeads
	metrics *headMetrics // nil when no heads are written
	alerts  *Alerts
	now     func() time.Time
	log     *slog.Logger
}

// NewAuditHeadWriter makes an AuditHeadWriter. It registers its metrics with r when heads are written.
func NewAuditHeadWriter(s HeadStore, to AuditHeads, alerts *Alerts, r prometheus.Registerer, now func() time.Time,
	log *slog.Logger) *AuditHeadWriter {
	w := &AuditHeadWriter{store: s, to: to, alerts: alerts, now: now, log: log}
	if to.Archive != nil {
		w.metrics = newHeadMetrics(r)
	}
	return w
}

// WriteAuditHeads writes the signed heads of all tenants each AuditHeads.Every, until ctx ends. Several servers may do
// it: documents are named by their interval, and an existing document is not overwritten. A failure is logged, counted
// and raised as an alert; the next interval tries again.
func (s *AuditHeadWriter) WriteAuditHeads(ctx context.Context) error {
	h := s.to
	if h.Archive == nil {
		return nil
	}
	for {
		now := s.now().UTC()
		if err := s.writeHeads(ctx, now); err != nil && ctx.Err() == nil {
			s.metrics.failures.Inc()
			s.log.WarnContext(ctx, "the signed heads of the audit were not written", slog.Any("error", err))
			s.alertHeads(ctx, err)
		} else if err == nil {
			s.metrics.written.Set(float64(now.Unix()))
			s.resolveHeads(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(now.Truncate(h.Every).Add(h.Every).Sub(now)):
		}
	}
}

// writeHeads writes the documents of the interval that contains now.
func (s *AuditHeadWriter) writeHeads(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, headsTimeout)
	defer cancel()
	h, after := s.to, ""
	for part := 1; ; part++ {
		heads, err := s.store.AuditHeads(ctx, after, headsPerDocument)
		if err != nil || len(heads) == 0 {
			return err
		}
		body, err := store.SignedHeads{Installation: h.Installation, At: now, Heads: heads}.Encode(h.Key())
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s-%04d.json", now.Truncate(h.Every).Format("2006/01/02/150405"), part)
		if err := h.Archive.Write(ctx, name, body); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if len(heads) < headsPerDocument {
			return nil
		}
		after = heads[len(heads)-1].TenantID
	}
}

// headsAlert is the alert about heads that were not written.
func (s *AuditHeadWriter) headsAlert() store.Alert {
	return store.Alert{TenantID: s.to.OperatorsTenant, Level: store.AlertHigh, Code: run.CodeAuditHeads,
		Actor: EngineActor}
}

// alertHeads raises one alert until the heads are written again, whichever server failed.
func (s *AuditHeadWriter) alertHeads(ctx context.Context, cause error) {
	if s.to.OperatorsTenant == "" {
		return
	}
	a := s.headsAlert()
	a.Note = run.Text(cause.Error(), maxChangeReason)
	if _, err := s.alerts.Raise(ctx, a); err != nil {
		s.log.WarnContext(ctx, "the alert was not raised", slog.Any("error", err))
	}
}

func (s *AuditHeadWriter) resolveHeads(ctx context.Context) {
	if s.to.OperatorsTenant == "" {
		return
	}
	if err := s.alerts.Resolve(ctx, "The heads were written.", s.headsAlert()); err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "the alert was not resolved; the next writing tries again", slog.Any("error", err))
	}
}
