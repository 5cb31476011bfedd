package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/run"
)

// maxDiagnosed is the number of runs that doctor explains when it is given none.
const maxDiagnosed = 10

func doctorCommand() *cobra.Command {
	s := &session{}
	c := s.command("doctor [RUN]", "Find out why a run failed or does not continue")
	c.Args = cmdline.RangeArgs(0, 1)
	c.Long = "Name the causes why a run failed or does not continue, what must be mended first first, with the " +
		"evidence\n" +
		"and with what you can do. Doctor changes nothing. A command that it calls safe loses no work, starts " +
		"no work\n" +
		"that may still be running, and overrides no decision of a person.\n" +
		"Without RUN: what is wrong with dvt itself, and the first cause of up to 10 runs that need somebody."
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return s.diagnoseAll(c)
		}
		if err := s.expand(c, []string{"RUN"}, args); err != nil {
			return s.withBrokenParts(c.Context(), err)
		}
		out, err := client.DiagnoseRun(c.Context(), s.client, args[0])
		switch {
		case err != nil:
			return s.withBrokenParts(c.Context(), err)
		case out.Run == nil:
			return cmdline.NotFound("run")
		case s.output.IsData():
			return s.print(out.Run)
		}
		if late := out.Run.Late; len(out.Run.Diagnosis) == 0 && late != nil && *late == client.RunLatenessLate &&
			out.Run.Deadline != nil {
			id := shortID(out.Run.RunId)
			fmt.Fprintf(s.out, "Run %s is late: it should have ended by %s. Nothing else is wrong: it is %s.\n"+
				"  next:  See which steps run and what waits for them.\n         dvt run show %s\n", id,
				out.Run.Deadline.UTC().Format("2006-01-02 15:04:05 UTC"), runtext.Words(out.Run.StatusRaw), id)
			return nil
		}
		if len(out.Run.Diagnosis) == 0 {
			fmt.Fprintf(s.out, "Nothing is wrong with run %s: it is %s.\n", shortID(out.Run.RunId),
				runtext.Words(out.Run.StatusRaw))
			return nil
		}
		for i, cause := range out.Run.Diagnosis {
			if i > 0 {
				fmt.Fprintln(s.out)
			}
			s.showCause(out.Run.RunId, cause)
		}
		return nil
	}
	return c
}

type causeRow = client.DiagnoseRunRunDiagnosisCause

var causeStyles = map[client.CauseKind]console.Style{client.CauseKindFault: console.Bad,
	client.CauseKindWait: console.Warn, client.CauseKindEnd: console.Plain}

func (s *session) showCause(runID string, c causeRow) {
	fmt.Fprintln(s.out, s.display.Render(console.Line{{Text: c.Title, Style: causeStyles[c.Kind]},
		{Text: " (" + runtext.Words(c.Confidence) + ", " + c.Code + ")", Style: console.Plain}}))
	if len(c.StepIds) > 0 {
		steps := strings.Join(c.StepIds, ", ")
		if c.MoreSteps > 0 {
			steps += fmt.Sprintf(" and %d more", c.MoreSteps)
		}
		fmt.Fprintln(s.out, "  steps: "+steps)
	}
	if c.Since != nil {
		fmt.Fprintln(s.out, "  since: "+s.when(c.Since))
	}
	if c.Until != nil {
		fmt.Fprintln(s.out, "  deadline: "+s.when(c.Until))
	}
	for _, e := range c.Evidence {
		fmt.Fprintln(s.out, "  seen:  "+evidenceText(e))
		place := strings.TrimSuffix(s.server, "/") + e.Page
		if e.Metric != nil {
			place += "   (metric " + *e.Metric + ")"
		}
		fmt.Fprintln(s.out, "         "+place)
	}
	for _, n := range c.Next {
		fmt.Fprintln(s.out, "  next:  "+n.Text)
		if command := signalCommand(runID, n); command != "" {
			if n.Safe {
				command += "   (safe)"
			}
			fmt.Fprintln(s.out, "         "+command)
		}
	}
}

// evidenceText names where a fact was read, and the fact.
func evidenceText(e client.DiagnoseRunRunDiagnosisCauseEvidence) string {
	var from string
	switch {
	case e.Source == client.EvidenceSourceOutput && e.Line != nil:
		from = fmt.Sprintf("line %.0f of %s, ", *e.Line, runtext.Deref(e.StepId))
	case e.RunSeq != nil && e.StepId != nil:
		from = fmt.Sprintf("seq %d, %s: ", *e.RunSeq, *e.StepId)
	case e.RunSeq != nil:
		from = fmt.Sprintf("seq %d: ", *e.RunSeq)
	default:
		from = runtext.Words(e.Source) + ": "
	}
	return from + e.Text
}

// signalCommand returns the command line that sends the signal of a next step, or "".
func signalCommand(runID string, n client.DiagnoseRunRunDiagnosisCauseNextNextStep) string {
	if n.SignalType == nil {
		return ""
	}
	switch *n.SignalType {
	case client.SignalTypeRetryStep:
		command := fmt.Sprintf("dvt run retry %s %s", shortID(runID), runtext.Deref(n.StepId))
		if n.Force {
			command += ` --force --reason "…"`
		}
		return command
	case client.SignalTypeResume:
		return "dvt run resume " + shortID(runID)
	}
	return ""
}

// diagnoseAll prints what is wrong with dvt, and the first cause of each of the first runs that need somebody. It asks
// for all runs at once, because each answer takes seconds while the engine does not answer.
func (s *session) diagnoseAll(c *cobra.Command) error {
	health, err := client.ShowHealth(c.Context(), s.client)
	if err != nil {
		return cmdline.Failure(err)
	}
	waiting, err := client.ListAttention(c.Context(), s.client, new(maxDiagnosed), nil)
	if err != nil {
		return s.withBrokenParts(c.Context(), err)
	}
	var ids []string
	for _, e := range waiting.Attention.Edges {
		if !slices.Contains(ids, e.Node.RunId) {
			ids = append(ids, e.Node.RunId)
		}
	}
	found, errs := make([]*client.DiagnoseRunRun, len(ids)), make([]error, len(ids))
	var asked sync.WaitGroup
	for i, id := range ids {
		asked.Go(func() {
			var out *client.DiagnoseRunResponse
			if out, errs[i] = client.DiagnoseRun(c.Context(), s.client, id); errs[i] == nil {
				found[i] = out.Run
			}
		})
	}
	asked.Wait()
	if err := cmp.Or(errs...); err != nil {
		return s.withBrokenParts(c.Context(), err)
	}
	runs := slices.DeleteFunc(found, func(r *client.DiagnoseRunRun) bool { return r == nil || len(r.Diagnosis) == 0 })
	if s.output.IsData() {
		return s.print(map[string]any{"health": health.Health, "runs": runs})
	}
	broken := brokenParts(health)
	for _, part := range broken {
		fmt.Fprintln(s.out, part)
	}
	if len(broken) == 0 {
		fmt.Fprintln(s.out, "Everything that dvt depends on answers.")
	}
	s.showRestrictions(c.Context())
	if len(runs) == 0 {
		fmt.Fprintln(s.out, "No run needs anybody.")
		return nil
	}
	t := s.table("RUN", "STATUS", "FIRST CAUSE")
	for _, r := range runs {
		t.Row(shortID(r.RunId), runtext.Words(r.StatusRaw), r.Diagnosis[0].Title)
	}
	if err := t.Print(); err != nil {
		return err
	}
	s.note("all causes of a run, with what to do: dvt doctor RUN\n")
	return nil
}

// brokenParts returns a line for each part of dvt that does not work.
func brokenParts(health *client.ShowHealthResponse) (lines []string) {
	for _, check := range health.Health.Checks {
		if check.Status != client.HealthStatusHealthy {
			lines = append(lines, check.Name+": "+runtext.Deref(check.Message))
		}
	}
	return lines
}

// withBrokenParts adds to the failure of a diagnosis the parts of dvt that do not work. Without the store the API says
// nothing about a run, but still what is wrong with dvt.
func (s *session) withBrokenParts(ctx context.Context, err error) error {
	var refusal *client.Error
	if err = client.AsAPIError(err); !errors.As(err, &refusal) || !isOutage(run.Code(refusal.Code)) {
		return cmdline.Failure(err)
	}
	if health, healthErr := client.ShowHealth(ctx, s.client); healthErr == nil {
		refusal.More = append(brokenParts(health), refusal.More...)
	}
	return cmdline.Failure(err)
}

func isOutage(code run.Code) bool {
	return code == run.CodeStoreUnavailable || code == run.CodeUnavailable || code == run.CodeStoreOverloaded
}
