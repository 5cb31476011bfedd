package live

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// overflowed is a cause of resyncs that appears only in metrics, not in frames.
const overflowed Reason = "OVERFLOW"

// kindQuiet marks frames that repeat the state, kindReset frames that replace it. All other kinds are sync states.
const (
	kindQuiet Sync = "QUIET"
	kindReset Sync = "RESET"
)

// metrics of a hub. A shared stream counts once for any number of viewers.
type metrics struct {
	latency   prometheus.Histogram
	frames    map[Sync]prometheus.Counter
	viewers   map[Sync]prometheus.Gauge
	resyncs   map[Reason]prometheus.Counter
	missed    prometheus.Counter
	conflated prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	frames := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dvt_frames_total",
		Help: "Frames returned by streams of runs; quiet ones repeat the state after 14 s. A shared stream counts once."},
		[]string{"kind"})
	viewers := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dvt_viewers",
		Help: "Streams of runs by the sync state shown last. A shared stream counts once."}, []string{"sync"})
	resyncs := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dvt_resyncs_total",
		Help: "Extra reads of watched runs, by cause."}, []string{"cause"})
	m := &metrics{
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dvt_commit_to_frame_seconds",
			Help: "Time from the commit of an event until a stream returns the frame with it, by the store's clock. " +
				"First frames and resets do not count.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}}),
		missed: prometheus.NewCounter(prometheus.CounterOpts{Name: "dvt_head_check_missed_total",
			Help: "Changes that a head check found because no message arrived in time."}),
		conflated: prometheus.NewCounter(prometheus.CounterOpts{Name: "dvt_stream_frames_conflated_total",
			Help: "Frames that newer ones replaced before their viewer read them."}),
		frames: map[Sync]prometheus.Counter{}, viewers: map[Sync]prometheus.Gauge{}, resyncs: map[Reason]prometheus.Counter{},
	}
	for _, kind := range []Sync{Live, Stale, Resyncing, Verifying, kindQuiet, kindReset} {
		m.frames[kind] = frames.WithLabelValues(strings.ToLower(string(kind)))
	}
	for _, sync := range []Sync{Live, Stale, Resyncing, Verifying} {
		m.viewers[sync] = viewers.WithLabelValues(strings.ToLower(string(sync)))
	}
	for _, cause := range []Reason{Gap, TailLoss, ProjectorLag, StoreDown, EpochChanged, Reconnected, overflowed} {
		m.resyncs[cause] = resyncs.WithLabelValues(strings.ToLower(string(cause)))
	}
	if r != nil {
		r.MustRegister(m.latency, frames, viewers, resyncs, m.missed, m.conflated)
	}
	return m
}
