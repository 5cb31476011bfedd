package journal

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/store"
)

// maxMeasuredSignals bounds the receipts that one append reads for its metric.
const maxMeasuredSignals = 16

// measureSignals observes how long the signals that an append answers had waited since they were accepted. It reads
// their receipts after the append, because only a receipt has the time of acceptance. A repeated append is not measured
// again, and a receipt that cannot be read is left out: the metric is no reason to fail a write.
func (j *Journal) measureSignals(ctx context.Context, a store.Append, out store.Appended) {
	if len(a.Outcomes) == 0 || len(out.Outcomes) > 0 && !slices.ContainsFunc(out.Outcomes,
		func(o store.EventOutcome) bool { return !o.Deduplicated }) {
		return
	}
	for _, o := range a.Outcomes[:min(len(a.Outcomes), maxMeasuredSignals)] {
		if !o.Application.Final() {
			continue
		}
		r, err := j.cfg.Store.Signals.Receipt(ctx, a.RunID, o.SignalID)
		if err != nil {
			continue
		}
		at := j.cfg.Now() // of a signal without effect, whose receipt has no time of the effect
		if r.AppliedAt != nil {
			at = *r.AppliedAt
		}
		waited := max(at.Sub(r.ReceivedAt).Seconds(), 0)
		if e, ok := j.writes.signals.(prometheus.ExemplarObserver); ok {
			e.ObserveWithExemplar(waited, prometheus.Labels{"run_id": a.RunID})
		}
	}
}
