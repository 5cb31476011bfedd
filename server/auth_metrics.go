package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/graph"
)

// newAuthFailures registers dvt_auth_failures_total with every kind at 0, so that an alert rule sees the first failure
// of a kind as an increase.
func newAuthFailures(r prometheus.Registerer) func(kind string) {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dvt_auth_failures_total", Help: "Requests whose sender could not be authenticated, by kind.",
	}, []string{"kind"})
	for _, kind := range graph.FailureKinds() {
		c.WithLabelValues(kind)
	}
	r.MustRegister(c)
	return func(kind string) { c.WithLabelValues(kind).Inc() }
}
