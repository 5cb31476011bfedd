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

// AuditHeads says where the signed ends of the audit's chains go. The zero value writes none.
type AuditHeads struct {
	Archive interface {
		// Write keeps a document under a name that has none; fs.ErrExist when it has.
		Write(ctx context.Context, name string, body []byte) error
	}
	Key          func() ed25519.PrivateKey
	Every        time.Duration
	Installation string // named in each document
}

const (
	// headsPerDocument bounds the tenants in one document of signed heads.
	headsPerDocument = 1000
	// headsTimeout bounds one round of writing.
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

// WriteAuditHeads writes the signed heads of all tenants each AuditHeads.Every, until ctx ends. Several servers may do
// it: documents are named by time, and one that exists stays as it is.
func (s *Service) WriteAuditHeads(ctx context.Context) error {
	h := s.cfg.AuditHeads
	if h.Archive == nil {
		return nil
	}
	for {
		now := s.cfg.Now().UTC()
		if err := s.writeHeads(ctx, now); err != nil && ctx.Err() == nil {
			s.heads.failures.Inc()
			s.cfg.Logger.WarnContext(ctx, "the signed heads of the audit were not written", slog.Any("error", err))
			s.alertOfHeads(ctx, now, err)
		} else if err == nil {
			s.heads.written.Set(float64(now.Unix()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(now.Truncate(h.Every).Add(h.Every).Sub(now)):
		}
	}
}

// writeHeads writes the documents of the interval that holds now.
func (s *Service) writeHeads(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, headsTimeout)
	defer cancel()
	h, after := s.cfg.AuditHeads, ""
	for part := 1; ; part++ {
		heads, err := s.cfg.Store.AuditHeads(ctx, after, headsPerDocument)
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

// alertOfHeads tells the operators once an hour, whichever server it was.
func (s *Service) alertOfHeads(ctx context.Context, now time.Time, cause error) {
	if s.cfg.OperatorsTenant == "" {
		return
	}
	hour := now.Format("2006-01-02T15")
	if w, known := s.trails.add("heads/" + hour); known && w.n > 1 {
		return
	}
	err := s.raise(ctx, store.Alert{
		ID: sweepID(s.cfg.OperatorsTenant, hour, "audit_heads"), TenantID: s.cfg.OperatorsTenant, Level: store.AlertHigh,
		Code: run.CodeAuditHeads,
		Note: run.Text(cause.Error(), maxChangeReason), Actor: sweepActor,
	})
	if err != nil {
		s.cfg.Logger.WarnContext(ctx, "the alert was not raised", slog.Any("error", err))
	}
}
