// Package stepcmd has the command that shows the evidence of a step: each try of the platform, and the compensation.
package stepcmd

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

// commands are the commands of a session.
type commands struct{ cmdline.Session }

// Show returns the command step.
func Show(session cmdline.Session) *cobra.Command {
	s := commands{session}
	var attempt int
	c := &cobra.Command{
		Use: "step RUN STEP", Short: "Show a step with each try of the platform, and its compensation",
		Args: cmdline.ExactArgs(2),
		Long: "Show a step with each try of the platform within one attempt: how it ended, when, with which exit status or\n" +
			"signal, and how much it printed. The times are those of the worker's clock. The worker itself is named to those\n" +
			"who may debug the run.",
		RunE: func(c *cobra.Command, args []string) error {
			var of *int
			if c.Flags().Changed("attempt") {
				of = &attempt
			}
			out, err := client.ShowStepEvidence(c.Context(), s.Client(), args[0], args[1], of)
			switch {
			case err != nil:
				return cmdline.Failure(err)
			case out.Run == nil:
				return cmdline.NotFound("run")
			case out.Run.Step == nil:
				return cmdline.NotFound("step")
			case s.IsData():
				return s.Print(out.Run.Step)
			}
			return s.print(*out.Run.Step)
		},
	}
	c.Flags().IntVar(&attempt, "attempt", 0, "an earlier attempt, by its number; default: the newest")
	return c
}

func (s commands) print(st client.StepEvidenceRow) error {
	e := st.Evidence
	fmt.Fprintf(s.Out(), "step %s (%s) is %s", st.StepId, st.Type, runtext.Words(st.StatusRaw))
	if e.LogicalAttemptId > 0 {
		fmt.Fprintf(s.Out(), ", attempt %d", e.LogicalAttemptId)
	}
	fmt.Fprintln(s.Out())
	if len(e.Tries) > 0 {
		fmt.Fprintln(s.Out())
		t := s.Table("TRY", "OUTCOME", "STARTED", "ENDED", "HEARTBEAT", "EXIT", "PRINTED", "WORKER", "ERROR")
		for _, r := range e.Tries {
			t.Row(r.EngineAttemptId, runtext.Words(string(r.Outcome)), s.When(r.StartedAt), s.When(r.EndedAt),
				s.When(r.LastHeartbeatAt), exit(r), printed(r), orDash(r.Worker), orDash(r.ErrorCode))
		}
		if err := t.Print(); err != nil {
			return err
		}
	}
	if c := e.Compensation; c != nil {
		word := "compensated"
		if !c.Compensated {
			word = "not compensated"
		}
		fmt.Fprintf(s.Out(), "\n%s %s, tries: %d", word, s.When(&c.EndedAt), c.Attempts)
		if c.ErrorCode != nil {
			fmt.Fprintf(s.Out(), ", %s: %s", *c.ErrorCode, console.OneLine(runtext.Deref(c.ErrorMessage)))
		}
		fmt.Fprintln(s.Out())
	}
	for _, r := range e.Tries {
		if r.Stack != nil {
			fmt.Fprintf(s.Out(), "\nstack of try %d:\n%s\n", r.EngineAttemptId, *r.Stack)
		}
	}
	return nil
}

// exit returns the exit status or the signal of the program of a try; "-" when none is known.
func exit(r client.StepEvidenceTry) string {
	switch {
	case r.Signal != nil:
		return *r.Signal
	case r.ExitStatus != nil:
		return strconv.Itoa(*r.ExitStatus)
	}
	return "-"
}

func printed(r client.StepEvidenceTry) string {
	if r.LogLines == nil || r.LogBytes == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f lines, %.0f B", *r.LogLines, *r.LogBytes)
}

func orDash(text *string) string {
	if text == nil {
		return "-"
	}
	return *text
}
