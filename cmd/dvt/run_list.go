package main

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
	"github.com/dvt-engine/dvt/run"
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
		Long: "List runs, newest first. Lists do not ask the engine: a run whose step waits for its next automatic try is\n" +
			"running here, and dvt run show says that it waits.",
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
				return fmt.Errorf("%w. Runs that wait for somebody or are late: dvt run list --attention", err)
			}
			if mine {
				by = me
			}
			f.Text, f.TriggeredBy, f.ProjectId, f.EnvironmentId, f.PlanId = orNil(text), orNil(by), orNil(project),
				orNil(environment), orNil(plan)
			f.Tag = orNil(tag)
			if f.CreatedFrom, err = instant(flagName(c, "from", "since"), from, time.Now()); err != nil {
				return err
			}
			if f.CreatedTo, err = instant(flagName(c, "to", "until"), to, time.Now()); err != nil {
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
				t.Flex, t.FlexLeast, t.Yield = "CAUSE", leastCause, []string{"BY", "TOOK", "STEPS", "STARTED", "SCOPE"}
				var ids []string
				for _, e := range all.Edges {
					ids = append(ids, e.Node.RunId)
				}
				id := s.shortIDs(ids)
				for _, e := range all.Edges {
					r := e.Node
					t.Row(id(r.RunId), console.Span{Text: runtext.Status(r), Style: watchview.RunSigns[r.Status].Style}, r.Plan.PlanId+
						"@"+r.Plan.PlanVersion, r.ProjectId+"/"+r.EnvironmentId, runtext.Steps(r), s.when(r.StartedAt),
						runtext.Duration(r, time.Now()), runtext.Deref(r.TriggeredBy), console.OneLine(runtext.ErrorOf(r)))
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

// leastCause is the width that a list keeps for a cause on a narrow terminal.
const leastCause = 40

// leastWhy is the width that the list of attention keeps for a reason, beside which the command has room.
const leastWhy = 16

// kindFailed is the kind of a row about runs that failed for good. The API has no such kind, because nothing waits.
const kindFailed client.AttentionKind = "FAILED"

// failedLately is how long ago a run may have failed to be listed, as on the home page.
const failedLately = 24 * time.Hour

// attentionItem is something that needs somebody, or the runs of a plan that failed lately of the same cause.
type attentionItem struct {
	client.ListAttentionAttentionAttentionConnectionEdgesAttentionEdgeNodeAttentionItem
	// Runs is the number of runs; RunId is the newest of them.
	Runs int `json:"runs"`
	// LeftOut is the number of failed runs of the same plan and cause that have a newer rerun. Runs does not count them.
	LeftOut int `json:"leftOut,omitempty"`
	// Next is the command that the viewer is likely to need.
	Next string `json:"next"`
}

type attentionEdge struct {
	Node attentionItem `json:"node"`
}

// attentionList has the shape of a list of the API.
type attentionList struct {
	Edges    []attentionEdge `json:"edges"`
	PageInfo client.PageInfo `json:"pageInfo"`
}

// listAttention lists what needs somebody, the most urgent first, and then the runs that failed in the last 24 hours,
// by plan and cause.
func (s *session) listAttention(c *cobra.Command, l listing) error {
	l.none = "Nothing needs you now, and no run has failed in the last 24 hours."
	all := attentionList{Edges: []attentionEdge{}}
	var hint string
	err := s.list(c.Context(), l, &all, func(ctx context.Context, first int, after *string) (page, error) {
		out, err := client.ListAttention(ctx, s.client, &first, after)
		if err != nil {
			return page{}, err
		}
		before := len(all.Edges)
		for _, e := range out.Attention.Edges {
			all.Edges = append(all.Edges, attentionEdge{attentionItem{e.Node, 1, 0, nextForAttention(e.Node)}})
		}
		more := out.Attention.PageInfo
		if !more.HasNextPage {
			failed, err := s.failedLately(ctx, time.Now().Add(-failedLately))
			if err != nil {
				return page{}, err
			}
			for _, f := range failed {
				if f.Runs > 1 && f.mayRerun && hint == "" {
					hint = fmt.Sprintf("dvt bulk rerun --plan %s --project %s --environment %s --status failed --since 24h --reason WHY",
						f.PlanId, f.ProjectId, f.EnvironmentId)
				}
				all.Edges = append(all.Edges, attentionEdge{f.attentionItem})
			}
		}
		return page{len(all.Edges) - before, more.HasNextPage, more.EndCursor}, nil
	}, func() *console.Table { return s.attentionTable(all) })
	if err == nil && hint != "" {
		s.note("To rerun all of a plan: %s\nIt leaves out runs that were already rerun.\n", hint)
	}
	return err
}

func (s *session) attentionTable(all attentionList) *console.Table {
	t := s.table("RUN", "PLAN", "SCOPE", "DEADLINE", "WHY", "NEXT", "SINCE")
	// The command of NEXT stays whole, because it is what the reader types. It names the run.
	t.Flex, t.FlexLeast, t.Yield = "WHY", leastWhy, []string{"SINCE", "RUN", "SCOPE"}
	var ids []string
	for _, e := range all.Edges {
		ids = append(ids, e.Node.RunId)
	}
	id := s.shortIDs(ids)
	for _, e := range all.Edges {
		n := e.Node
		t.Row(id(n.RunId), n.PlanId+"@"+n.PlanVersion, n.ProjectId+"/"+n.EnvironmentId, s.when(n.Deadline), n.why(), n.Next,
			s.when(&n.Since))
	}
	return t
}

// why says why the item needs somebody, and who can act when the viewer cannot.
func (n attentionItem) why() string {
	if n.Stuck {
		return n.reason() + "; " + whoIsLeft(n.WhoCould, slices.Contains(n.Actions, client.ActionApprove)) +
			": change the policy, or cancel the run"
	}
	if len(n.WhoCould) == 0 || !strings.HasPrefix(n.Next, "dvt run show ") {
		return n.reason()
	}
	return n.reason() + " (who can: " + strings.Join(n.WhoCould, ", ") + ")"
}

// flagName returns the flag that was given of two with one meaning.
func flagName(c *cobra.Command, name, alias string) string {
	if c.Flags().Changed(alias) {
		return "--" + alias
	}
	return "--" + name
}

// whoIsLeft says who can still approve a run that needs more people than that.
func whoIsLeft(others []string, viewer bool) string {
	switch {
	case viewer:
		return "only you can approve, which is not enough"
	case len(others) == 0:
		return "nobody can approve it"
	}
	return "only " + strings.Join(others, ", ") + " can approve, which is not enough"
}

// reason says why the item needs somebody.
func (n attentionItem) reason() string {
	step := cmp.Or(runtext.Deref(n.StepName), runtext.Deref(n.StepId))
	code, message := runtext.Deref(n.Code), runtext.Deref(n.Message)
	because := ""
	if code != "" {
		because = ": " + code
		if message != "" {
			because += ": " + message
		}
	}
	switch n.Kind {
	case kindFailed:
		failed := cmdline.Count(n.Runs, "run") + " failed"
		if n.LeftOut > 0 {
			failed += fmt.Sprintf(" (%d left out: already rerun)", n.LeftOut)
		}
		return failed + "; " + cmp.Or(step, "no step failed") + because
	case client.AttentionKindFailedWaiting:
		// The error comes first, because rows of one plan often differ in nothing else.
		if message != "" {
			return strings.TrimPrefix(message, "ERROR: ") + "; " + step + " failed and waits for a retry (" + code + ")"
		}
		return step + " failed and waits for a retry" + because
	case client.AttentionKindApproval:
		if n.Approvals == nil || n.ApprovalsRequired == nil {
			return "waits for approval"
		}
		return fmt.Sprintf("waits for approval, %d of %d", *n.Approvals, *n.ApprovalsRequired)
	case client.AttentionKindManualTask:
		return step + " waits for a person to complete it"
	case client.AttentionKindLate:
		if n.ExpectedBy != nil && code == string(run.CodeRunLate) {
			return "should have ended by " + n.ExpectedBy.UTC().Format("2006-01-02 15:04:05Z")
		}
		return "takes longer than usual"
	}
	return runtext.Words(n.Kind) + because // a kind of a newer server
}

// nextForAttention returns the command with which the viewer may resolve an item, otherwise that shows the run and the
// people who can.
func nextForAttention(n client.ListAttentionAttentionAttentionConnectionEdgesAttentionEdgeNodeAttentionItem) string {
	id, step := shortID(n.RunId), runtext.Deref(n.StepId)
	may := func(a client.Action) bool { return slices.Contains(n.Actions, a) }
	switch {
	case n.Kind == client.AttentionKindFailedWaiting && may(client.ActionRetryStep):
		return "dvt run retry " + id + " " + step
	case n.Kind == client.AttentionKindApproval && may(client.ActionApprove):
		return "dvt run approve " + id
	case n.Kind == client.AttentionKindManualTask && may(client.ActionCompleteManualStep):
		return "dvt manual complete " + id + " " + step + " --outcome succeeded"
	case n.Kind == client.AttentionKindLate:
		return "dvt run watch " + id
	}
	return "dvt run show " + id
}

// failedRuns are the runs of a plan that failed of the same cause.
type failedRuns struct {
	attentionItem
	ids      []string // newest first
	mayRerun bool
}

// failedLately returns the runs that failed since then and were not rerun, one item for each plan and cause, the newest
// first.
func (s *session) failedLately(ctx context.Context, since time.Time) ([]failedRuns, error) {
	groups, err := s.failedGroups(ctx, since)
	if err != nil {
		return nil, err
	}
	out := groups[:0]
	for i, g := range groups {
		if i < maxPreviewedGroups {
			s.leaveOutRerun(ctx, &g)
		}
		if g.Runs > 0 {
			out = append(out, g)
		}
	}
	return out, nil
}

// maxPreviewedGroups bounds the requests about reruns. Later groups count all their runs.
const maxPreviewedGroups = 50

// leaveOutRerun asks the server which runs a bulk would rerun, so that the list and the bulk give the same number. If
// that cannot be read, the group keeps all its runs.
func (s *session) leaveOutRerun(ctx context.Context, g *failedRuns) {
	yes := true
	out, err := client.PreviewBulk(ctx, s.client, client.BulkPreviewInput{Runs: client.BulkRunsInput{Ids: g.ids},
		Action: client.BulkActionInput{Rerun: &client.BulkRerunInput{From: client.RerunFromInput{Start: &yes}}}})
	if err != nil || out.Preview.Bulk == nil {
		return
	}
	b := out.Preview.Bulk
	g.mayRerun = out.Preview.Outcome == client.ActionOutcomeApply
	g.LeftOut, g.Runs = len(g.ids)-b.Count, b.Count
	if len(b.Samples) == 0 {
		return
	}
	g.RunId, g.Next = b.Samples[0].RunId, "dvt run show "+shortID(b.Samples[0].RunId)
	if g.mayRerun {
		g.Next = "dvt run rerun " + shortID(g.RunId)
	}
}

// failedGroups returns the runs that failed since then, one item for each plan and cause, the newest first.
func (s *session) failedGroups(ctx context.Context, since time.Time) (out []failedRuns, _ error) {
	type group struct{ project, environment, plan, step, code string }
	known := map[group]int{}
	var after *string
	size := maxPage
	for read := 0; read < maxCandidates; read += size {
		found, err := client.ListFailed(ctx, s.client, &size, after)
		if err != nil {
			return nil, err
		}
		for _, e := range found.Runs.Edges {
			r := e.Node
			if r.CompletedAt == nil || r.CompletedAt.Before(since) {
				return out, nil
			}
			key := group{r.ProjectId, r.EnvironmentId, r.Plan.PlanId, "", ""}
			if r.RootCause != nil {
				key.step, key.code = runtext.Deref(r.RootCause.StepId), r.RootCause.Code
			}
			i, grouped := known[key]
			if !grouped {
				i = len(out)
				known[key] = i
				out = append(out, failedRuns{attentionItem: failedItem(r)})
			}
			out[i].Runs++
			out[i].ids = append(out[i].ids, r.RunId)
		}
		if after = found.Runs.PageInfo.EndCursor; !found.Runs.PageInfo.HasNextPage {
			break
		}
	}
	return out, nil
}

func failedItem(r client.RunRow) attentionItem {
	item := attentionItem{Next: "dvt run show " + shortID(r.RunId)}
	item.Kind, item.RunId, item.ProjectId, item.EnvironmentId, item.PlanId, item.PlanVersion, item.Since = kindFailed,
		r.RunId, r.ProjectId, r.EnvironmentId, r.Plan.PlanId, r.Plan.PlanVersion, *r.CompletedAt
	if r.RootCause != nil {
		item.StepId, item.Code, item.Message = r.RootCause.StepId, &r.RootCause.Code, r.RootCause.Message
	}
	return item
}
