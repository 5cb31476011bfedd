package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
)

// watching is how a run is watched.
type watching struct {
	latency  bool
	exitZero bool
	giveUp   time.Duration // without a connection; 0: never
}

// patience is how long a watch tries to get its connection back when nobody says otherwise.
const patience = 15 * time.Minute

func (s *session) watchCommand() *cobra.Command {
	var how watching
	c := &cobra.Command{
		Use: "watch RUN", Short: "Watch a run until it ends; status 0 only when it completed", Args: cmdline.ExactArgs(1),
		Long: `Watch a run until it ends: status 0 when it completed, 1 when it failed or was cancelled.

On a terminal it is a screen of how far the run is, what failed and what that blocks, what waits for a person and
what runs. Elsewhere, with TERM=dumb and with --latency, each change is a line: time, subject, what it is now. The
subject is "run", "view", "end" or a step's id. With -o json or yaml each frame is a document.

It always says how fresh it is: LIVE; STALE, RESYNCING or VERIFYING with the cause; OFFLINE while there is no connection.
A connection that is lost is made again, from the last position on. While the view is not LIVE a time that runs is
shown as one of at least so long (>=): what runs may have ended meanwhile. Ctrl-C ends the watch, with status 130; the run goes on.

With --latency each frame with news also says how old the newest fact that it shows is when it comes here:
from the moment that the store committed it, by the store's clock, to its receipt. At the end, or on Ctrl-C,
a summary follows; with -o json it is the last object. This machine's clock is set against the store's by
five questions at first and every minute: the store says its time at some moment between a question and its
answer, so a latency may be off by half of the fastest round trip, which the summary says.`,
		RunE: func(c *cobra.Command, args []string) error {
			return s.watch(c.Context(), args[0], how)
		},
	}
	c.Flags().BoolVar(&how.latency, "latency", false, "say how old news is when it comes, and sum it up at the end")
	c.Flags().BoolVar(&how.exitZero, "exit-zero", false, "status 0 however the run ends")
	c.Flags().DurationVar(&how.giveUp, "give-up-after", patience, "stop after so long without a connection; 0: never")
	return c
}

var errOver = errors.New("the run is over")

// watch shows a run until it ends.
func (s *session) watch(ctx context.Context, runID string, how watching) error {
	switch {
	case how.latency:
		return s.watchLatency(ctx, runID, how)
	case s.output.IsData() || !s.display.IsTerminal():
		return s.follows(ctx, runID, how, &changeLines{s: s, steps: map[string]string{}})
	}
	screen := watchview.OpenScreen(ctx, s.display)
	err := s.follows(ctx, runID, how, screen)
	screen.Close()
	if screen.Sync == "" {
		return err
	}
	width, _ := s.display.Size()
	if screen.IsOver() {
		for _, l := range append(screen.Lines(time.Now(), width, maxEnd),
			console.Line{{Text: "run " + screen.End(), Style: console.Plain}}) {
			fmt.Fprintln(s.out, s.display.Render(l))
		}
	} else if ctx.Err() != nil {
		fmt.Fprintf(s.err, "run %s was %s at seq %d and goes on: dvt run watch %s\n", runID, screen.Run.StatusRaw,
			screen.Last.RunSeq, runID)
	}
	return err
}

// maxEnd is how many lines of a run's last screen stay on the terminal.
const maxEnd = 20

// watchLatency is watch that measures what comes.
func (s *session) watchLatency(ctx context.Context, runID string, how watching) error {
	w := &changeLines{s: s, steps: map[string]string{}, latencies: &watchview.Latencies{}}
	ask := func(ctx context.Context) (time.Time, error) { return s.client.StoreTime(ctx, runID) }
	if err := w.latencies.Clock.Set(ctx, ask); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // Ctrl-C before anything was to be said
		}
		return cmdline.Failure(err)
	}
	asking, stop := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { w.latencies.Clock.Keep(asking, ask) })
	err := s.follows(ctx, runID, how, w)
	if ctx.Err() != nil {
		err = nil // Ctrl-C is how one ends a measurement
	}
	stop()
	keeping.Wait()
	return errors.Join(err, s.reportLatencies(w.latencies))
}

// watcher is told what is known of a run, one call after the other.
type watcher interface {
	// see takes a frame; the run's status when it has ended.
	See(watchview.Frame) (client.RunStatus, error)
	// lose takes note that the connection is lost, and when it is tried again.
	Lose(why error, next time.Time)
}

// follows tells w of a run until that ends. Its error is the exit status.
func (s *session) follows(ctx context.Context, runID string, how watching, w watcher) error {
	var end client.RunStatus
	err := watchview.Follow(ctx, how.giveUp, client.Position{}, func(ctx context.Context, at client.Position,
		took func(client.Position)) error {
		return s.client.Watch(ctx, runID, at, func(f watchview.Frame) error {
			if f.Delta != nil && f.StoreEpoch == at.Epoch && f.Delta.FromSeq > at.Seq {
				return watchview.ErrHole
			}
			at = client.Position{Seq: f.RunSeq, Epoch: f.StoreEpoch}
			took(at)
			status, err := w.See(f)
			if end = status; err == nil && watchview.HasEnded(status) {
				err = errOver
			}
			if err != nil {
				return watchview.Stop{Cause: err}
			}
			return nil
		})
	}, w.Lose)
	switch {
	case !errors.Is(err, errOver):
		return cmdline.Failure(err)
	case end == client.RunStatusCompleted || how.exitZero:
		return nil
	}
	return &cmdline.Error{Status: 1, Err: fmt.Errorf("the run ended %s", end), Said: !s.output.IsData()}
}

// changeLines prints what changes, one line a fact, and says when the view may be old.
type changeLines struct {
	s         *session
	status    string
	sync      client.SyncState
	steps     map[string]string
	latencies *watchview.Latencies // nil: they are not measured
	offline   func(why error, next time.Time)
}

func (w *changeLines) See(f watchview.Frame) (client.RunStatus, error) {
	if w.latencies != nil {
		if ms, news := w.latencies.Frame(f); news {
			defer w.line(f.AsOf, "latency", fmt.Sprintf("%.1f ms  seq %d", ms, f.RunSeq), console.Plain, "")
		}
	}
	if w.s.output.IsData() {
		if err := w.s.print(f); err != nil {
			return "", err
		}
	}
	if f.Sync != w.sync && (f.Sync != client.SyncStateLive || w.sync != "") {
		reason := ""
		if f.Reason != nil {
			reason = " (" + string(*f.Reason) + ")"
		}
		w.line(f.AsOf, "view", string(f.Sync), watchview.Signs[f.Sync].Style, reason)
	}
	w.sync = f.Sync
	if f.Reset {
		w.line(f.AsOf, "view", "RESET", console.Warn, fmt.Sprintf(" to seq %d: what was shown before is void", f.RunSeq))
	}
	var is client.RunStatus
	if f.Snapshot != nil {
		for _, st := range f.Snapshot.Steps {
			w.step(f.AsOf, st.StepRow)
		}
		is = w.run(f.AsOf, f.Snapshot.RunRow)
	}
	if f.Delta != nil {
		for _, st := range f.Delta.Steps {
			w.step(f.AsOf, st.StepRow)
		}
		is = w.run(f.AsOf, f.Delta.Header.RunRow)
	}
	return is, nil
}

func (w *changeLines) Lose(why error, next time.Time) {
	if w.s.output.IsData() {
		if w.offline == nil {
			w.offline = w.s.offline()
		}
		w.offline(why, next)
	} else if w.sync != watchview.SyncOffline {
		w.line(time.Now(), "view", string(watchview.SyncOffline), watchview.Signs[watchview.SyncOffline].Style,
			fmt.Sprintf(" (%s)  %s", watchview.ConnectionLost,
				console.OneLine(why.Error())))
	}
	w.sync = watchview.SyncOffline
}

func (w *changeLines) step(at time.Time, st client.StepRow) {
	now := fmt.Sprintf("%s %d", st.StatusRaw, st.LogicalAttemptId)
	before, known := w.steps[st.StepId]
	w.steps[st.StepId] = now
	if now == before || !known && st.Status == client.StepStatusPending {
		return
	}
	why := ""
	if st.Error != nil {
		why = "  " + console.OneLine(st.Error.Code+": "+runtext.Deref(st.Error.Message))
	}
	w.line(at, st.StepId, st.StatusRaw, watchview.StepSigns[st.Status].Style, watchview.Attempt(st)+why)
}

func (w *changeLines) run(at time.Time, r client.RunRow) client.RunStatus {
	if now := runtext.Status(r); w.status != now {
		w.line(at, "run", now, watchview.RunSigns[r.Status].Style, fmt.Sprintf("  %d of %d steps done  seq %d",
			r.StepCounts.Success+
				r.StepCounts.Skipped, r.StepCounts.Total, r.RunSeq))
		w.status = now
	}
	if watchview.HasEnded(r.Status) {
		w.line(at, "end", r.StatusRaw, watchview.RunSigns[r.Status].Style, strings.TrimPrefix((&watchview.View{Run: r}).End(),
			r.StatusRaw))
	}
	return r.Status
}

// line prints what the subject is now, a word of its own style, and more about it.
func (w *changeLines) line(at time.Time, subject, is string, look console.Style, more string) {
	if !w.s.output.IsData() {
		l := console.Line{{Text: fmt.Sprintf("%s  %-20s  ", at.UTC().Format("15:04:05.000Z"), subject), Style: console.Plain},
			{Text: is, Style: look}, {Text: more, Style: console.Plain}}
		fmt.Fprintln(w.s.out, w.s.display.Render(l))
	}
}

// reportLatencies prints the summary of a watch that is over.
func (s *session) reportLatencies(l *watchview.Latencies) error {
	if s.output.IsData() {
		return s.print(l.Summary())
	}
	l.Summary().Render(s.display)
	return nil
}
