package executor_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

// contract: T229
func TestRunner_ShipsLinesWhileTheStepWorks(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Noop, struct{}{})
	execute(t, t.Context(), scriptedWorker(t, j, func(_ context.Context, _ executor.Task,
		h executor.Host) (executor.Result, error) {
		h.Print("stdout", "early")
		eventually(t, "the journal stores the line while the step works", func() bool { return j.log() == "stdout: early\n" })
		return executor.Result{}, nil
	}))
}

func TestRunner_SplitsATextWithLineBreaks(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Noop, struct{}{})
	execute(t, t.Context(), scriptedWorker(t, j, func(_ context.Context, _ executor.Task,
		h executor.Host) (executor.Result, error) {
		h.Print("dvt", "Binder Error\r\n\n  LINE 11\n")
		h.Print("stdout", "")
		return executor.Result{}, nil
	}))
	if got, want := j.log(), "dvt: Binder Error\ndvt: \ndvt:   LINE 11\nstdout: \n"; got != want {
		t.Errorf("log = %q, want %q", got, want)
	}
	for i, line := range j.lines {
		if line.No != int64(i)+1 {
			t.Errorf("line %d has the number %d", i+1, line.No)
		}
	}
}

// contract: T229
func TestRunner_DropsLinesWhileTheJournalIsSilent(t *testing.T) {
	t.Parallel()
	const half = 5000
	j := newJournal(t, plan.Noop, struct{}{})
	var silent atomic.Bool
	silent.Store(true)
	j.evidence = func(engine.Evidence) error {
		if silent.Load() {
			return store.ErrUnavailable
		}
		return nil
	}
	execute(t, t.Context(), scriptedWorker(t, j, func(_ context.Context, _ executor.Task,
		h executor.Host) (executor.Result, error) {
		began := time.Now()
		for i := range 20_000 {
			h.Print("stdout", fmt.Sprint("line ", i))
		}
		if took := time.Since(began); took > testtime.Of(5*time.Second) {
			t.Errorf("printing waited for the journal: %s", took)
		}
		silent.Store(false)
		eventually(t, "the journal stores the held lines", func() bool { return strings.Count(j.log(), "\n") == 2*half })
		return executor.Result{}, nil
	}))
	if len(j.lines) != 2*half || j.lines[half-1].Text != "line 4999" || j.lines[half].Stream != "dvt" ||
		!strings.Contains(j.lines[half].Text, "10001 lines were dropped") || j.lines[2*half-1].Text != "line 19999" {
		t.Errorf("%d lines, in the middle %+v, at the end %+v; want the first and the last 5000 with a note between",
			len(j.lines), j.lines[min(half, len(j.lines)-1)], j.lines[len(j.lines)-1])
	}
	for i, l := range j.lines {
		if l.No != int64(i+1) {
			t.Fatalf("line %d has the number %d", i+1, l.No)
		}
	}
}

// A step that prints faster than the journal stores lines waits, so that no line is lost. The test runs in virtual
// time, because on a busy machine a slow journal would count as silent.
// contract: T229
func TestRunner_LosesNoLineWhileTheJournalAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t, plan.Noop, struct{}{})
		var most atomic.Int64
		j.evidence = func(e engine.Evidence) error {
			most.Store(max(most.Load(), int64(len(e.Lines))))
			time.Sleep(time.Millisecond)
			return nil
		}
		const printers, each = 2, 50_000
		execute(t, t.Context(), scriptedWorker(t, j, func(_ context.Context, _ executor.Task,
			h executor.Host) (executor.Result, error) {
			var all sync.WaitGroup
			for p := range printers {
				all.Go(func() {
					for i := range each {
						h.Print("stdout", fmt.Sprint(p, " ", i))
					}
				})
			}
			all.Wait()
			return executor.Result{}, nil
		}))
		if len(j.lines) != printers*each || most.Load() > 2000 {
			t.Fatalf("the journal has %d of %d lines, at most %d in one call; want all, at most 2000 in one call", len(j.lines),
				printers*each, most.Load())
		}
		var next [printers]int
		for i, l := range j.lines {
			var p, n int
			if _, err := fmt.Sscan(l.Text, &p, &n); err != nil || l.No != int64(i+1) || n != next[p] {
				t.Fatalf("line %d has the number %d and the text %q, error %v; want each printer's lines in order", i+1, l.No,
					l.Text, err)
			}
			next[p]++
		}
	})
}

// A refusal of evidence is final. The runner sends nothing more and logs one line.
func TestRunner_RefusedEvidenceIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t, plan.Noop, struct{}{})
		calls := 0
		j.evidence = func(engine.Evidence) error {
			calls++
			return fmt.Errorf("%w: the attempt has an end", engine.ErrRefused)
		}
		began := time.Now()
		r := scriptedWorker(t, j, func(ctx context.Context, _ executor.Task, h executor.Host) (executor.Result, error) {
			h.Print("stdout", "one")
			time.Sleep(1500 * time.Millisecond) // the runner has shipped the first line
			h.Print("stdout", "two")
			if ref, err := h.Keep(ctx, "report", "report.json", []byte(`{}`)); err == nil {
				t.Errorf("a refused artifact was kept as %s", ref.URI)
			}
			return executor.Result{}, nil
		})
		log := captureLog(r)
		if end := execute(t, t.Context(), r); end.Completed == nil {
			t.Errorf("the log has %+v, want a completion", end.Failed)
		}
		if calls != 1 {
			t.Errorf("evidence was sent %d times, want once", calls)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the execution took %s: it waited for refused evidence", took)
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "the attempt has an end") {
			t.Errorf("want one line with the reason, got:\n%s", got)
		}
	})
}
