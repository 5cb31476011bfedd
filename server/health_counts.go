package server

import (
	"log/slog"
	"math"

	"github.com/dvt-engine/dvt/control/health"
)

// counted reads what this process has counted of what it shows from where /metrics reads it.
func (p *parts) counted() health.Counted {
	families, err := p.registry.Gather()
	if err != nil {
		// what could be read is there
		p.log.Warn("some gauges could not be read; they keep their last value", slog.Any("error", err))
	}
	var out health.Counted
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
