package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
)

func (s *session) bulkListCommand() *cobra.Command {
	l := listing{none: "You have sent no bulk yet: dvt bulk signal --help."}
	c := &cobra.Command{
		Use: "list", Short: "List your own bulks, newest first", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			var all client.ListBulksBulksBulkConnection
			return s.list(c.Context(), l, &all, func(ctx context.Context, first int, after *string) (page, error) {
				out, err := client.ListBulks(ctx, s.client, &first, after)
				if err != nil {
					return page{}, err
				}
				before := all.Edges
				all = out.Bulks
				return prepend(before, &all.Edges, all.PageInfo), nil
			}, func() *console.Table {
				t := s.table("BULK", "STATE", "ACTION", "DONE", "ACCEPTED", "REJECTED", "REFUSED", "CREATED", "REASON")
				for _, e := range all.Edges {
					b := e.Node
					t.Row(s.shortBulk(b.Id), runtext.Words(b.State), runtext.Words(b.TypeRaw),
						fmt.Sprintf("%d/%d", b.Counts.Total-b.Counts.Waiting, b.Counts.Total),
						fmt.Sprint(b.Counts.Accepted), fmt.Sprint(b.Counts.Rejected), fmt.Sprint(b.Counts.Refused), s.when(&b.CreatedAt),
						b.Reason)
				}
				return t
			})
		},
	}
	l.flag(c, 20)
	return c
}

func (s *session) bulkShowCommand() *cobra.Command {
	var failed bool
	l := listing{none: "No run of this bulk matches."}
	c := &cobra.Command{
		Use: "show BULK", Short: "Show the outcome of each run; status 1 when one failed", Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var all client.GetBulkBulk
			read := func(ctx context.Context, first int, after *string) (page, error) {
				out, err := client.GetBulk(ctx, s.client, args[0], failed, first, after)
				if err != nil {
					return page{}, err
				}
				if out.Bulk == nil {
					return page{}, cmdline.NotFound("bulk")
				}
				before := all.Rows.Edges
				all = *out.Bulk
				return prepend(before, &all.Rows.Edges, all.Rows.PageInfo), nil
			}
			err := s.list(c.Context(), l, &all, read, func() *console.Table {
				fmt.Fprintln(s.err, bulkSummary(all.BulkHead, all.Runs))
				again := isRerun(all.BulkHead)
				t := s.table("NO", "RUN", "OUTCOME", "APPLICATION", "CODE", "MESSAGE")
				if again {
					t = s.table("NO", "RUN", "OUTCOME", "NEW RUN", "STATUS", "CODE", "MESSAGE")
				}
				for _, e := range all.Rows.Edges {
					t.Row(bulkCells(e.Node, again)...)
				}
				return t
			})
			next := "dvt bulk show --failed " + s.shortBulk(all.Id)
			if isRerun(all.BulkHead) && all.Counts.Rejected+all.Counts.Refused == 0 {
				next = firstFailed(all)
			} else if failed {
				next = ""
			}
			return errors.Join(err, bulkError(all.BulkHead, all.Runs, next))
		},
	}
	c.Flags().BoolVar(&failed, "failed", false, "only the runs that failed")
	l.flag(c, 200)
	return c
}

// isRerun reports whether a bulk creates runs instead of sending signals.
func isRerun(b client.BulkHead) bool { return b.TypeRaw == rerunAction }

// rerunAction is the stored type of a bulk that reruns.
const rerunAction = "RERUN"

// bulkCells returns the row of a run in the table of a bulk. again is for a bulk that reruns.
func bulkCells(r client.BulkLine, again bool) []any {
	cells := []any{fmt.Sprint(r.No), r.RunId, runtext.Words(r.OutcomeRaw)}
	switch {
	case again && r.NewRunId != nil && r.RunStatus != nil:
		cells = append(cells, *r.NewRunId, string(*r.RunStatus))
	case again:
		cells = append(cells, "-", "-")
	case r.Signal != nil && r.Signal.Application != nil:
		cells = append(cells, runtext.Words(*r.Signal.Application))
	default:
		cells = append(cells, "-")
	}
	return append(cells, runtext.Deref(r.Code), runtext.Deref(r.Message))
}

// bulkSummary returns one line about a bulk. runs are the statuses of the runs that a rerun created.
func bulkSummary(b client.BulkHead, runs client.BulkRunCountsOf) string {
	out := fmt.Sprintf("%s %s: %d of %d sent, %d accepted, %d rejected, %d refused", runtext.Words(b.TypeRaw),
		runtext.Words(b.State),
		b.Counts.Total-b.Counts.Waiting-b.Counts.NotSent, b.Counts.Total, b.Counts.Accepted, b.Counts.Rejected,
		b.Counts.Refused)
	if b.Counts.NotSent > 0 {
		out += fmt.Sprintf(", %d not sent", b.Counts.NotSent)
	}
	if b.LeftOut > 0 {
		out += fmt.Sprintf(", %d left out: already rerun", b.LeftOut)
	}
	if b.PacedCode != nil {
		out += fmt.Sprintf(", waiting before it continues [%s]", *b.PacedCode)
	}
	if !isRerun(b) {
		return out
	}
	var states []string
	for _, c := range []struct {
		n  int
		is string
	}{{runs.Waiting, "waiting"}, {runs.Running, "running"}, {runs.Paused, "paused"}, {runs.Completed, "completed"},
		{runs.Failed, "failed"}, {runs.Cancelled, "cancelled"}} {
		if c.n > 0 {
			states = append(states, fmt.Sprintf("%d %s", c.n, c.is))
		}
	}
	if len(states) > 0 {
		out += "; new runs: " + strings.Join(states, ", ")
	}
	return out
}

// firstFailed returns the command that shows the first new run of a bulk that did not succeed; "" when none is listed.
func firstFailed(b client.GetBulkBulk) string {
	for _, e := range b.Rows.Edges {
		r := e.Node
		if r.NewRunId != nil && r.RunStatus != nil &&
			(*r.RunStatus == client.RunStatusFailed || *r.RunStatus == client.RunStatusCancelled) {
			return "dvt run show " + shortID(*r.NewRunId)
		}
	}
	return ""
}

// bulkError returns the error of a finished bulk: some runs failed, or the bulk was stopped. It is nil while the bulk
// is running. runs are the statuses of the runs that a rerun created, next is the command that says more.
func bulkError(b client.BulkHead, runs client.BulkRunCountsOf, next string) error {
	if next != "" {
		next = ": " + next
	}
	n := b.Counts.Rejected + b.Counts.Refused
	switch {
	case b.FinishedAt == nil:
	case b.Counts.NotSent > 0:
		return &cmdline.Error{Status: 1, Err: fmt.Errorf("the bulk was stopped: %d of %d runs got no signal",
			b.Counts.NotSent,
			b.Counts.Total)}
	case n > 0:
		return &cmdline.Error{Status: 1, Err: fmt.Errorf("%d of %d runs failed%s", n, b.Counts.Total, next)}
	case isRerun(b) && runs.Failed+runs.Cancelled > 0:
		return &cmdline.Error{Status: 1, Err: fmt.Errorf("%d of %d new runs did not succeed%s",
			runs.Failed+runs.Cancelled, b.Counts.Accepted, next)}
	}
	return nil
}

func (s *session) bulkWatchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watch BULK", Short: "Watch a bulk until it is done; status 1 when one run failed",
		Long: "Watch a bulk until each run has its outcome, and a rerun of many runs until the new runs have ended.",
		Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return s.watchBulk(c.Context(), args[0]) },
	}
}

// watchBulk prints a line for each run that failed and for each change of the counts, until the bulk has finished and
// the runs that it created have ended. It reconnects when a connection is lost.
func (s *session) watchBulk(ctx context.Context, id string) error {
	var last client.BulkHead
	var runs client.BulkRunCountsOf
	said, told := "", map[string]bool{}
	err := watchview.Follow(ctx, patience, client.Position{}, func(ctx context.Context, _ client.Position,
		took func(client.Position)) error {
		return s.client.WatchBulk(ctx, id, func(f client.WatchBulkBulkUpdatesBulkUpdate) error {
			took(client.Position{})
			last, runs = f.Bulk.BulkHead, f.Bulk.Runs
			if s.output.IsData() {
				if err := s.print(f); err != nil {
					return watchview.Stop{Cause: err}
				}
			} else {
				for _, r := range f.Rows {
					if r.Failed && !told[r.RunId] {
						told[r.RunId] = true // rows may be repeated after a lost connection
						fmt.Fprintf(s.out, "%s %s %s\n", r.RunId, runtext.Deref(r.Code), console.OneLine(runtext.Deref(r.Message)))
					}
				}
				now := bulkSummary(last, runs)
				if f.Reason != nil {
					now += fmt.Sprintf(" (%s: %s)", runtext.Words(f.Sync), runtext.Words(*f.Reason))
				}
				if now != said {
					fmt.Fprintln(s.out, now)
					said = now
				}
			}
			if last.FinishedAt != nil && (!isRerun(last) || runs.Waiting+runs.Running+runs.Paused == 0) {
				return watchview.Stop{Cause: errOver}
			}
			return nil
		})
	}, s.offlineReporter())
	if !errors.Is(err, errOver) {
		return cmdline.Failure(err)
	}
	next := "dvt bulk show " + s.shortBulk(id)
	if last.Counts.Rejected+last.Counts.Refused > 0 {
		next = "dvt bulk show --failed " + s.shortBulk(id)
	}
	return bulkError(last, runs, next)
}

func (s *session) bulkStopCommand() *cobra.Command {
	in := client.CancelBulkInput{}
	c := &cobra.Command{
		Use: "stop BULK", Short: "Stop a bulk: send no more signals", Args: cmdline.ExactArgs(1),
		Long: "Stop one of your bulks. Waiting signals are not sent, and waiting runs are not rerun. Sent signals and new " +
			"runs stay valid.",
		RunE: func(c *cobra.Command, args []string) error {
			if in.Id = args[0]; in.RequestId == "" {
				in.RequestId = uuid.NewString()
			}
			out, err := client.CancelBulk(c.Context(), s.client, in)
			if err != nil {
				return cmdline.Failure(err)
			}
			if s.output.IsData() {
				return s.print(out.CancelBulk.Bulk)
			}
			_, err = c.OutOrStdout().Write([]byte(bulkSummary(out.CancelBulk.Bulk, client.BulkRunCountsOf{}) + "\n"))
			return err
		},
	}
	c.Flags().StringVar(&in.Reason, "reason", "", "why; kept in the audit")
	_ = c.MarkFlagRequired("reason") // cannot fail: the flag exists
	c.Flags().StringVar(&in.RequestId, "request-id", "", "client key that makes repeating safe; default: a new one")
	return c
}
