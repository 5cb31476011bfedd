package live_test

import (
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/store"
)

func TestHub_MetricsCountFramesAndViewers(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	runScenario(t, 10, live.Config{Metrics: r}, func(s *fixture) {
		a, b := s.watch(), s.watch()
		s.expect(a, isLive(10))
		s.expect(b, isLive(10))
		is := func(want map[string]float64) {
			t.Helper()
			got := samples(t, r)
			for name, n := range want {
				if got[name] != n {
					t.Errorf("%s is %v, want %v", name, got[name], n)
				}
			}
		}
		is(map[string]float64{`dvt_frames_total live`: 2, `dvt_viewers live`: 2, `dvt_stream_frames_conflated_total`: 0})
		s.step()
		s.expect(a, isLive(11))
		s.step()
		s.expect(a, isLive(12))
		is(map[string]float64{`dvt_frames_total live`: 4, `dvt_stream_frames_conflated_total`: 1})
		if n, _ := histogram(t, r, "dvt_commit_to_frame_seconds"); n != 2 {
			t.Errorf("%d latencies, want 2: first frames do not count", n)
		}
		s.expect(b, isLive(12))
		s.next(a) // a quiet frame
		is(map[string]float64{`dvt_frames_total quiet`: 1})
		b.Close()
		is(map[string]float64{`dvt_viewers live`: 1})
		s.store.grow(testRunID, 2)
		s.send(s.store.message(testRunID, 13, 14))
		s.expect(a, frameSummary{live.Stale, live.Gap, 12, 14, false})
		is(map[string]float64{`dvt_viewers live`: 0, `dvt_viewers stale`: 1, `dvt_resyncs_total gap`: 1})
		s.expect(a, frameSummary{live.Resyncing, live.Gap, 12, 14, false}, isLive(14))
		s.store.grow(testRunID, 1)
		s.expect(a, frameSummary{live.Stale, live.TailLoss, 14, 15, false}, frameSummary{live.Resyncing, live.TailLoss, 14,
			15, false},
			isLive(15))
		is(map[string]float64{`dvt_resyncs_total tail_loss`: 1, `dvt_head_check_missed_total`: 1})
		s.bus.deliver(testRunID, live.Delivery{Confirmed: true})
		s.expect(a, frameSummary{live.Verifying, live.Reconnected, 15, 15, false}, isLive(15))
		s.store.restore(testRunID, 11, "e2")
		s.expect(a, frameSummary{live.Resyncing, live.EpochChanged, 11, 11, true}, isLive(11))
		is(map[string]float64{
			`dvt_resyncs_total reconnected`: 1, `dvt_resyncs_total epoch_changed`: 1, `dvt_frames_total reset`: 1,
			`dvt_frames_total resyncing`: 2, `dvt_frames_total verifying`: 1, `dvt_frames_total stale`: 2,
			`dvt_head_check_missed_total`: 1,
		})
		s.bus.deliver(testRunID, live.Delivery{Overflow: true})
		synctest.Wait()
		s.store.fail(store.ErrUnavailable)
		s.expect(a, frameSummary{live.Stale, live.StoreDown, 11, 11, false})
		s.store.fail(nil)
		s.expect(a, frameSummary{live.Verifying, live.StoreDown, 11, 11, false})
		is(map[string]float64{`dvt_resyncs_total overflow`: 1, `dvt_resyncs_total store_down`: 1, `dvt_viewers verifying`: 1})
		a.Close()
		for sync := range map[string]bool{"live": true, "stale": true, "verifying": true, "resyncing": true} {
			is(map[string]float64{"dvt_viewers " + sync: 0})
		}
	})
}

// samples returns counters and gauges by name and label value.
func samples(t *testing.T, r prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			out[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

func histogram(t *testing.T, r prometheus.Gatherer, name string) (n uint64, sum float64) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.Metric[0].Histogram.GetSampleCount(), f.Metric[0].Histogram.GetSampleSum()
		}
	}
	t.Fatalf("metric %s is missing", name)
	return 0, 0
}
