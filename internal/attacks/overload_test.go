package attacks_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// holdingProxy is a proxy between a data worker and the server. While it is closed it accepts calls and answers none.
type holdingProxy struct {
	*httptest.Server
	closed  atomic.Bool
	waiting atomic.Int64 // begins that wait for an answer
	opened  chan struct{}
}

func newHoldingProxy(t *testing.T, server string) *holdingProxy {
	t.Helper()
	target, err := url.Parse(server)
	must(t, err)
	l := &holdingProxy{opened: make(chan struct{})}
	l.closed.Store(true)
	forward := httputil.NewSingleHostReverseProxy(target)
	l.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		if l.closed.Load() {
			body, _ := io.ReadAll(q.Body)
			if strings.HasSuffix(q.URL.Path, "/begin") || strings.Contains(string(body), `"begin"`) {
				l.waiting.Add(1)
			}
			<-l.opened
			rw.WriteHeader(http.StatusBadGateway) // the call did not reach the server
			return
		}
		forward.ServeHTTP(rw, q)
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *holdingProxy) open() { l.closed.Store(false); close(l.opened) }

// A data worker is stopped right after it took tasks, for longer than the heartbeat timeout. It has begun none of them.
//
// contract: T216, E-08
func TestStepsThatNeverBegan_AreNotFailedWhenTheirWorkerStops(t *testing.T) {
	t.Parallel()
	w := installation(t)
	l := newHoldingProxy(t, w.url)
	worker := w.spawnFor(t, "frozen data worker", acmeWorker, queueFrozen, l.URL)
	const parallel = 14
	var steps []step
	for i := range parallel {
		steps = append(steps, command(fmt.Sprintf("s%02d", i), queueFrozen, "true"))
	}
	runID := w.startRun(t, operator, "shop", steps...)
	waitUntil(t, "the worker has taken ten tasks", time.Minute, func() bool { return l.waiting.Load() >= 10 })
	worker.signal(t, syscall.SIGSTOP)
	time.Sleep(2*heartbeat + 2*time.Second)
	l.open()
	worker.signal(t, syscall.SIGCONT)
	last := w.expectEnd(t, operator, runID, "COMPLETED", time.Minute)
	for _, s := range last.Steps {
		if s.Error != nil && s.Error.Code == "TIMEOUT" {
			t.Errorf("the step %s never began and failed: %+v", s.StepID, *s.Error)
		}
		if s.StatusRaw != "SUCCESS" || s.LogicalAttemptID != 1 || s.EngineAttemptID != 1 {
			t.Errorf("the step %s is %s after attempt %d, engine attempt %d, want SUCCESS, 1 and 1", s.StepID, s.StatusRaw,
				s.LogicalAttemptID, s.EngineAttemptID)
		}
	}
}
