package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
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
			return err
		}
		out, err := client.DiagnoseRun(c.Context(), s.client, args[0])
		switch {
		case err != nil:
			return cmdline.Failure(err)
		case out.Run == nil:
			return cmdline.NotFound("run")
		case s.output.IsData():
			return s.print(out.Run)
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
		// The API has no field for force; the server words every such step alike.
		if strings.HasPrefix(n.Text, "Retry the step by force") {
			command += ` --force --reason "…"`
		}
		return command
	case client.SignalTypeResume:
		return "dvt run resume " + shortID(runID)
	}
	return ""
}

// diagnoseAll prints what is wrong with dvt, and the first cause of each of the first runs that need somebody.
func (s *session) diagnoseAll(c *cobra.Command) error {
	health, err := client.ShowHealth(c.Context(), s.client)
	if err != nil {
		return cmdline.Failure(err)
	}
	waiting, err := client.ListAttention(c.Context(), s.client, new(maxDiagnosed), nil)
	if err != nil {
		return cmdline.Failure(err)
	}
	var runs []*client.DiagnoseRunRun
	seen := map[string]bool{}
	for _, e := range waiting.Attention.Edges {
		if seen[e.Node.RunId] {
			continue
		}
		seen[e.Node.RunId] = true
		out, err := client.DiagnoseRun(c.Context(), s.client, e.Node.RunId)
		if err != nil {
			return cmdline.Failure(err)
		}
		if out.Run != nil && len(out.Run.Diagnosis) > 0 {
			runs = append(runs, out.Run)
		}
	}
	if s.output.IsData() {
		return s.print(map[string]any{"health": health.Health, "runs": runs})
	}
	well := true
	for _, check := range health.Health.Checks {
		if check.Status != client.HealthStatusHealthy {
			well = false
			fmt.Fprintf(s.out, "%s: %s\n", check.Name, runtext.Deref(check.Message))
		}
	}
	if well {
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
