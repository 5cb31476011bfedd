package server

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/plan"
)

// supervisorTimes contains the intervals and limits of a supervisor.
type supervisorTimes struct {
	probeEvery time.Duration // interval between probes
	startEvery time.Duration // interval until the server has answered once
	probe      time.Duration // time limit of one probe
	silence    time.Duration // kill a server that stops answering for this long
	start      time.Duration // kill a server that has not answered this long after its start
	backoff    time.Duration // delay before the first restart; it doubles with each restart
	maxBackoff time.Duration
	healthy    time.Duration // reset the backoff after answering this long
	giveUp     int           // use slow as the backoff after this many starts in a row without an answer
	slow       time.Duration
}

// supervisionTimes are the values for `dvt dev`. They are not settings, because no dev server needs other values.
// silence has room for three probes that take their full time.
var supervisionTimes = supervisorTimes{ //nolint:gochecknoglobals // a table
	probeEvery: 2 * time.Second, startEvery: 100 * time.Millisecond, probe: 5 * time.Second,
	silence: 15 * time.Second, start: time.Minute,
	backoff: 300 * time.Millisecond, maxBackoff: 30 * time.Second, healthy: 2 * time.Minute,
	giveUp: 20, slow: 5 * time.Minute,
}

// supervisedHealth tracks the health of a supervised server. It computes the delay before a restart, logs each change
// once, and provides the text for health checks. It is safe for concurrent use.
type supervisedHealth struct {
	times   supervisorTimes
	logFile string // the server's own log
	log     *slog.Logger
	first   chan struct{} // closed at the first answer

	mu       sync.Mutex
	state    supervisedState
	since    time.Time // when state began
	cause    string    // why the server ended, or why it may be killed soon; "" while it answers
	wait     time.Duration
	restarts int       // since the server was last healthy
	failed   int       // starts in a row without one answer
	broken   time.Time // when the server last stopped answering; zero at its first start
}

type supervisedState int

const (
	stateStarting  supervisedState = iota // no answer yet
	stateAnswering                        // the last probe was answered
	stateDoubted                          // it answered before, and the last probes failed
	stateEnded                            // no process; the supervisor starts one after wait
)

func newSupervisedHealth(times supervisorTimes, logFile string, log *slog.Logger) *supervisedHealth {
	return &supervisedHealth{times: times, logFile: logFile, log: log, first: make(chan struct{}), since: time.Now()}
}

func (h *supervisedHealth) enter(s supervisedState) { h.state, h.since = s, time.Now() }

func (h *supervisedHealth) noteStart() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enter(stateStarting)
}

func (h *supervisedHealth) noteAnswer() {
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

// noteFailedProbe records a failed probe and its cause.
func (h *supervisedHealth) noteFailedProbe(cause string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == stateAnswering {
		h.enter(stateDoubted)
	}
	if h.state == stateDoubted {
		h.cause = cause // during a start, cause still describes the previous process
	}
}

// noteEnd records why there is no process, and returns the delay before the next start.
func (h *supervisedHealth) noteEnd(cause string) time.Duration {
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
	if doublings := h.restarts - 1; doublings < 16 { // larger shifts could overflow
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

// advice returns the remedy for a server that does not start, as part of a sentence.
func (h *supervisedHealth) advice() string {
	return fmt.Sprintf(
		"read %s, remove the cause (a full disk, too little memory, a damaged file), or start dvt dev with --temporal "+
			"HOST:PORT; dvt tries again every %s", h.logFile, plan.DurationWords(h.times.slow))
}

func (h *supervisedHealth) lastCause() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// trouble explains why the server does not answer and how dvt reacts; "" when there is no known problem.
func (h *supervisedHealth) trouble() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.state == stateAnswering || h.cause == "":
		return ""
	case h.state == stateDoubted:
		return fmt.Sprintf("The embedded Temporal server %s. dvt starts it again when this lasts for %s.", h.cause,
			plan.DurationWords(h.times.silence))
	case h.failed >= h.times.giveUp:
		return fmt.Sprintf("The embedded Temporal server %s, and did not come up %d times in a row: %s.", h.cause, h.failed,
			h.advice())
	case h.state == stateEnded:
		in := plan.DurationWords(h.wait - time.Since(h.since))
		return fmt.Sprintf("The embedded Temporal server %s. dvt starts it again in %s (restart %d).", h.cause, in,
			h.restarts)
	default:
		return fmt.Sprintf(
			"The embedded Temporal server %s. dvt started it again %s ago (restart %d) and waits until it answers.", h.cause,
			plan.DurationWords(time.Since(h.since)), h.restarts)
	}
}
