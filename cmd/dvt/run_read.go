package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
)

func (s *session) listCommand() *cobra.Command {
	var status []string
	var text string
	var limit int
	var awaiting bool
	c := &cobra.Command{
		Use: "list", Short: "List runs, newest first", Args: exact(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if awaiting {
				return s.listApprovals(c, limit)
			}
			f := client.RunFilter{}
			for _, w := range status {
				f.Statuses = append(f.Statuses, client.RunStatus(strings.ToUpper(w)))
			}
			if text != "" {
				f.Text = &text
			}
			out, err := client.ListRuns(c.Context(), s.client, &limit, nil, &f)
			if err != nil {
				return failure(err)
			}
			if s.output.data() {
				return s.print(out.Runs)
			}
			w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "RUN\tSTATUS\tPLAN\tSTEPS\tSTARTED\tTOOK\tBY\tCAUSE")
			for _, e := range out.Runs.Edges {
				r := e.Node.RunRow
				fmt.Fprintf(w, "%s\t%s\t%s@%s\t%d/%d\t%s\t%s\t%s\t%s\n", r.RunId, statusOf(r), r.Plan.PlanId, r.Plan.PlanVersion,
					r.StepCounts.Success+r.StepCounts.Skipped, r.StepCounts.Total, moment(r.StartedAt), took(r), deref(r.TriggeredBy), cause(r))
			}
			if err := w.Flush(); err != nil {
				return err
			}
			if out.Runs.PageInfo.HasNextPage {
				fmt.Fprintf(s.out, "… more: use --limit\n")
			}
			return nil
		},
	}
	c.Flags().StringSliceVar(&status, "status", nil, "only these statuses")
	c.Flags().StringVar(&text, "text", "", "beginning of a run id, or part of a plan id")
	c.Flags().IntVar(&limit, "limit", 20, "at most so many, up to 200")
	c.Flags().BoolVar(&awaiting, "awaiting-approval", false, "only those that wait for approval, the oldest first")
	c.MarkFlagsMutuallyExclusive("awaiting-approval", "status")
	c.MarkFlagsMutuallyExclusive("awaiting-approval", "text")
	return c
}

func statusOf(r client.RunRow) string {
	if r.Substatus != nil {
		return r.StatusRaw + " (" + string(*r.Substatus) + ")"
	}
	return r.StatusRaw
}

func moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func took(r client.RunRow) string {
	if r.TotalDurationMs == nil {
		return "-"
	}
	return milliseconds(*r.TotalDurationMs)
}

func cause(r client.RunRow) string {
	if r.RootCause == nil {
		return ""
	}
	return strings.TrimPrefix(deref(r.RootCause.StepId)+": "+r.RootCause.Code, ": ")
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (s *session) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show RUN", Short: "Show one run and its steps", Args: exact(1),
		RunE: func(c *cobra.Command, args []string) error {
			out, err := client.ShowRun(c.Context(), s.client, args[0])
			if err != nil {
				return failure(err)
			}
			if out.Run == nil {
				return notFound("run")
			}
			if s.output.data() {
				return s.print(out.Run)
			}
			r := out.Run.RunRow
			fmt.Fprintf(s.out, "%s  %s@%s  %s/%s\n%s at seq %d, by %s, started %s, took %s\n", r.RunId, r.Plan.PlanId, r.Plan.PlanVersion,
				r.ProjectId, r.EnvironmentId, statusOf(r), r.RunSeq, deref(r.TriggeredBy), moment(r.StartedAt), took(r))
			if r.Message != nil && *r.Message != "" {
				fmt.Fprintln(s.out, *r.Message)
			}
			if r.RootCause != nil {
				fmt.Fprintf(s.out, "cause: %s: %s (blocks %d steps)\n", cause(r), deref(r.RootCause.Message), r.RootCause.BlockedSteps)
			}
			if r.RetryDeadline != nil {
				fmt.Fprintf(s.out, "retry window closes %s\n", moment(r.RetryDeadline))
			}
			w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "\nSTEP\tTYPE\tSTATUS\tATTEMPT\tTOOK\tERROR")
			for _, st := range out.Run.Steps {
				fmt.Fprintln(w, stepLine(st.StepRow))
			}
			return w.Flush()
		},
	}
}

func stepLine(st client.StepRow) string {
	attempt, took, why := "-", "-", ""
	if st.LogicalAttemptId > 1 {
		attempt = fmt.Sprintf("Retry #%d", st.LogicalAttemptId-1)
	} else if st.LogicalAttemptId == 1 {
		attempt = "1"
	}
	if st.DurationMs != nil {
		took = milliseconds(*st.DurationMs)
	}
	if st.Error != nil {
		why = st.Error.Code + ": " + deref(st.Error.Message)
	}
	if st.Skip != nil {
		why = st.Skip.ReasonCode
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", st.StepId, st.Type, st.StatusRaw, attempt, took, why)
}

func milliseconds(ms float64) string {
	return (time.Duration(ms * float64(time.Millisecond))).Round(time.Millisecond).String()
}
