package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
	"github.com/dvt-engine/dvt/run"
)

func (s *session) retryVerb() verb {
	var force bool
	return verb{
		use: "retry RUN [STEP]", short: "Retry a failed step; default: the one that failed", args: 2, optional: 1,
		watches: true, defaultStep: s.stepToRetry,
		long: "Retry a failed step of a run that waits for it. STEP can be left out when one step failed. When several\n" +
			"failed, the error lists the command for each. A run that has ended is run again with dvt run rerun.",
		flags: func(c *cobra.Command) {
			c.Flags().BoolVar(&force, "force", false, "retry even if the policy forbids it (audited)")
		},
		input: func(_ *cobra.Command, args []string, why *string, in *client.SignalInput) error {
			in.RetryStep = &client.RetryStepInput{StepId: args[1], Force: &force, Reason: why}
			return nil
		},
	}
}

// endWords says how a run ended.
var endWords = map[client.RunStatus]string{client.RunStatusCompleted: "has completed",
	client.RunStatusFailed: "has failed", client.RunStatusCancelled: "was cancelled"}

// stepToRetry returns the one step of the run that failed, and prints it on standard error. When several failed, its
// error has the whole command for each; when none did, or the run has ended, the error says what to do instead.
func (s *session) stepToRetry(c *cobra.Command, runID string) (string, error) {
	out, err := client.ShowRun(c.Context(), s.client, runID, nil)
	switch {
	case err != nil:
		return "", cmdline.Failure(err)
	case out.Run == nil:
		return "", cmdline.NotFound("run")
	}
	short := shortID(runID)
	var failed []client.ShowRunRunStepsStep
	for _, st := range out.Run.Steps {
		if hasFailed(st) {
			failed = append(failed, st)
		}
	}
	switch {
	case watchview.HasEnded(out.Run.Status) && len(failed) > 0:
		return "", &cmdline.Error{Status: 3, Code: string(run.CodeRunTerminal), Err: fmt.Errorf(
			"run %s %s, and its steps cannot be retried any more\n  run it again: dvt run rerun %s", short,
			endWords[out.Run.Status], short)}
	case len(failed) == 0:
		return "", cmdline.Usage(fmt.Errorf("no step of run %s has failed\n  see it: dvt run show %s", short, short))
	case len(failed) == 1:
		s.note("step %s\n", runtext.StepTitle(failed[0].StepId, runtext.Deref(failed[0].Name)))
		return failed[0].StepId, nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d steps of run %s have failed; choose one:", len(failed), short)
	for i, st := range failed {
		if i == maxMoved {
			fmt.Fprintf(&b, "\n  and %d more: dvt run show %s --failed", len(failed)-i, short)
			break
		}
		fmt.Fprintf(&b, "\n  dvt run retry %s %s", short, st.StepId)
		if name := runtext.Deref(st.Name); name != "" && name != st.StepId {
			fmt.Fprintf(&b, "   # %s", name)
		}
	}
	return "", cmdline.Usage(errors.New(b.String()))
}
