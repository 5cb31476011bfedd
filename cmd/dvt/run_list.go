package main

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
)

func (s *session) listCommand() *cobra.Command {
	var status []string
	var text, by, project, environment, plan, from, to string
	var mine bool
	l := listing{none: "There is no run yet: dvt run start FILE starts one, dvt plan new writes a plan for it."}
	var awaiting, attention bool
	var tag, sort string
	c := &cobra.Command{
		Use: "list", Short: "List runs, newest first", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if awaiting {
				return s.listApprovals(c, l)
			}
			if attention {
				return s.listAttention(c, l)
			}
			f := client.RunFilter{}
			var err error
			if f.Statuses, err = cmdline.Words("--status", status, client.AllRunStatus); err != nil {
				return err
			}
			if mine {
				by = me
			}
			f.Text, f.TriggeredBy, f.ProjectId, f.EnvironmentId, f.PlanId = orNil(text), orNil(by), orNil(project),
				orNil(environment), orNil(plan)
			f.Tag = orNil(tag)
			if f.CreatedFrom, err = instant("--from", from, time.Now()); err != nil {
				return err
			}
			if f.CreatedTo, err = instant("--to", to, time.Now()); err != nil {
				return err
			}
			order, err := runOrder(sort)
			if err != nil {
				return err
			}
			if order != nil || !reflect.DeepEqual(f, client.RunFilter{}) {
				l.none = "No run matches. Use fewer filters to see more runs."
			}
			var all client.ListRunsRunsRunConnection
			return s.list(c.Context(), l, &all, func(ctx context.Context, first int, after *string) (page, error) {
				out, err := client.ListRuns(ctx, s.client, &first, after, &f, order)
				if err != nil {
					return page{}, err
				}
				before := all.Edges
				all = out.Runs
				return prepend(before, &all.Edges, all.PageInfo), nil
			}, func() *console.Table {
				t := s.table("RUN", "STATUS", "PLAN", "SCOPE", "STEPS", "STARTED", "TOOK", "BY", "CAUSE")
				var ids []string
				for _, e := range all.Edges {
					ids = append(ids, e.Node.RunId)
				}
				id := s.shortIDs(ids)
				for _, e := range all.Edges {
					r := e.Node
					t.Row(id(r.RunId), console.Span{Text: runtext.Status(r), Style: watchview.RunSigns[r.Status].Style}, r.Plan.PlanId+
						"@"+r.Plan.PlanVersion, r.ProjectId+"/"+r.EnvironmentId, runtext.Steps(r.StepCounts), s.when(r.StartedAt),
						runtext.Duration(r, time.Now()), runtext.Deref(r.TriggeredBy), runtext.Cause(r))
				}
				return t
			})
		},
	}
	c.Flags().StringSliceVar(&status, "status", nil, "only runs with these statuses")
	c.Flags().StringVar(&project, "project", "", "only runs of this project")
	c.Flags().StringVar(&environment, "environment", "", "only runs in this environment")
	c.Flags().StringVar(&plan, "plan", "", "only runs of this plan")
	c.Flags().StringVar(&from, "from", "",
		"only runs created since then: a time in RFC 3339, or how long ago, like 2h or 7d")
	c.Flags().StringVar(&to, "to", "", "only runs created before then: a time in RFC 3339, or how long ago")
	c.Flags().StringVar(&from, "since", "", "another name of --from, as in dvt bulk")
	c.Flags().StringVar(&to, "until", "", "another name of --to, as in dvt bulk")
	for _, alias := range []string{"since", "until"} {
		_ = c.Flags().MarkHidden(alias) // the flag is there
	}
	c.Flags().StringVar(&text, "text", "", "only runs whose id begins with this text, or whose plan id contains it")
	c.Flags().StringVar(&by, "by", "", "only runs that this principal started; me: you")
	c.Flags().BoolVar(&mine, "mine", false, "only runs that you started, like --by me")
	l.flag(c, 20)
	c.Flags().BoolVar(&awaiting, "awaiting-approval", false, "only runs that wait for approval, the oldest first")
	c.Flags().StringVar(&tag, "tag", "", "only runs with exactly this tag, such as team:data")
	c.Flags().StringVar(&sort, "sort", "", "newest (default), oldest, ended, longest, shortest or time-left. longest and "+
		"shortest need --plan; ended, longest and shortest list only runs that have ended, time-left only runs that await an "+
		"operator")
	c.Flags().BoolVar(&attention, "attention", false,
		"what needs somebody: failed steps, approvals, manual steps and late runs, the most urgent first; then the runs "+
			"that failed in the last 24 hours, by plan and cause")
	c.MarkFlagsMutuallyExclusive("by", "mine")
	c.MarkFlagsMutuallyExclusive("awaiting-approval", "attention")
	for _, f := range []string{"status", "text", "by", "mine", "project", "environment", "plan", "from", "to", "since",
		"until", "tag", "sort"} {
		c.MarkFlagsMutuallyExclusive("awaiting-approval", f)
		c.MarkFlagsMutuallyExclusive("attention", f)
	}
	return c
}

// runOrder returns the order of a value of --sort; nil for the order of the server.
func runOrder(given string) (*client.RunOrder, error) {
	orders := map[string]client.RunOrder{
		"newest": client.RunOrderCreatedDesc, "oldest": client.RunOrderCreatedAsc, "ended": client.RunOrderEndedDesc,
		"longest": client.RunOrderDurationDesc, "shortest": client.RunOrderDurationAsc,
		"time-left": client.RunOrderTimeLeftAsc,
	}
	if given == "" {
		return nil, nil //nolint:nilnil // no order is asked for, and that is no error
	}
	order, known := orders[given]
	if !known {
		return nil, cmdline.Usage(fmt.Errorf(
			"--sort must be newest, oldest, ended, longest, shortest or time-left; not %q", given))
	}
	return &order, nil
}

// instant parses the value of a flag: a time in RFC 3339, or how long ago it was, such as 90m or 7d. It returns nil for
// "".
func instant(flag, given string, now time.Time) (*time.Time, error) {
	if given == "" {
		return nil, nil //nolint:nilnil // no time is given, and that is no error
	}
	if at, err := time.Parse(time.RFC3339, given); err == nil {
		return &at, nil
	}
	ago, err := time.ParseDuration(given)
	if days, whole := strings.CutSuffix(given, "d"); err != nil && whole {
		var n int
		n, err = strconv.Atoi(days)
		ago = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || ago < 0 {
		return nil, cmdline.Usage(fmt.Errorf(
			"%s must be a time such as 2026-11-21T03:00:00Z, or how long ago such as 90m, 2h or 7d; not %q", flag, given))
	}
	at := now.Add(-ago)
	return &at, nil
}
