package server

import (
	"log/slog"
	"math"

	"github.com/dvt-engine/dvt/control/health"
)

// liveCounts returns the counts of frames, lag and viewers of this process. It reads them from the registry of
// /metrics, so that the health history and the metrics agree.
func (p *parts) liveCounts() health.Counters {
	families, err := p.registry.Gather()
	if err != nil {
		// families contains the metrics that could be read
		p.log.Warn("some gauges could not be read; they keep their last value", slog.Any("error", err))
	}
	var out health.Counters
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case "dvt_frames_total":
				out.Frames += uint64(m.GetCounter().GetValue())
			case "dvt_commit_to_frame_seconds":
				h := m.GetHistogram()
				for _, b := range h.GetBucket() {
					out.Lag = append(out.Lag, health.LagBucket{UpTo: b.GetUpperBound(), Count: b.GetCumulativeCount()})
				}
				out.Lag = append(out.Lag, health.LagBucket{UpTo: math.Inf(1), Count: h.GetSampleCount()})
			case "dvt_shared_viewers":
				out.Viewers = int(m.GetGauge().GetValue())
			case "dvt_viewers":
				n := int(m.GetGauge().GetValue())
				out.Streams += n
				if m.GetLabel()[0].GetValue() == "stale" {
					out.Stale += n
				}
			}
		}
	}
	return out
}
