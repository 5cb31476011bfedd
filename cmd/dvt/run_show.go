package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
)

func (s *session) showCommand() *cobra.Command {
	var at int64
	c := &cobra.Command{
		Use: "show RUN", Short: "Show one run and its steps, as it is or as it was", Args: exact(1),
		RunE: func(c *cobra.Command, args []string) error {
			var past *int64
			if c.Flags().Changed("at") {
				past = &at
			}
			out, err := client.ShowRun(c.Context(), s.client, args[0], past)
			if err != nil {
				return failure(err)
			}
			if out.Run == nil {
				return notFound("run")
			}
			if s.output.data() {
				return s.print(out.Run)
			}
			return s.show(out.Run, past != nil)
		},
	}
	c.Flags().Int64Var(&at, "at", 0, "as it was at this seq of its log (see dvt run events)")
	return c
}

func (s *session) show(run *client.ShowRunRun, past bool) error {
	r, is := run.RunRow, "at seq"
	if past {
		is = "as it was at seq"
	}
	fmt.Fprintf(s.out, "%s  %s@%s  %s/%s\n%s %s %d, by %s, started %s, took %s\n", r.RunId, r.Plan.PlanId, r.Plan.PlanVersion,
		r.ProjectId, r.EnvironmentId, statusOf(r), is, r.RunSeq, deref(r.TriggeredBy), s.when(r.StartedAt), took(r))
	if r.Message != nil && *r.Message != "" {
		fmt.Fprintln(s.out, oneLine(*r.Message))
	}
	if r.RootCause != nil {
		blocks := ""
		if n := r.RootCause.BlockedSteps; n > 0 {
			blocks = fmt.Sprintf(" (steps that wait for it: %d)", n)
		}
		why := cause(r)
		if r.RootCause.Message != nil && *r.RootCause.Message != "" {
			why += ": " + oneLine(*r.RootCause.Message)
		}
		fmt.Fprintf(s.out, "cause: %s%s\n", why, blocks)
	}
	if r.RetryDeadline != nil {
		fmt.Fprintf(s.out, "retry window closes %s\n", s.when(r.RetryDeadline))
	}
	fmt.Fprintln(s.out)
	t := s.table("STEP", "TYPE", "STATUS", "ATTEMPT", "TOOK", "ERROR")
	for _, st := range run.Steps {
		stepRow(t, st.StepRow)
	}
	return t.print()
}

func stepRow(t *table, st client.StepRow) {
	took, why := "-", ""
	if st.DurationMs != nil {
		took = milliseconds(*st.DurationMs)
	}
	if st.Error != nil {
		why = oneLine(strings.TrimSuffix(st.Error.Code+": "+deref(st.Error.Message), ": "))
	}
	if st.Skip != nil {
		why = st.Skip.ReasonCode
	}
	t.row(st.StepId, st.Type, span{st.StatusRaw, stepSigns[st.Status].style}, nth(st.LogicalAttemptId), took, why)
}

// nth says which attempt it is.
func nth(logicalAttempt int) string {
	switch {
	case logicalAttempt > 1:
		return fmt.Sprintf("Retry #%d", logicalAttempt-1)
	case logicalAttempt == 1:
		return "1"
	}
	return "-"
}

func milliseconds(ms float64) string {
	return (time.Duration(ms * float64(time.Millisecond))).Round(time.Millisecond).String()
}
