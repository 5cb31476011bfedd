package stepcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/plan"
)

// Bounds of the rows of nodes.
const (
	nodesLimit    = 100
	maxNodesLimit = 10_000
	nodesPage     = 200
)

// nodesOptions are the flags of nodes.
type nodesOptions struct {
	attempt, limit int
	status         []string
}

// Nodes returns the command nodes.
func Nodes(session cmdline.Session) *cobra.Command {
	s := commands{session}
	var how nodesOptions
	c := &cobra.Command{
		Use: "nodes RUN [STEP]", Short: "Show the models, tests and other nodes of dbt in a step, also while dbt runs",
		Args: cobra.RangeArgs(1, 2),
		Long: "Show the nodes of dbt in a step, in the order in which they started: status, time, rows and error. They come\n" +
			"from the log of the run, so they are known while dbt runs. Without STEP it shows how many nodes each step has.",
		RunE: func(c *cobra.Command, args []string) error {
			if how.limit < 1 || how.limit > maxNodesLimit {
				return cmdline.Usage(fmt.Errorf("--limit must be from 1 to %d", maxNodesLimit))
			}
			if len(args) == 1 {
				return s.nodesOfRun(c.Context(), args[0])
			}
			return s.nodesOfStep(c.Context(), args[0], args[1], how, c.Flags().Changed("attempt"))
		},
	}
	c.Flags().IntVar(&how.attempt, "attempt", 0, "an earlier attempt, by its number; default: the newest")
	c.Flags().IntVar(&how.limit, "limit", nodesLimit, "the most rows to print")
	c.Flags().StringSliceVar(&how.status, "status", nil,
		"only nodes with one of these statuses: running, success, warn, failed, skipped, unfinished")
	return c
}

// nodesOfRun prints the counts of the steps that have nodes.
func (s commands) nodesOfRun(ctx context.Context, runID string) error {
	out, err := client.ShowRun(ctx, s.Client(), runID, nil)
	switch {
	case err != nil:
		return cmdline.Failure(err)
	case out.Run == nil:
		return cmdline.NotFound("run")
	}
	type row struct {
		StepID string                                  `json:"stepId"`
		Type   string                                  `json:"type"`
		Status string                                  `json:"status"`
		Counts *client.StepRowNodeCountsStepNodeCounts `json:"nodeCounts"`
	}
	rows := []row{}
	for _, st := range out.Run.Steps {
		if st.NodeCounts != nil {
			rows = append(rows, row{st.StepId, st.Type, st.StatusRaw, st.NodeCounts})
		}
	}
	if s.IsData() {
		return s.Print(rows)
	}
	t := s.Table("STEP", "STATUS", "TOTAL", "RUNNING", "SUCCESS", "WARN", "FAILED", "SKIPPED", "UNFINISHED")
	for _, r := range rows {
		n := r.Counts
		t.Row(r.StepID, r.Status, n.Total, n.Running, n.Success, n.Warn, n.Failed, n.Skipped, n.Unfinished)
	}
	return t.Print()
}

func (s commands) nodesOfStep(ctx context.Context, runID, stepID string, how nodesOptions, past bool) error {
	var statuses []client.NodeStatus
	for _, word := range how.status {
		is := client.NodeStatus(strings.ToUpper(strings.TrimSpace(word)))
		switch is {
		case client.NodeStatusRunning, client.NodeStatusSuccess, client.NodeStatusWarn, client.NodeStatusFailed,
			client.NodeStatusSkipped, client.NodeStatusUnfinished:
		default:
			return cmdline.Usage(fmt.Errorf("--status %s: use running, success, warn, failed, skipped or unfinished", word))
		}
		statuses = append(statuses, is)
	}
	var attempt *int
	if past {
		attempt = &how.attempt
	}
	rows := []*client.StepNodeRow{}
	var after *string
	total := 0
	for more := true; more && len(rows) < how.limit; {
		out, err := client.ListStepNodes(ctx, s.Client(), runID, stepID, attempt, statuses,
			new(min(nodesPage, how.limit-len(rows))), after)
		switch {
		case err != nil:
			return cmdline.Failure(err)
		case out.Run == nil:
			return cmdline.NotFound("run")
		case out.Run.Step == nil:
			return cmdline.NotFound("step")
		case out.Run.Step.Nodes == nil:
			return &cmdline.Error{Status: 1, Err: errors.New("the step has no nodes: it is no dbt step, dbt has not started " +
				"any, or its worker is of an earlier version")}
		}
		page := out.Run.Step.Nodes
		for i := range page.Edges {
			rows = append(rows, &page.Edges[i].Node)
		}
		total, more, after = page.Total, page.PageInfo.HasNextPage, page.PageInfo.EndCursor
	}
	if s.IsData() {
		return s.Print(rows)
	}
	t := s.Table("NODE", "TYPE", "STATUS", "STARTED", "TOOK", "ROWS", "WHY")
	for _, n := range rows {
		why := console.OneLine(runtext.Deref(n.Error))
		if n.SkippedBy != nil {
			why = "because of " + *n.SkippedBy
		}
		t.Row(n.Name, n.ResourceType, string(n.Status), s.When(n.StartedAt), took(n.DurationMs), figure(n.RowsAffected), why)
	}
	if err := t.Print(); err != nil {
		return err
	}
	if total > len(rows) {
		fmt.Fprintf(s.Notes(), "more rows exist; use --limit %d\n", min(total, maxNodesLimit))
	}
	return nil
}

func took(ms *float64) string {
	if ms == nil {
		return "-"
	}
	return plan.DurationText(time.Duration(*ms) * time.Millisecond)
}

func figure(n *float64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f", *n)
}
