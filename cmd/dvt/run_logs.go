package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
)

// logPage is how many lines are asked for at once: the most that the API gives.
const logPage = 1000

func (s *session) logsCommand() *cobra.Command {
	var attempt int
	var follow bool
	c := &cobra.Command{
		Use: "logs RUN STEP", Short: "Print what a step printed", Args: exact(2),
		RunE: func(c *cobra.Command, args []string) error {
			var which *int
			if attempt > 0 {
				which = &attempt
			}
			if follow {
				return s.followLog(c, args[0], args[1], which)
			}
			return s.readLog(c, args[0], args[1], which)
		},
	}
	c.Flags().IntVar(&attempt, "attempt", 0, "logical attempt; default: the latest")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on while the step prints; -o json prints an object for each piece")
	return c
}

// readLog prints all that there is now. For programs it is one document.
func (s *session) readLog(c *cobra.Command, runID, stepID string, attempt *int) error {
	var whole *client.ReadStepLogStepLog
	for from := 1; ; {
		size := logPage
		out, err := client.ReadStepLog(c.Context(), s.client, runID, stepID, attempt, &from, &size)
		if err != nil {
			return failure(err)
		}
		if out.StepLog == nil {
			return notFound("step")
		}
		attempt = &out.StepLog.Attempt // a retry that begins meanwhile has a log of its own
		switch {
		case !s.output.data():
			for _, l := range out.StepLog.Lines {
				fmt.Fprintln(s.out, l.Text)
			}
		case whole == nil:
			whole = out.StepLog
		default:
			whole.Lines, whole.TotalLines = append(whole.Lines, out.StepLog.Lines...), out.StepLog.TotalLines
		}
		if from += len(out.StepLog.Lines); len(out.StepLog.Lines) < size {
			break
		}
	}
	if whole != nil {
		return s.print(whole)
	}
	return nil
}

func (s *session) followLog(c *cobra.Command, runID, stepID string, attempt *int) error {
	err := s.client.Follow(c.Context(), runID, stepID, attempt, func(f client.FollowStepLogStepLogUpdatesStepLogUpdate) error {
		if s.output.data() {
			if err := s.print(f); err != nil {
				return err
			}
		} else {
			for _, l := range f.Lines {
				fmt.Fprintln(s.out, l.Text)
			}
		}
		if f.Complete {
			return errOver
		}
		return nil
	})
	if errors.Is(err, errOver) || c.Context().Err() != nil {
		return nil //nolint:nilerr // all was printed, or Ctrl-C
	}
	return failure(err)
}
