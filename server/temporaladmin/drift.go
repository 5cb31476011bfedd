package temporaladmin

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/connect"
)

// driftEvery is the time between two comparisons of the namespaces with the settings, and driftTime bounds one.
const (
	driftEvery = 10 * time.Minute
	driftTime  = 30 * time.Second
)

// DriftWatch compares the namespaces of Temporal with the settings while a server runs.
type DriftWatch struct {
	cfg   *config.Config
	to    temporal.Connection
	log   *slog.Logger
	gauge *prometheus.GaugeVec
	said  string // the differences that the log has
}

// NewDriftWatch returns a DriftWatch whose metric is registered.
func NewDriftWatch(cfg *config.Config, to temporal.Connection, metrics prometheus.Registerer, log *slog.Logger,
) (*DriftWatch, error) {
	w := &DriftWatch{cfg: cfg, to: to, log: log, gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "dvt_temporal_drift", Help: "Differences between a namespace of Temporal and the settings, by kind.",
	}, []string{"namespace", "kind"})}
	return w, metrics.Register(w.gauge)
}

// Run compares at once and then every ten minutes until ctx ends, and returns nil then.
func (w *DriftWatch) Run(ctx context.Context) error {
	tick := time.NewTicker(driftEvery)
	defer tick.Stop()
	for {
		w.compare(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// compare sets the metric, and logs the differences when they are others than before. A server that does not answer is
// an alert of its own, and does not change the metric.
func (w *DriftWatch) compare(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, driftTime)
	defer cancel()
	all, err := connect.Drift(ctx, w.cfg, w.to)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			w.log.DebugContext(ctx, "the namespaces of Temporal could not be compared with the settings",
				slog.Any("error", err))
		}
		return
	}
	var lines []string
	for _, s := range all {
		n := map[temporal.DriftKind]int{}
		for _, d := range s.Drift {
			n[d.Kind]++
			lines = append(lines, d.Namespace+": "+d.Found)
		}
		for _, kind := range temporal.DriftKinds() {
			w.gauge.WithLabelValues(s.Namespace, string(kind)).Set(float64(n[kind]))
		}
	}
	said := strings.Join(lines, "; ")
	switch said {
	case w.said:
	case "":
		w.log.InfoContext(ctx, "the namespaces of Temporal are as the settings say again")
	default:
		w.log.WarnContext(ctx, "namespaces of Temporal differ from the settings: run `dvt temporal setup`",
			slog.String("differences", said))
	}
	w.said = said
}
