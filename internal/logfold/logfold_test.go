package logfold

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dvt-engine/dvt/run/trace"
)

// output collects lines.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// lines returns the lines so far, and forgets them.
func (o *output) lines(t *testing.T) (out []map[string]any) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for line := range strings.Lines(o.b.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("the line %q is no JSON: %v", line, err)
		}
		out = append(out, m)
	}
	o.b.Reset()
	return out
}

func newLog() (*slog.Logger, *Handler, *output) {
	out := &output{}
	h := New(slog.NewJSONHandler(out, nil))
	return slog.New(h), h, out
}

// An outage of ten minutes with a failure every 100 ms is the first line and one a minute, and no failure is lost.
func TestHandler_FoldsARepeatedFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, h, out := newLog()
		const failures = 6000
		total := 0
		for i := range failures {
			log.Warn("the store does not answer", slog.Int("try", i),
				slog.Any("error", fmt.Errorf("dial tcp 127.0.0.1:%d: refused", 40_000+i)))
			if i == 0 {
				if first := out.lines(t); len(first) != 1 || first[0]["count"] != nil {
					t.Fatalf("the first failure wrote %v, want its line at once and without a count", first)
				}
				total++
			}
			time.Sleep(100 * time.Millisecond)
		}
		h.Flush()
		lines := out.lines(t)
		for _, l := range lines {
			total += int(l["count"].(float64))
			if l["since"] == nil {
				t.Errorf("the line %v has no since", l)
			}
		}
		if total != failures {
			t.Errorf("the lines stand for %d failures, want %d", total, failures)
		}
		if len(lines) < 9 || len(lines) > 11 {
			t.Errorf("%d lines followed the first in ten minutes, want one a minute", len(lines))
		}
		if last := lines[len(lines)-1]; last["try"] != float64(failures-1) {
			t.Errorf("the last line is about try %v, want the last failure", last["try"])
		}
	})
}

// The line of the repetitions comes at the end of the minute, also when nothing is logged any more.
func TestHandler_WritesTheLastFailureOfAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, _, out := newLog()
		for i := range 3 {
			log.Error("refused", slog.Int("try", i))
		}
		time.Sleep(Every + time.Second)
		lines := out.lines(t)
		if len(lines) != 2 || lines[1]["try"] != 2.0 || lines[1]["count"] != 2.0 {
			t.Fatalf("three failures wrote %v, want the first, and the last with count 2", lines)
		}
		time.Sleep(Every) // the minute without a failure ends the outage
		log.Error("refused", slog.Int("try", 4))
		if again := out.lines(t); len(again) != 1 || again[0]["count"] != nil {
			t.Errorf("the next outage wrote %v, want its first line at once", again)
		}
	})
}

func TestHandler_KeepsDifferentLines(t *testing.T) {
	t.Parallel()
	log, h, out := newLog()
	for range 2 {
		log.Info("started")
		log.Warn("refused", slog.String("runId", "r1"))
		log.Warn("refused", slog.String("runId", "r2"))
		log.Error("refused", slog.String("runId", "r1"))
		log.With(slog.String("duty", "project")).Warn("stopped")
		log.With(slog.String("duty", "deliver")).Warn("stopped")
		log.WithGroup("a").Warn("stopped", slog.String("duty", "deliver"))
		log.Warn("refused", slog.Any("error", errors.New("bad gateway")))
		log.Warn("refused", slog.Any("error", errors.New("bad request")))
	}
	if n := len(out.lines(t)); n != 10 {
		t.Errorf("%d lines, want the two lines of INFO and each failure once", n)
	}
	h.Flush()
	if n := len(out.lines(t)); n != 8 {
		t.Errorf("%d lines at the end, want one for each of 8 failures that came again", n)
	}
}

// A process that fails in ever new ways keeps a bounded number of lines in memory, and writes them all.
func TestHandler_IsBounded(t *testing.T) {
	t.Parallel()
	log, h, out := newLog()
	h.fold.most = 10
	for i := range 100 {
		for range 2 {
			log.Warn("refused", slog.String("name", fmt.Sprint("n", i)))
		}
		if n := len(h.fold.kinds); n > 10 || n != len(h.fold.order) {
			t.Fatalf("%d failures are remembered, want at most 10", n)
		}
	}
	h.Flush()
	if n := len(out.lines(t)); n != 200 {
		t.Errorf("%d lines, want the first and the last of 100 failures", n)
	}
}

func TestHandler_AddsTheTraceOfTheRun(t *testing.T) {
	t.Parallel()
	log, _, out := newLog()
	log.Info("a", slog.String("runId", "r1"))
	log.With(slog.String("runId", "r1")).Warn("b")
	log.Info("c", slog.String("runId", "r1"), slog.String("traceId", "known"))
	log.Info("d")
	lines := out.lines(t)
	want := trace.IDOf("r1").String()
	for i, id := range []any{want, want, "known", nil} {
		if lines[i]["traceId"] != id {
			t.Errorf("line %d has the trace %v, want %v", i, lines[i]["traceId"], id)
		}
	}
}

// Several goroutines log and one flushes; run with -race.
func TestHandler_IsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	log, h, out := newLog()
	var g sync.WaitGroup
	for i := range 8 {
		g.Go(func() {
			for n := range 500 {
				log.Warn("refused", slog.String("name", fmt.Sprint(i%3)), slog.Int("try", n))
			}
		})
	}
	g.Go(func() {
		for range 50 {
			h.Flush()
		}
	})
	g.Wait()
	h.Flush()
	total := 0
	for _, l := range out.lines(t) {
		if n, ok := l["count"].(float64); ok {
			total += int(n)
		} else {
			total++
		}
	}
	if total != 4000 {
		t.Errorf("the lines stand for %d failures, want 4000", total)
	}
}
