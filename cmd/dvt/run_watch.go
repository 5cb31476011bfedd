package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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

// watchOptions are the flags of watch.
type watchOptions struct {
	latency  bool
	exitZero bool
	giveUp   time.Duration // without a connection; 0: never
}

// patience is the default time for which a watch tries to reconnect.
const patience = 15 * time.Minute

func (s *session) watchCommand() *cobra.Command {
	var how watchOptions
	c := &cobra.Command{
		Use: "watch RUN", Short: "Watch a run until it ends; status 0 only when it completed", Args: cmdline.ExactArgs(1),
		Long: `Watch a run until it ends: status 0 when it completed, 1 when it failed or was cancelled.

On a terminal it is a screen with the progress, the failed steps and the steps that they block, the steps that wait
for a person and the running steps. In a pipe, with TERM=dumb and with --latency, each change is a line: time, subject,
new state. The subject is "run", "view", "end" or a step's id. With -o json or yaml each frame is a document.

It always shows how fresh it is: LIVE; STALE, RESYNCING or VERIFYING with the cause; OFFLINE while there is no
connection. It reconnects and continues from the last position. While the view is not LIVE, running times are lower
bounds (>=), because a step may have ended in the meantime. Ctrl-C ends the watch, with status 130; the run goes on.

With --latency each frame with a change also has the age of the newest event in it: from the commit in the store, by
the store's clock, to the arrival here. At the end, or on Ctrl-C, a summary follows; with -o json it is the last
object. The store's clock is sampled five times at the start and every minute. The store reads its clock at some
moment between request and response, so a latency may be off by half of the fastest round trip, which is part of the
summary.`,
		RunE: func(c *cobra.Command, args []string) error {
			return s.watch(c.Context(), args[0], how)
		},
	}
	c.Flags().BoolVar(&how.latency, "latency", false,
		"print the age of each change when it arrives, and a summary at the end")
	c.Flags().BoolVar(&how.exitZero, "exit-zero", false, "status 0 however the run ends")
	c.Flags().DurationVar(&how.giveUp, "give-up-after", patience, "stop after this time without a connection; 0: never")
	return c
}

var errOver = errors.New("the run is over")

// watch shows a run until it ends: as a screen on a terminal, otherwise as lines or documents.
func (s *session) watch(ctx context.Context, runID string, how watchOptions) error {
	switch {
	case how.latency:
		return s.watchLatency(ctx, runID, how)
	case s.output.IsData() || !s.display.IsTerminal():
		return s.followRun(ctx, runID, how, &changeLines{s: s, steps: map[string]string{},
			showNeeds: func(id string) { s.showNeeds(ctx, id) }})
	}
	screen := watchview.OpenScreen(ctx, s.display, strings.TrimSuffix(s.server, "/"))
	err := s.followRun(ctx, runID, how, screen)
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
		fmt.Fprintf(s.err, "run %s was %s at seq %d and continues: dvt run watch %s\n", runID,
			runtext.Words(screen.Run.StatusRaw), screen.Last.RunSeq, runID)
	}
	return err
}

// maxEnd is the number of lines of the last screen that stay on the terminal.
const maxEnd = 20

// watchLatency watches a run, measures the age of each change and prints a summary at the end.
func (s *session) watchLatency(ctx context.Context, runID string, how watchOptions) error {
	w := &changeLines{s: s, steps: map[string]string{}, latencies: &watchview.Latencies{}}
	ask := func(ctx context.Context) (time.Time, error) { return s.client.StoreTime(ctx, runID) }
	if err := w.latencies.Clock.Set(ctx, ask); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // Ctrl-C before the first measurement is no failure
		}
		return cmdline.Failure(err)
	}
	asking, stop := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { w.latencies.Clock.Keep(asking, ask) })
	err := s.followRun(ctx, runID, how, w)
	if ctx.Err() != nil {
		err = nil // Ctrl-C is the normal end of a measurement
	}
	stop()
	keeping.Wait()
	return errors.Join(err, s.reportLatencies(w.latencies))
}

// watcher receives the frames of a run. Its methods are called one at a time.
type watcher interface {
	// See receives a frame and returns the run's status.
	See(watchview.Frame) (client.RunStatus, error)
	// Lose receives the error of a lost connection and the time of the next attempt to connect.
	Lose(why error, next time.Time)
}

// followRun passes the frames of a run to w until the run ends. Its error carries the exit status: 1 unless the run
// completed or --exit-zero is set.
func (s *session) followRun(ctx context.Context, runID string, how watchOptions, w watcher) error {
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
	return &cmdline.Error{Status: 1, Err: fmt.Errorf("the run %s", badEnds[end]), Said: !s.output.IsData()}
}

// badEnds are the predicates of runs that ended and did not complete.
var badEnds = map[client.RunStatus]string{client.RunStatusFailed: "failed", client.RunStatusCancelled: "was cancelled"}

// changeLines prints one line for each change, and for each change of the view's freshness.
type changeLines struct {
	s         *session
	status    string
	held      string // the last sentence of runtext.Held
	approvals string // the last number of approvals
	// showNeeds prints what the run waits for, who can end it, until when, and the command; nil with --latency.
	showNeeds func(runID string)
	sync      client.SyncState
	steps     map[string]string
	nodes     map[string]string    // the last counts of nodes by step, as nodeMilestone
	latencies *watchview.Latencies // nil without --latency
	offline   func(why error, next time.Time)
}

func (w *changeLines) See(f watchview.Frame) (client.RunStatus, error) {
	if w.latencies != nil {
		if ms, newer := w.latencies.Frame(f); newer {
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
		w.line(f.AsOf, "view", "RESET", console.Warn, fmt.Sprintf(" to seq %d: everything above is void", f.RunSeq))
	}
	var is client.RunStatus
	if f.Snapshot != nil {
		w.past(f)
		is = w.run(cmp.Or(endedAt(f.Snapshot.RunRow), f.AsOf), f.Snapshot.RunRow)
	}
	if f.Delta != nil {
		for _, st := range f.Delta.Steps {
			w.step(f.AsOf, st)
		}
		is = w.run(f.AsOf, f.Delta.Header)
	}
	return is, nil
}

// endedAt returns when a run ended; the zero time while it has not.
func endedAt(r client.RunRow) time.Time {
	if r.CompletedAt == nil {
		return time.Time{}
	}
	return *r.CompletedAt
}

// past prints the steps of a snapshot with the times at which they reached their states, in that order, because they
// did not change now. A step without times has that of the view.
func (w *changeLines) past(f watchview.Frame) {
	at := func(st client.StepRow) time.Time {
		switch {
		case st.StartedAt == nil:
			return f.AsOf
		case st.DurationMs == nil || st.Status == client.StepStatusRunning:
			return *st.StartedAt
		}
		return st.StartedAt.Add(time.Duration(*st.DurationMs * float64(time.Millisecond)))
	}
	steps := slices.Clone(f.Snapshot.Steps)
	slices.SortStableFunc(steps, func(a, b client.StepRow) int { return at(a).Compare(at(b)) })
	for _, st := range steps {
		w.step(at(st), st)
	}
}

func (w *changeLines) Lose(why error, next time.Time) {
	if w.s.output.IsData() {
		if w.offline == nil {
			w.offline = w.s.offlineReporter()
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
	if now == before {
		w.nodeCounts(at, st)
		return
	}
	if !known && st.Status == client.StepStatusPending {
		return
	}
	why := ""
	if st.Error != nil {
		why = "  " + console.OneLine(st.Error.Code+": "+runtext.Deref(st.Error.Message))
	}
	if words := runtext.Nodes(st.NodeCounts); words != "" {
		why = "  " + words + why
	}
	w.line(at, st.StepId, stepStatus(st), watchview.StepSigns[st.Status].Style, watchview.Attempt(st)+why)
}

// nodeCounts prints how far the nodes of a step are: at each tenth of them, and when another one failed.
func (w *changeLines) nodeCounts(at time.Time, st client.StepRow) {
	n := st.NodeCounts
	if n == nil {
		return
	}
	now := fmt.Sprintf("%d %d", 10*(n.Success+n.Warn+n.Failed+n.Skipped)/max(n.Total, 1), n.Failed)
	if w.nodes == nil {
		w.nodes = map[string]string{}
	}
	if before, known := w.nodes[st.StepId]; before == now || !known && n.Success+n.Warn+n.Failed+n.Skipped == 0 {
		return
	}
	w.nodes[st.StepId] = now
	w.line(at, st.StepId, runtext.Nodes(n), console.Plain, "")
}

// standsStill reports whether a run waits for a person or for a place, so that nothing is printed until it goes on.
func standsStill(r client.RunRow) bool {
	switch r.Status {
	case client.RunStatusPending, client.RunStatusApproved, client.RunStatusPaused:
		return true
	case client.RunStatusRunning:
		return r.Substatus != nil &&
			(*r.Substatus == client.RunSubstatusAwaitingOperator || *r.Substatus == client.RunSubstatusWaitingManual)
	}
	return false
}

func (w *changeLines) run(at time.Time, r client.RunRow) client.RunStatus {
	needs := false
	if now := runtext.Status(r); w.status != now {
		w.line(at, "run", now, watchview.RunSigns[r.Status].Style, fmt.Sprintf("  steps %s  seq %d",
			runtext.Steps(r), r.RunSeq))
		w.status = now
		needs = standsStill(r)
	}
	if a := r.WaitsForApprovals; a != nil && !w.s.output.IsData() {
		if now := fmt.Sprintf("waits for approval: %d of %d", a.Given, a.Required); now != w.approvals {
			w.approvals = now
			w.line(at, "run", now, console.Plain, "")
			needs = true
		}
	}
	if needs && w.showNeeds != nil && !w.s.output.IsData() {
		w.showNeeds(r.RunId)
	}
	if held := runtext.Held(r.RootCause); held != w.held {
		if w.held = held; held != "" {
			w.line(at, "run", held, console.Plain, "")
		}
	}
	if watchview.HasEnded(r.Status) {
		w.line(at, "end", r.StatusRaw, watchview.RunSigns[r.Status].Style, strings.TrimPrefix((&watchview.View{Run: r}).End(),
			r.StatusRaw))
	}
	return r.Status
}

// line prints the new state of a subject in its style, and more about it. It prints nothing for programs.
func (w *changeLines) line(at time.Time, subject, is string, look console.Style, more string) {
	if !w.s.output.IsData() {
		l := console.Line{{Text: fmt.Sprintf("%s  %-20s  ", at.UTC().Format("15:04:05.000Z"), subject), Style: console.Plain},
			{Text: is, Style: look}, {Text: more, Style: console.Plain}}
		fmt.Fprintln(w.s.out, w.s.display.Render(l))
	}
}

// reportLatencies prints the summary of a finished watch.
func (s *session) reportLatencies(l *watchview.Latencies) error {
	if s.output.IsData() {
		return s.print(l.Summary())
	}
	l.Summary().Render(s.display)
	return nil
}
