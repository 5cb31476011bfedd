package runs

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestSignalRates_TellTheBusiestRunOfTheLastMinute(t *testing.T) {
	t.Parallel()
	now, r := time.Unix(1000, 0), prometheus.NewRegistry()
	s := NewSignalRates(r, func(tenant string) string { return tenant }, func() time.Time { return now })
	rates := func() map[string]float64 {
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				out[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
		return out
	}
	for range 3 {
		s.note("acme", "busy")
	}
	s.note("acme", "calm")
	now = now.Add(40 * time.Second)
	s.note("globex", "other")
	if got := rates(); got["acme"] != 3 || got["globex"] != 1 {
		t.Errorf("the rates are %v, want 3 of acme and 1 of globex", got)
	}
	now = now.Add(30 * time.Second)
	if got := rates(); len(got) != 1 || got["globex"] != 1 {
		t.Errorf("70 s after the signals of acme the rates are %v, want only 1 of globex", got)
	}
	for i := range maxRatedRuns + 5 {
		s.note("acme", fmt.Sprint(i))
	}
	if len(s.runs) != maxRatedRuns {
		t.Errorf("%d runs are counted, want at most %d", len(s.runs), maxRatedRuns)
	}
}
