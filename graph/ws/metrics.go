package ws

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// maxCodes limits the values of the label code, because error codes come from the executor. Further codes count as
// codeOther.
const maxCodes = 64

// Values of the label code where there is neither a close code nor an error code.
const (
	codeClient = "client" // the client closed the socket, or the connection was lost
	codeSlow   = "slow"   // the client did not read within the write timeout
	codeOther  = "other"  // an error without a code, or more than maxCodes codes
)

// metrics holds the collectors of a Server.
type metrics struct {
	viewers   prometheus.Gauge
	conflated prometheus.Counter
	slow      prometheus.Counter
	ended     *prometheus.CounterVec

	mu    sync.Mutex
	codes map[string]bool
}

func newMetrics() *metrics {
	return &metrics{
		codes: map[string]bool{},
		viewers: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dvt_shared_viewers",
			Help: "Subscriptions that are served by a group."}),
		conflated: prometheus.NewCounter(prometheus.CounterOpts{Name: "dvt_frames_conflated_total",
			Help: "Payloads that a viewer was not sent because a newer one followed before it could take them."}),
		slow: prometheus.NewCounter(prometheus.CounterOpts{Name: "dvt_slow_peers_dropped_total",
			Help: "Sockets and event streams whose peer did not read within the write timeout."}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dvt_streams_ended_total",
			Help: "Sockets by close code, and operations that ended by an error by its code."}, []string{"code"}),
	}
}

func (m *metrics) register(s *Server, r prometheus.Registerer) {
	if r == nil {
		return
	}
	r.MustRegister(m.viewers, m.conflated, m.slow, m.ended,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "dvt_sockets", Help: "Open sockets and event streams."},
			s.streams),
		prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "dvt_shared_groups", Help: "Executions that serve the viewers of shared subscriptions."},
			s.groups.count))
}

func (m *metrics) endedBy(errs gqlerror.List) {
	if len(errs) == 0 {
		return
	}
	code, _ := errs[0].Extensions["code"].(string)
	m.end(code)
}

func (m *metrics) end(code string) {
	m.mu.Lock()
	if code == "" || !m.codes[code] && len(m.codes) >= maxCodes {
		code = codeOther
	}
	m.codes[code] = true
	m.mu.Unlock()
	m.ended.WithLabelValues(code).Inc()
}
