package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
	"github.com/dvt-engine/dvt/run"
)

// logPage is the number of lines in a request: the API's limit.
const logPage = 1000

// logOptions select the lines of a step's log that are printed, and their form.
type logOptions struct {
	runID, stepID string
	attempt       *int // nil: the latest
	from          int  // number of the next line, from 1
	since         time.Time
	grep          string
	stamps        bool   // print time and stream before each line
	before        string // printed before each line: "", or the step of the line
}

func (s *session) logsCommand() *cobra.Command {
	var attempt, tail int
	var follow, failed, all bool
	var since, giveUp time.Duration
	var how logOptions
	c := &cobra.Command{
		Use: "logs RUN [STEP]", Short: "Print the output of a step; default: of the step that failed the run",
		Args: cmdline.RangeArgs(1, 2),
		Long: "Print the output of one attempt of a step. Without STEP it is the step that failed the run or holds it " +
			"up. With --follow the\n" +
			"command runs until the attempt is over, and reconnects when a connection is lost. With -o json the lines have " +
			"their numbers, times and streams.",
		RunE: func(c *cobra.Command, args []string) (err error) {
			if tail < 0 || since < 0 {
				return cmdline.Usage(errors.New("--tail and --since must not be negative: --tail 100, --since 10m"))
			}
			how.runID, how.from = args[0], 1
			if since > 0 {
				how.since = time.Now().Add(-since)
			}
			if all {
				if len(args) > 1 {
					return cmdline.Usage(errors.New("give a STEP or --all, not both"))
				}
				return s.readAllLogs(c.Context(), how)
			}
			if len(args) > 1 {
				how.stepID = args[1]
			} else if how.stepID, err = s.failedStep(c.Context(), args[0]); err != nil {
				return err
			}
			if c.Flags().Changed("attempt") {
				if err := s.checkAttempt(c.Context(), how, attempt); err != nil {
					return err
				}
				how.attempt = &attempt
			}
			if tail > 0 || failed {
				if err := s.findStart(c.Context(), &how, tail, failed); err != nil {
					return err
				}
			}
			if follow {
				return s.followLog(c.Context(), how, giveUp)
			}
			return s.readLog(c.Context(), how)
		},
	}
	c.Flags().IntVar(&attempt, "attempt", 0, "logical attempt; default: the latest")
	c.Flags().BoolVarP(&follow, "follow", "f", false,
		"follow the output until the attempt is over; -o json prints one object for each batch of lines")
	c.Flags().DurationVar(&giveUp, "give-up-after", patience,
		"with --follow: stop after this time without a connection; 0: never")
	c.Flags().IntVar(&tail, "tail", 0, "begin this number of lines before the end")
	c.Flags().BoolVar(&failed, "failed", false, "begin at the line that tells why the attempt failed")
	c.Flags().DurationVar(&since, "since", 0, "only lines that are at most this old, such as 10m")
	c.Flags().StringVar(&how.grep, "grep", "", "only lines that contain this text")
	c.Flags().BoolVar(&how.stamps, "timestamps", false,
		"print the time in UTC and the stream before each line")
	c.Flags().BoolVar(&all, "all", false,
		"the latest attempts of all steps, in the order of their start, each line behind the id of its step")
	c.MarkFlagsMutuallyExclusive("tail", "failed", "all")
	c.MarkFlagsMutuallyExclusive("attempt", "all")
	c.MarkFlagsMutuallyExclusive("follow", "all")
	return c
}

// failedStep returns the id of the step that failed the run or holds it up, and prints it on standard error.
func (s *session) failedStep(ctx context.Context, runID string) (string, error) {
	out, err := client.HeadOfRun(ctx, s.client, runID)
	switch {
	case err != nil:
		return "", cmdline.Failure(err)
	case out.Run == nil:
		return "", cmdline.NotFound("run")
	case out.Run.RootCause == nil || out.Run.RootCause.StepId == nil:
		return "", cmdline.Usage(errors.New("no step of that run has failed: name the STEP whose log you want"))
	}
	s.note("log of step %s, which failed\n", *out.Run.RootCause.StepId)
	return *out.Run.RootCause.StepId, nil
}

// countAttempts returns how many logical attempts a step has had. Error: NOT_FOUND for an unknown run or step.
func (s *session) countAttempts(ctx context.Context, runID, stepID string) (int, error) {
	out, err := client.CountAttempts(ctx, s.client, runID, stepID)
	switch {
	case err != nil:
		return 0, cmdline.Failure(err)
	case out.Run == nil:
		return 0, cmdline.NotFound("run")
	case out.Run.Step == nil:
		return 0, cmdline.NotFound("step")
	}
	return out.Run.Step.LogicalAttemptId, nil
}

// checkAttempt returns NOT_FOUND for an attempt that the step has not had. Without it such an attempt would look like
// one that printed nothing.
func (s *session) checkAttempt(ctx context.Context, how logOptions, attempt int) error {
	had, err := s.countAttempts(ctx, how.runID, how.stepID)
	if err != nil {
		return err
	}
	if attempt < 1 || attempt > had {
		return &cmdline.Error{Status: notFound, Code: string(run.CodeNotFound), Err: fmt.Errorf(
			"%s has had %s; there is no attempt %d", how.stepID, cmdline.Count(had, "attempt"), attempt)}
	}
	return nil
}

// findStart sets the first line to print: tail lines before the end or, with failed, the line that tells why the
// attempt failed.
func (s *session) findStart(ctx context.Context, how *logOptions, tail int, failed bool) error {
	out, err := client.MeasureStepLog(ctx, s.client, how.runID, how.stepID, how.attempt)
	if err != nil {
		return cmdline.Failure(err)
	}
	if out.StepLog == nil {
		return cmdline.NotFound("step")
	}
	l := out.StepLog
	how.attempt = &l.Attempt
	switch {
	case !failed:
		how.from = max(1, l.TotalLines-tail+1)
	case l.ErrorLine != nil:
		how.from = *l.ErrorLine
	default:
		return cmdline.Usage(fmt.Errorf("attempt %d of %s has not failed, or printed nothing", l.Attempt, how.stepID))
	}
	return nil
}

// printLines filters lines by how, prints them for people, and returns them for programs. It advances how.from behind
// the last line.
func (s *session) printLines(how *logOptions, lines []client.LogLine) []client.LogLine {
	taken := lines[:0]
	for _, l := range lines {
		how.from = l.No + 1
		if l.At.Before(how.since) || !strings.Contains(l.Text, how.grep) {
			continue
		}
		if taken = append(taken, l); s.output.IsData() {
			continue
		}
		if s.display.IsTerminal() {
			l.Text = console.MarkEscapes(s.display.Harmless(l.Text))
		}
		if how.stamps {
			l.Text = fmt.Sprintf("%s  %-6s  %s", l.At.UTC().Format("2006-01-02 15:04:05.000Z"), l.Stream, l.Text)
		}
		fmt.Fprintln(console.Verbatim(s.out), how.before+l.Text)
	}
	return taken
}

// readLog prints the lines that exist now. For programs it prints one document at the end.
func (s *session) readLog(ctx context.Context, how logOptions) error {
	var whole *client.ReadStepLogStepLog
	err := s.readPages(ctx, how, func(l *client.ReadStepLogStepLog) error {
		if whole == nil {
			whole = l
		} else if s.output.IsData() {
			whole.Lines, whole.TotalLines, whole.Missing = append(whole.Lines, l.Lines...), l.TotalLines, l.Missing
		}
		return nil
	})
	if err != nil {
		return err
	}
	if s.output.IsData() {
		return s.print(whole)
	}
	if whole.TotalLines == 0 {
		fmt.Fprintf(s.err, "Attempt %d of %s has printed nothing.\n", whole.Attempt, how.stepID)
	}
	return nil
}

// readPages reads the lines of a log that exist now, page by page, prints them for people and calls each with every
// page. There is at least one page.
func (s *session) readPages(ctx context.Context, how logOptions, each func(*client.ReadStepLogStepLog) error) error {
	for more := true; more; {
		size := logPage
		out, err := client.ReadStepLog(ctx, s.client, how.runID, how.stepID, how.attempt, &how.from, &size)
		if err != nil {
			return cmdline.Failure(err)
		}
		l := out.StepLog
		if l == nil {
			return cmdline.NotFound("step")
		}
		how.attempt = &l.Attempt // a retry may start between two pages; it has another log
		more = len(l.Lines) == size
		l.Lines = s.printLines(&how, l.Lines)
		if err := each(l); err != nil {
			return err
		}
	}
	return nil
}

// followLog prints each line once until the attempt is over. It reconnects when a connection is lost.
func (s *session) followLog(ctx context.Context, how logOptions, giveUp time.Duration) error {
	err := watchview.Follow(ctx, giveUp, client.Position{}, func(ctx context.Context, _ client.Position,
		took func(client.Position)) error {
		return s.client.Follow(ctx, how.runID, how.stepID, how.attempt, how.from,
			func(f client.FollowStepLogStepLogUpdatesStepLogUpdate) error {
				took(client.Position{})
				how.attempt = &f.Attempt
				if f.Lines = s.printLines(&how, f.Lines); s.output.IsData() && (len(f.Lines) > 0 || f.Complete) {
					if err := s.print(f); err != nil {
						return watchview.Stop{Cause: err}
					}
				}
				if f.Complete {
					return watchview.Stop{Cause: errOver}
				}
				return nil
			})
	}, s.offlineReporter())
	if errors.Is(err, errOver) {
		return nil
	}
	return cmdline.Failure(err)
}

// offlineReporter returns a function that reports a lost connection on standard error. It reports the same error again
// only after a connection has worked for a while in between.
func (s *session) offlineReporter() func(why error, next time.Time) {
	said, again := "", time.Time{}
	return func(why error, next time.Time) {
		if text := console.OneLine(why.Error()); text != said || time.Now().After(again) {
			fmt.Fprintf(s.err, "OFFLINE: %s; trying again\n", text)
			said = text
		}
		again = next.Add(watchview.MaxSilence)
	}
}

// readAllLogs prints the logs of all steps in the order in which they started, page by page: for people each line
// behind the id of its step, for programs one object for each page.
func (s *session) readAllLogs(ctx context.Context, how logOptions) error {
	out, err := client.ShowRun(ctx, s.client, how.runID, nil)
	switch {
	case err != nil:
		return cmdline.Failure(err)
	case out.Run == nil:
		return cmdline.NotFound("run")
	}
	steps := slices.DeleteFunc(out.Run.Steps, func(st client.ShowRunRunStepsStep) bool { return st.StartedAt == nil })
	slices.SortStableFunc(steps, func(a, b client.ShowRunRunStepsStep) int { return a.StartedAt.Compare(*b.StartedAt) })
	width := 0
	for _, st := range steps {
		width = max(width, len(st.StepId))
	}
	for _, st := range steps {
		one := how
		one.stepID, one.from = st.StepId, 1
		one.before = fmt.Sprintf("%-*s | ", width, st.StepId)
		err := s.readPages(ctx, one, func(l *client.ReadStepLogStepLog) error {
			if !s.output.IsData() || len(l.Lines) == 0 {
				return nil
			}
			return s.print(stepLogPage{st.StepId, l})
		})
		if err != nil {
			return err
		}
	}
	if len(steps) == 0 {
		fmt.Fprintln(s.err, "No step has started.")
	}
	return nil
}

// stepLogPage is a page of the log of a step, for programs.
type stepLogPage struct {
	StepID string `json:"stepId"`
	*client.ReadStepLogStepLog
}
