package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/internal/machine"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testtime"
)

// logBuffer keeps the lines of a logger.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// count returns how many lines contain all words.
func (b *logBuffer) count(words ...string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
lines:
	for line := range strings.Lines(b.buf.String()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		n++
	}
	return n
}

func newTestHealth() (*supervisedHealth, *logBuffer) {
	lines := &logBuffer{}
	return newSupervisedHealth(supervisionTimes, "/data/temporal/server.log", slog.New(slog.NewTextHandler(lines, nil))),
		lines
}

func TestSupervisedHealth_BackoffDoublesAndBeginsAgainAfterTwoMinutesOfHealth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, lines := newTestHealth()
		fail := func() time.Duration {
			h.noteStart()
			h.noteAnswer()
			time.Sleep(time.Second)
			h.noteFailedProbe("has failed for 1s: interrupted (9)")
			return h.noteEnd("has failed for 15s: interrupted (9)")
		}
		for i, want := range []time.Duration{
			300 * time.Millisecond, 600 * time.Millisecond, 1200 * time.Millisecond, 2400 * time.Millisecond,
			4800 * time.Millisecond,
			9600 * time.Millisecond, 19200 * time.Millisecond, 30 * time.Second, 30 * time.Second,
		} {
			if got := fail(); got != want {
				t.Errorf("restart %d waits %s, want %s", i+1, got, want)
			}
		}
		for range 100 {
			fail()
		}
		if got := fail(); got != 30*time.Second {
			t.Errorf("a server that answers after every restart waits %s, want 30s for ever", got)
		}
		h.noteStart()
		for range 62 {
			h.noteAnswer()
			time.Sleep(2 * time.Second)
		}
		if got := h.noteEnd("ended: signal: killed"); got != 300*time.Millisecond {
			t.Errorf("after two minutes of health a restart waits %s, want 300ms", got)
		}
		if n := lines.count("level=ERROR"); n != 0 {
			t.Errorf("%d ERROR lines about a server that answers after every restart, want none", n)
		}
	})
}

func TestSupervisedHealth_GivesUpOnceAndRetriesSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, lines := newTestHealth()
		h.noteStart()
		h.noteAnswer()
		if got := h.trouble(); got != "" {
			t.Errorf("a server that answers has the trouble %q, want none", got)
		}
		time.Sleep(time.Hour)
		h.noteAnswer()
		time.Sleep(h.noteEnd("ended: exit status 1"))
		const starts = 25
		var waited time.Duration
		for i := 1; i <= starts; i++ {
			h.noteStart()
			if want := fmt.Sprintf("(restart %d)", i); i <= 20 && !strings.Contains(h.trouble(), want) {
				t.Errorf("start %d: health says %q, want %s", i, h.trouble(), want)
			}
			waited = h.noteEnd("ended: exit status 1")
			if slow := waited == 5*time.Minute; slow != (i >= 20) {
				t.Errorf("after %d starts without an answer the next one is in %s", i, waited)
			}
		}
		if got := h.trouble(); !strings.Contains(
			got, "ended: exit status 1, and did not come up 25 times in a row: read /data/temporal/server.log") {
			t.Errorf("after giving up health says %q", got)
		}
		if n := lines.count("level=ERROR", "did not come up", `do="read /data/temporal/server.log`); n != 1 {
			t.Errorf("%d ERROR lines, want 1", n)
		}
		if n := lines.count("level=WARN", "is started again"); n != 20 {
			t.Errorf("%d WARN lines, want one for each of 20 restarts", n)
		}
		h.noteStart()
		h.noteAnswer()
		if n := lines.count("level=INFO", "answers again"); n != 1 || h.trouble() != "" {
			t.Errorf("%d INFO lines after it recovered, want 1; trouble %q, want none", n, h.trouble())
		}
		h.noteEnd("ended: exit status 1")
		for range 19 {
			h.noteStart()
			waited = h.noteEnd("ended: exit status 1")
		}
		if n := lines.count("level=ERROR"); n != 1 || waited != 30*time.Second {
			t.Errorf("19 starts after an answer made %d ERROR lines and wait %s, want still 1 and 30s", n, waited)
		}
	})
}

func TestSupervisedHealth_ASlowProbeIsNoTroubleForTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, lines := newTestHealth()
		h.noteStart()
		for range 10 {
			h.noteAnswer()
			h.noteFailedProbe("has not answered for 5s")
			if want := "The embedded Temporal server has not answered for 5s. dvt starts it again when this lasts for 15 s."; h.trouble() != want {
				t.Errorf("health says %q, want %q", h.trouble(), want)
			}
		}
		h.noteAnswer()
		if h.trouble() != "" || lines.count("") != 0 {
			t.Errorf("trouble %q and %d lines of log, want none", h.trouble(), lines.count(""))
		}
	})
}

// probeResult is the duration and the error of one probe.
type probeResult struct {
	takes time.Duration
	err   error
}

func TestWatch_EndsWhenThreeProbesInARowFailedForLongEnough(t *testing.T) {
	t.Parallel()
	good, slow := probeResult{}, probeResult{5 * time.Second, context.DeadlineExceeded}
	refused, lost := probeResult{0, errors.New("connection refused")}, probeResult{0,
		fmt.Errorf("%w: dvt", temporal.ErrNoNamespace)}
	for _, tc := range []struct {
		name   string
		probes []probeResult // the last one repeats
		cause  string        // "" means that watch goes on for ten minutes
		after  time.Duration
	}{
		{"a good server is left alone", []probeResult{good}, "", 0},
		{"two slow probes between good ones are no reason", []probeResult{good, slow, slow, good}, "", 0},
		{"one probe that lasts a minute, because dvt was stopped, is no reason", []probeResult{good,
			{time.Minute, context.DeadlineExceeded}, good}, "", 0},
		{"a server that hangs has 15 s", []probeResult{good, slow}, "has not answered for 15 s", 17 * time.Second},
		{"a server that loses its namespace has 15 s", []probeResult{good, lost},
			"has answered for 16 s that its namespace dvt is not found", 18 * time.Second},
		{"a server that fails has 15 s", []probeResult{good, refused}, "has failed for 16 s: connection refused",
			18 * time.Second},
		{"a server that starts has a minute", []probeResult{refused}, "has failed for 1 min: connection refused",
			time.Minute},
		{"a server that starts within a minute is left alone", append(slices.Repeat([]probeResult{slow}, 11), good), "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				health, _ := newTestHealth()
				next := 0
				server := &temporalServer{namespace: "dvt", health: health, ping: func(context.Context, temporal.Connection) error {
					p := tc.probes[min(next, len(tc.probes)-1)]
					next++
					time.Sleep(p.takes)
					return p.err
				}}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				began := time.Now()
				cause := server.watch(ctx)
				if cause != tc.cause {
					t.Errorf("the cause is %q, want %q", cause, tc.cause)
				}
				if took := time.Since(began); tc.cause != "" && took != tc.after {
					t.Errorf("it took %s, want %s", took, tc.after)
				}
			})
		})
	}
}

func TestKeepWorking_StartsAWorkerAgainThatEndedBeforeItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		runs := 0
		err := keepWorking(ctx, func() error {
			if runs++; runs == 3 {
				cancel()
				return nil
			}
			return errors.New("namespace dvt is not found")
		}, slog.New(slog.DiscardHandler))
		if err != nil || runs != 3 {
			t.Errorf("the worker ran %d times and ended with %v, want 3 and none", runs, err)
		}
	})
}

// startFakeTemporal starts a supervisor with short times that runs a script instead of the Temporal CLI.
func startFakeTemporal(t *testing.T, times supervisorTimes, script string) (*temporalServer, *logBuffer) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "temporal")
	if err := os.WriteFile(bin, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	lines := &logBuffer{}
	log := slog.New(slog.NewTextHandler(lines, nil))
	server, err := newTemporalServer(t.Context(),
		config.Config{Data: t.TempDir(), TemporalBinary: bin, TemporalNamespace: "dvt"}, log)
	if err != nil {
		t.Fatal(err)
	}
	server.health = newSupervisedHealth(times, server.logFile(), log)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); server.run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return server, lines
}

// eventually waits until holds returns true.
func eventually(t *testing.T, patience time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testtime.Of(patience)); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("condition not met within %s: %s", patience, what)
		}
	}
}

// The script starts a child and answers nothing until the test points it at the real Temporal CLI.
func TestTemporalServer_ComesBackAfterItWasGivenUp(t *testing.T) {
	t.Parallel()
	cli, err := findTemporal("../.tools/bin/temporal")
	if err != nil {
		t.Fatal(err)
	}
	times := supervisionTimes
	times.probe, times.start, times.giveUp, times.slow = time.Second, testtime.Of(3*time.Second), 2, 200*time.Millisecond
	server, lines := startFakeTemporal(t, times, `
cd "$HOME"
echo the disk is full
if [ -e mended ]; then exec `+cli+` "$@"; fi
sleep 600 & echo $! >> children; wait`)
	if err := server.ready(t.Context()); err == nil || !strings.Contains(err.Error(), "did not come up") ||
		!strings.Contains(err.Error(), "server.log") {
		t.Errorf("ready: %v, want a sentence that names the log", err)
	}
	eventually(t, 15*time.Second, "the supervisor gives up",
		func() bool { return lines.count("level=ERROR", "did not come up", `do="read `) == 1 })
	if got := server.health.trouble(); !strings.Contains(got, "did not come up 2 times in a row: read "+server.logFile()) {
		t.Errorf("health says %q, want that the server did not come up 2 times", got)
	}
	if err := os.WriteFile(filepath.Join(server.dir, "mended"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the server answers",
		func() bool { return lines.count("level=INFO", "answers again") == 1 })
	if got := server.health.trouble(); got != "" {
		t.Errorf("health says %q of a server that answers, want nothing", got)
	}
	b, err := os.ReadFile(filepath.Join(server.dir, "children"))
	if err != nil || len(strings.Fields(string(b))) < 2 {
		t.Fatalf("the script started %q (%v), want at least two children", b, err)
	}
	for _, pid := range strings.Fields(string(b)) {
		n, _ := strconv.Atoi(pid)
		eventually(t, 2*time.Second, "child "+pid+" of a killed server ends", func() bool { return machine.StartOf(n) == "" })
	}
}

func TestTemporalServer_LogKeepsTheOutputOfEveryProcess(t *testing.T) {
	t.Parallel()
	times := supervisionTimes
	times.backoff, times.maxBackoff, times.giveUp, times.slow = time.Millisecond, time.Millisecond, 5, time.Hour
	server, lines := startFakeTemporal(t, times, `echo "the disk is full"; exit 7`)
	eventually(t, 10*time.Second, "the supervisor gives up",
		func() bool { return lines.count("level=ERROR", "ended: exit status 7") == 1 })
	b, err := os.ReadFile(server.logFile())
	if err != nil || strings.Count(string(b), "the disk is full") != 5 {
		t.Errorf("the log is %q (%v), want the words of five processes", b, err)
	}
}

// Otherwise the message sends the reader to a log that says nothing.
func TestTemporalServer_AnEndWithoutOutputIsNamed(t *testing.T) {
	t.Parallel()
	_, lines := startFakeTemporal(t, supervisionTimes, `exit 1`)
	eventually(t, 10*time.Second, "the supervisor names the end",
		func() bool { return lines.count("level=WARN", "it ended without output: exit status 1") > 0 })
}

func TestTemporalServer_LargeLogIsRotatedOnce(t *testing.T) {
	t.Parallel()
	server := &temporalServer{dir: t.TempDir()}
	for i, size := range []int{0, logLimit + 1, 0, logLimit + 1} {
		out, err := server.openLog()
		if err != nil {
			t.Fatal(err)
		}
		_, err = out.Write(bytes.Repeat([]byte{'a' + byte(i)}, size))
		if err := errors.Join(err, out.Close()); err != nil {
			t.Fatal(err)
		}
	}
	out, err := server.openLog()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	old, err := os.ReadFile(server.logFile() + ".1")
	if err != nil || bytes.IndexByte(old, 'd') < 0 || bytes.IndexByte(old, 'b') >= 0 {
		t.Errorf("server.log.1 has %d bytes (%v), want the latest log that was put away", len(old), err)
	}
	if info, err := out.Stat(); err != nil || info.Size() > 200 {
		t.Errorf("the new log has %d bytes (%v), want only its first line", info.Size(), err)
	}
	if err := syscall.Access(server.logFile()+".2", 0); err == nil {
		t.Error("there is a third log")
	}
}
