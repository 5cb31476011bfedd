package ws_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/graph/ws"
)

// ends returns dvt_streams_ended_total by code.
func ends(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "dvt_streams_ended_total" {
				by[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return by
}

func TestMetrics_CountOpenStreamsAndHowTheyEnd(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	source := newCounter(0)
	s := start(t, ws.Config{Share: sharing(source.open), Metrics: registry}, panicIfAlone)
	c, d := s.open(t), s.open(t)
	c.subscribe("1", subscription)
	c.subscribe("2", "subscription { b }")
	d.subscribe("1", subscription)
	for _, c := range []*client{c, c, d} {
		c.next()
	}
	for name, want := range map[string]float64{"dvt_sockets": 2, "dvt_shared_groups": 2, "dvt_shared_viewers": 3,
		"dvt_frames_conflated_total": 0, "dvt_slow_peers_dropped_total": 0} {
		if got := metric(t, registry, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	source.advance(0, errors.New("RESYNC_FAILED"))
	for _, c := range []*client{c, c, d} {
		c.next()
	}
	c.send(`{"type":"start"}`)
	c.expectClose(4400)
	d.Close()
	eventually(t, 5*time.Second, "every end is counted by its code", func() bool {
		return fmt.Sprint(ends(t, registry)) == "map[4400:1 OTHER:3 client:1]"
	})
	for _, name := range []string{"dvt_sockets", "dvt_shared_groups", "dvt_shared_viewers"} {
		eventually(t, 5*time.Second, name+" is 0 at the end", func() bool { return metric(t, registry, name) == 0 })
	}
}
