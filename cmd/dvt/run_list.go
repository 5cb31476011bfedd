package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
)

func (s *session) listCommand() *cobra.Command {
	var status []string
	var text, by string
	var mine bool
	l := listing{none: "There is no run yet: dvt run start FILE starts one, dvt plan new writes a plan for it."}
	var awaiting bool
	c := &cobra.Command{
		Use: "list", Short: "List runs, newest first", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if awaiting {
				return s.listApprovals(c, l)
			}
			f := client.RunFilter{}
			var err error
			if f.Statuses, err = cmdline.Words("--status", status, client.AllRunStatus); err != nil {
				return err
			}
			if text != "" {
				f.Text = &text
			}
			if mine {
				by = me
			}
			f.TriggeredBy = orNil(by)
			if len(f.Statuses) > 0 || text != "" || by != "" {
				l.none = "No run matches. Without --status, --text, --by and --mine the command lists all runs."
			}
			var all client.ListRunsRunsRunConnection
			return s.list(c.Context(), l, &all, func(ctx context.Context, first int, after *string) (page, error) {
				out, err := client.ListRuns(ctx, s.client, &first, after, &f)
				if err != nil {
					return page{}, err
				}
				before := all.Edges
				all = out.Runs
				return prepend(before, &all.Edges, &all.PageInfo), nil
			}, func() *table {
				t := s.table("RUN", "STATUS", "PLAN", "STEPS", "STARTED", "TOOK", "BY", "CAUSE")
				var ids []string
				for _, e := range all.Edges {
					ids = append(ids, e.Node.RunId)
				}
				id := s.shortIDs(ids)
				for _, e := range all.Edges {
					r := e.Node.RunRow
					t.row(id(r.RunId), console.Span{Text: runtext.Status(r), Style: watchview.RunSigns[r.Status].Style}, r.Plan.PlanId+
						"@"+r.Plan.PlanVersion,
						fmt.Sprintf("%d/%d", r.StepCounts.Success+r.StepCounts.Skipped, r.StepCounts.Total), s.when(r.StartedAt),
						runtext.Duration(r),
						runtext.Deref(r.TriggeredBy), runtext.Cause(r))
				}
				return t
			})
		},
	}
	c.Flags().StringSliceVar(&status, "status", nil, "only runs with these statuses")
	c.Flags().StringVar(&text, "text", "", "only runs whose id begins with this text, or whose plan id contains it")
	c.Flags().StringVar(&by, "by", "", "only runs that this principal started; me: you")
	c.Flags().BoolVar(&mine, "mine", false, "only runs that you started, like --by me")
	l.flag(c, 20)
	c.Flags().BoolVar(&awaiting, "awaiting-approval", false, "only runs that wait for approval, the oldest first")
	c.MarkFlagsMutuallyExclusive("by", "mine")
	for _, f := range []string{"status", "text", "by", "mine"} {
		c.MarkFlagsMutuallyExclusive("awaiting-approval", f)
	}
	return c
}
