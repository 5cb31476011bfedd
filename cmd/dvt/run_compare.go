package main

import (
	"cmp"
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
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
	"github.com/dvt-engine/dvt/run"
)

func (s *session) compareCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "compare RUN [RUN]", Short: "Compare two runs, or a run with the last one of its plan that completed",
		Args: cmdline.RangeArgs(1, 2),
		Long: "Show the differences from the first run to the second: parameters, plan and steps. With one RUN the first\n" +
			"is the last run of the same plan in the same environment that was created before it and completed.",
		RunE: func(c *cobra.Command, args []string) error {
			a, b := args[0], args[len(args)-1]
			if len(args) == 1 {
				var err error
				if a, err = s.lastGreen(c.Context(), b); err != nil {
					return err
				}
			}
			out, err := client.CompareRuns(c.Context(), s.client, a, b)
			switch {
			case err != nil:
				return cmdline.Failure(err)
			case out.CompareRuns == nil:
				return cmdline.NotFound("run")
			case s.output.IsData():
				return s.print(out.CompareRuns)
			}
			return s.showComparison(out.CompareRuns, all)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also the steps that do not differ")
	return c
}

// lastGreen returns the id of the last run of the same plan that was created before the run and completed.
func (s *session) lastGreen(ctx context.Context, runID string) (string, error) {
	out, err := client.FindLastGreen(ctx, s.client, runID)
	switch {
	case err != nil:
		return "", cmdline.Failure(err)
	case out.Run == nil:
		return "", cmdline.NotFound("run")
	case out.Run.LastGreen == nil:
		return "", &cmdline.Error{Status: notFound, Code: string(run.CodeNotFound), Err: errors.New(
			"no earlier run of this plan completed\n  name the run to compare with: dvt run compare RUN RUN")}
	}
	return out.Run.LastGreen.RunId, nil
}

// comparison is the answer to a comparison of two runs.
type comparison = client.CompareRunsCompareRunsRunComparison

func (s *session) showComparison(d *comparison, all bool) error {
	t := s.table("", "RUN", "PLAN", "STATUS", "STARTED", "TOOK", "BY")
	for i, r := range []client.RunRow{d.A, d.B} {
		t.Row([]string{"A", "B"}[i], r.RunId, r.Plan.PlanId+"@"+r.Plan.PlanVersion,
			console.Span{Text: runtext.Status(r), Style: watchview.RunSigns[r.Status].Style}, s.when(r.StartedAt),
			runtext.Duration(r, time.Now()), runtext.Deref(r.TriggeredBy))
	}
	if err := t.Print(); err != nil {
		return err
	}
	if len(d.Params) == 0 {
		fmt.Fprintln(s.out, "\nThe parameters are the same.")
	} else {
		fmt.Fprintln(s.out)
		t = s.table("PARAMETER", "A", "B")
		for _, p := range d.Params {
			t.Row(p.Path, part(p.From), part(p.To))
		}
		if err := t.Print(); err != nil {
			return err
		}
	}
	if err := s.showPlanDifference(d); err != nil {
		return err
	}
	return s.showStepDifferences(d, all)
}

// part returns a value of a comparison; "-" where it does not exist.
func part(doc *string) string { return cmp.Or(plainJSON(runtext.Deref(doc)), "-") }

func (s *session) showPlanDifference(d *comparison) error {
	p := d.Plan
	switch {
	case p == nil:
		fmt.Fprintln(s.out, "\nThe plan of one of the runs is not known.")
		return nil
	case p.Added+p.Removed+p.Changed+len(p.Parts) == 0:
		fmt.Fprintln(s.out, "\nThe plans are the same.")
		return nil
	}
	fmt.Fprintf(s.out, "\nThe plan of B: %d steps added, %d removed, %d changed.\n", p.Added, p.Removed, p.Changed)
	t := s.table("STEP", "PART", "A", "B")
	for _, x := range p.Parts {
		t.Row("(plan)", x.Path, part(x.From), part(x.To))
	}
	for _, st := range p.Steps {
		if st.Change != client.PlanChangeChanged {
			t.Row(st.StepId, strings.ToLower(string(st.Change)))
		}
		for _, x := range st.Parts {
			t.Row(st.StepId, x.Path, part(x.From), part(x.To))
		}
	}
	return t.Print()
}

func (s *session) showStepDifferences(d *comparison, all bool) error {
	t := s.table("STEP", "DIFFERS IN", "A", "B")
	same := 0
	for _, st := range d.Steps {
		if len(st.Changes) == 0 && !all {
			same++
			continue
		}
		var changes []string
		for _, c := range st.Changes {
			changes = append(changes, strings.ToLower(string(c)))
		}
		t.Row(st.StepId, cmp.Or(strings.Join(changes, ", "), "-"), comparedTry(st.A), comparedTry(st.B))
	}
	fmt.Fprintln(s.out)
	if same == len(d.Steps) {
		fmt.Fprintln(s.out, "No step differs.")
		return nil
	}
	if err := t.Print(); err != nil || same == 0 {
		return err
	}
	fmt.Fprintf(s.err, "%s without a difference; --all shows them\n", cmdline.Count(same, "more step"))
	return nil
}

// comparedTry returns the status, duration, attempts and error of a step in one of the runs; "-" for none.
func comparedTry(c *client.ComparedTry) string {
	if c == nil {
		return "-"
	}
	if c.KeptFrom != nil {
		return fmt.Sprintf("kept from %.8s", *c.KeptFrom)
	}
	out := c.StatusRaw
	if c.DurationMs != nil {
		out += " " + runtext.Milliseconds(*c.DurationMs)
	}
	if c.Attempts > 1 {
		out += fmt.Sprintf(", %d attempts", c.Attempts)
	}
	if code := runtext.Deref(c.ErrorCode); code != "" {
		out += ", " + code
	}
	return out
}
