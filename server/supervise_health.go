package server

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// supervisorTimes are the times and bounds of a supervisor.
type supervisorTimes struct {
	probeEvery time.Duration // from one probe to the next
	startEvery time.Duration // the same until the server has answered once
	probe      time.Duration // how long one probe may take
	silence    time.Duration // after which a server that answered before is killed
	start      time.Duration // how long a server has until its first answer
	backoff    time.Duration // before the first restart; it doubles with each one
	maxBackoff time.Duration
	healthy    time.Duration // after which the backoff begins at its minimum again
	giveUp     int           // starts in a row without one answer, after which slow is the backoff
	slow       time.Duration
}

// supervisionTimes are those of `dvt dev`. They are no settings: nobody runs a dev server whose right values differ.
// silence has room for three probes that take their full time.
var supervisionTimes = supervisorTimes{ //nolint:gochecknoglobals // a table
	probeEvery: 2 * time.Second, startEvery: 100 * time.Millisecond, probe: 5 * time.Second,
	silence: 15 * time.Second, start: time.Minute,
	backoff: 300 * time.Millisecond, maxBackoff: 30 * time.Second, healthy: 2 * time.Minute,
	giveUp: 20, slow: 5 * time.Minute,
}

// supervisedHealth is what a supervisor knows of its server. It decides how long to wait before a restart, and says
// what happens in the log, once for each change, and to health. It is safe for concurrent use.
type supervisedHealth struct {
	times   supervisorTimes
	logFile string // of the server
	log     *slog.Logger
	first   chan struct{} // closed at the first answer

	mu       sync.Mutex
	state    supervisedState
	since    time.Time // when state began
	cause    string    // why the server was ended, or why it may be soon; "" while it answers
	wait     time.Duration
	restarts int       // since the server was healthy
	failed   int       // starts in a row without one answer
	broken   time.Time // when the server last stopped answering; zero at its first start
}

type supervisedState int

const (
	stateStarting  supervisedState = iota // no answer yet
	stateAnswering                        // the last probe was answered
	stateDoubted                          // it answered before, and the last probes failed
	stateEnded                            // no process; one is started after wait
)

func newSupervisedHealth(times supervisorTimes, logFile string, log *slog.Logger) *supervisedHealth {
	return &supervisedHealth{times: times, logFile: logFile, log: log, first: make(chan struct{}), since: time.Now()}
}

func (h *supervisedHealth) enter(s supervisedState) { h.state, h.since = s, time.Now() }

func (h *supervisedHealth) started() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enter(stateStarting)
}

func (h *supervisedHealth) answered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cause, h.failed = "", 0
	if h.state == stateAnswering {
		if time.Since(h.since) >= h.times.healthy {
			h.restarts = 0
		}
		return
	}
	if h.state == stateStarting {
		if h.restarts > 0 {
			h.log.Info("the embedded Temporal server answers again",
				slog.Int("restart", h.restarts), slog.Duration("after", time.Since(h.broken).Round(time.Millisecond)))
		}
		h.broken = time.Time{}
		select {
		case <-h.first:
		default:
			close(h.first)
		}
	}
	h.enter(stateAnswering)
}

// doubted records that a probe failed, and why.
func (h *supervisedHealth) doubted(cause string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == stateAnswering {
		h.enter(stateDoubted)
	}
	if h.state == stateDoubted {
		h.cause = cause // while it starts, the cause is that of the process before
	}
}

// ended records why there is no process, and returns how long to wait before the next one is started.
func (h *supervisedHealth) ended(cause string) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == stateStarting {
		h.failed++
	}
	if h.broken.IsZero() {
		h.broken = time.Now()
		if h.state == stateDoubted {
			h.broken = h.since
		}
	}
	h.cause = cause
	h.restarts++
	h.wait = h.times.maxBackoff
	if doublings := h.restarts - 1; doublings < 16 { // no overflow
		h.wait = min(h.times.backoff<<doublings, h.times.maxBackoff)
	}
	switch {
	case h.failed < h.times.giveUp:
		h.log.Warn("the embedded Temporal server is started again", slog.String("why", "it "+cause),
			slog.Int("restart", h.restarts), slog.Duration("in", h.wait), slog.String("log", h.logFile))
	default:
		h.wait = h.times.slow
		if h.failed == h.times.giveUp {
			h.log.Error("the embedded Temporal server did not come up",
				slog.String("why", "it "+cause), slog.Int("starts", h.failed), slog.String("do", h.advice()))
		}
	}
	h.enter(stateEnded)
	return h.wait
}

// advice is what a person can do about a server that does not come up.
func (h *supervisedHealth) advice() string {
	return fmt.Sprintf("read %s, remove the cause (a full disk, too little memory, a damaged file), or start dvt dev with --temporal HOST:PORT; "+
		"dvt tries again every %s", h.logFile, h.times.slow)
}

func (h *supervisedHealth) lastCause() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// trouble says why the server does not answer and what dvt does about it; "" when the supervisor knows of nothing.
func (h *supervisedHealth) trouble() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	took := time.Since(h.since).Round(time.Second)
	switch {
	case h.state == stateAnswering || h.cause == "":
		return ""
	case h.state == stateDoubted:
		return fmt.Sprintf("The embedded Temporal server %s. dvt starts it again when this lasts for %s.", h.cause, h.times.silence)
	case h.failed >= h.times.giveUp:
		return fmt.Sprintf("The embedded Temporal server %s, and did not come up %d times in a row: %s.", h.cause, h.failed, h.advice())
	case h.state == stateEnded:
		in := max(0, h.wait-time.Since(h.since)).Round(100 * time.Millisecond)
		return fmt.Sprintf("The embedded Temporal server %s. dvt starts it again in %s (restart %d).", h.cause, in, h.restarts)
	default:
		return fmt.Sprintf("The embedded Temporal server %s. dvt started it again %s ago (restart %d) and waits until it answers.", h.cause, took, h.restarts)
	}
}
