package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
)

func (s *session) watchCommand() *cobra.Command {
	var latency bool
	c := &cobra.Command{
		Use: "watch RUN", Short: "Watch a run until it ends; status 0 only when it completed", Args: exact(1),
		Long: `Watch a run until it ends; status 0 only when it completed.

With --latency each frame with news also says how old the newest fact that it shows is when it comes here:
from the moment that the store committed it, by the store's clock, to its receipt. At the end, or on Ctrl-C,
a summary follows; with -o json it is the last object. This machine's clock is set against the store's by
five questions at first and every minute: the store says its time at some moment between a question and its
answer, so a latency may be off by half of the fastest round trip, which the summary says as ±.`,
		RunE: func(c *cobra.Command, args []string) error {
			if latency {
				return s.watchLatency(c.Context(), args[0])
			}
			return s.watch(c.Context(), args[0])
		},
	}
	c.Flags().BoolVar(&latency, "latency", false, "say how old news is when it comes, and sum it up at the end")
	return c
}

var errOver = errors.New("the run is over")

// watch prints what changes, one line a fact, and says when the view may be old.
func (s *session) watch(ctx context.Context, runID string) error {
	return s.follows(ctx, runID, &watcher{s: s, steps: map[string]string{}})
}

// watchLatency is watch that measures what comes.
func (s *session) watchLatency(ctx context.Context, runID string) error {
	w := &watcher{s: s, steps: map[string]string{}, latencies: &latencies{}}
	ask := func(ctx context.Context) (time.Time, error) { return s.client.StoreTime(ctx, runID) }
	if err := w.latencies.clock.set(ctx, ask); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // Ctrl-C before anything was to be said
		}
		return failure(err)
	}
	asking, stop := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { w.latencies.clock.keep(asking, ask) })
	err := s.follows(ctx, runID, w)
	stop()
	keeping.Wait()
	return errors.Join(err, w.latencies.report(s))
}

// follows prints what w sees.
func (s *session) follows(ctx context.Context, runID string, w *watcher) error {
	err := s.client.Watch(ctx, runID, w.frame)
	if !errors.Is(err, errOver) {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // Ctrl-C is how one stops watching
		}
		return failure(err)
	}
	if w.status != string(client.RunStatusCompleted) {
		return &exitError{status: 1, err: fmt.Errorf("the run ended %s", w.status)}
	}
	return nil
}

type watcher struct {
	s         *session
	status    string
	sync      client.SyncState
	steps     map[string]string
	latencies *latencies // nil: they are not measured
}

func (w *watcher) frame(f client.WatchRunRunUpdatesRunUpdate) error {
	if w.latencies != nil {
		if ms, news := w.latencies.frame(f); news {
			defer w.line(f.AsOf, "latency", "%.1f ms  seq %d", ms, f.RunSeq)
		}
	}
	if w.s.output.data() {
		if err := w.s.print(f); err != nil {
			return err
		}
	}
	if f.Sync != w.sync && (f.Sync != client.SyncStateLive || w.sync != "") {
		reason := ""
		if f.Reason != nil {
			reason = " (" + string(*f.Reason) + ")"
		}
		w.line(f.AsOf, "view", "%s%s", f.Sync, reason)
	}
	w.sync = f.Sync
	if f.Snapshot != nil {
		for _, st := range f.Snapshot.Steps {
			w.step(f.AsOf, st.StepRow)
		}
		w.run(f.AsOf, f.Snapshot.RunRow)
	}
	if f.Delta != nil {
		for _, st := range f.Delta.Steps {
			w.step(f.AsOf, st.StepRow)
		}
		w.run(f.AsOf, f.Delta.Header.RunRow)
	}
	switch client.RunStatus(w.status) {
	case client.RunStatusCompleted, client.RunStatusFailed, client.RunStatusCancelled:
		return errOver
	}
	return nil
}

func (w *watcher) step(at time.Time, st client.StepRow) {
	now := fmt.Sprintf("%s %d", st.StatusRaw, st.LogicalAttemptId)
	before, known := w.steps[st.StepId]
	w.steps[st.StepId] = now
	if now == before || !known && st.Status == client.StepStatusPending {
		return
	}
	retry, why := "", ""
	if st.LogicalAttemptId > 1 {
		retry = fmt.Sprintf(" Retry #%d", st.LogicalAttemptId-1)
	}
	if st.Error != nil {
		why = " " + st.Error.Code + ": " + deref(st.Error.Message)
	}
	w.line(at, st.StepId, "%s%s%s", st.StatusRaw, retry, why)
}

func (w *watcher) run(at time.Time, r client.RunRow) {
	now := statusOf(r)
	if w.status != r.StatusRaw || r.Substatus != nil {
		w.line(at, "run", "%s  %d of %d steps done  seq %d", now, r.StepCounts.Success+r.StepCounts.Skipped, r.StepCounts.Total, r.RunSeq)
	}
	w.status = r.StatusRaw
}

func (w *watcher) line(at time.Time, subject, format string, args ...any) {
	if !w.s.output.data() {
		fmt.Fprintf(w.s.out, "%s  %-20s  %s\n", at.UTC().Format("15:04:05.000Z"), subject, fmt.Sprintf(format, args...))
	}
}

func (s *session) logsCommand() *cobra.Command {
	var attempt int
	var follow bool
	c := &cobra.Command{
		Use: "logs RUN STEP", Short: "Print what a step printed", Args: exact(2),
		RunE: func(c *cobra.Command, args []string) error {
			var which *int
			if attempt > 0 {
				which = &attempt
			}
			if follow {
				err := s.client.Follow(c.Context(), args[0], args[1], which, func(f client.FollowStepLogStepLogUpdatesStepLogUpdate) error {
					for _, l := range f.Lines {
						fmt.Fprintln(s.out, l.Text)
					}
					if f.Complete {
						return errOver
					}
					return nil
				})
				if errors.Is(err, errOver) || c.Context().Err() != nil {
					return nil //nolint:nilerr // all was printed, or Ctrl-C
				}
				return failure(err)
			}
			for from := 1; ; {
				size := 1000
				out, err := client.ReadStepLog(c.Context(), s.client, args[0], args[1], which, &from, &size)
				if err != nil {
					return failure(err)
				}
				if out.StepLog == nil {
					return notFound("step")
				}
				if s.output.data() {
					return s.print(out.StepLog)
				}
				for _, l := range out.StepLog.Lines {
					fmt.Fprintln(s.out, l.Text)
				}
				if from += len(out.StepLog.Lines); len(out.StepLog.Lines) < size {
					return nil
				}
			}
		},
	}
	c.Flags().IntVar(&attempt, "attempt", 0, "logical attempt; default: the latest")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on while the step prints")
	return c
}
