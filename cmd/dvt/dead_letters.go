package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

func deadLettersCommand() *cobra.Command {
	s := &session{}
	return s.command("dead-letters", "Messages that the bus refused: list them, publish them again", s.lettersCommand(),
		s.redriveCommand())
}

func (s *session) lettersCommand() *cobra.Command {
	var runID string
	var redriven bool
	l := listing{none: "No dead letter is open; --all also shows the redriven ones."}
	c := &cobra.Command{
		Use: "list", Short: "List dead letters, newest first", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			open := !redriven
			var all client.ListDeadLettersDeadLettersDeadLetterConnection
			return s.list(c.Context(), l, &all, func(ctx context.Context, first int, after *string) (page, error) {
				out, err := client.ListDeadLetters(ctx, s.client, orNil(runID), &open, &first, after)
				if err != nil {
					return page{}, err
				}
				before := all.Edges
				all = out.DeadLetters
				return prepend(before, &all.Edges, all.PageInfo), nil
			}, func() *console.Table {
				t := s.table("LETTER", "RUN", "SEQ", "TRIED", "BURIED", "REDRIVEN", "CAUSE")
				for _, e := range all.Edges {
					d := e.Node
					t.Row(d.Id, d.RunId, fmt.Sprintf("%d-%d", d.FromSeq+1, d.ToSeq), d.Attempts, s.when(&d.BuriedAt),
						s.when(d.RedrivenAt), d.Cause)
				}
				return t
			})
		},
	}
	c.Flags().StringVar(&runID, "run", "", "only dead letters of this run")
	c.Flags().BoolVar(&redriven, "all", false, "also those that were redriven")
	l.flag(c, 50)
	return c
}

func (s *session) redriveCommand() *cobra.Command {
	var runID, requestID string
	var allOpen bool
	c := &cobra.Command{
		Use: "redrive [LETTER...]", Short: "Publish dead letters again; harmless if they were delivered meanwhile",
		RunE: func(c *cobra.Command, args []string) error {
			in := client.RedriveDeadLettersInput{RequestId: requestID}
			given := 0
			if len(args) > 0 {
				in.Letters.Ids, given = args, given+1
			}
			if runID != "" {
				in.Letters.RunId, given = &runID, given+1
			}
			if allOpen {
				in.Letters.AllOpen, given = &allOpen, given+1
			}
			if given != 1 {
				return cmdline.Usage(errors.New("give exactly one of: ids of dead letters, --run RUN, --all-open"))
			}
			if in.RequestId == "" {
				in.RequestId = uuid.NewString()
			}
			out, err := client.RedriveDeadLetters(c.Context(), s.client, in)
			if err != nil {
				return cmdline.Failure(err)
			}
			return s.printRedriven(out.RedriveDeadLetters)
		},
	}
	c.Flags().StringVar(&runID, "run", "", "the open ones of this run, at most 200")
	c.Flags().BoolVar(&allOpen, "all-open", false, "the open ones of the tenant, at most 200")
	c.Flags().StringVar(&requestID, "request-id", "", "client key that makes repeating safe; default: a new one")
	return c
}

// printRedriven prints a line for each dead letter. Its error has the status of the worst outcome: 1 for a failed
// publication, 4 if the only failures are unknown ids.
func (s *session) printRedriven(p client.RedriveDeadLettersRedriveDeadLettersRedriveDeadLettersPayload) error {
	if s.output.IsData() {
		if err := s.print(p); err != nil {
			return err
		}
	}
	failed, status := 0, 4
	for _, r := range p.Results {
		line := fmt.Sprintf("%s %s", r.Id, runtext.Words(r.Outcome))
		if r.Outcome == client.RedriveOutcomeFailed {
			failed++
			line += fmt.Sprintf(": %s [%s]", runtext.Deref(r.Message), runtext.Deref(r.Code))
			if runtext.Deref(r.Code) != "NOT_FOUND" {
				status = 1
			}
		}
		if !s.output.IsData() {
			fmt.Fprintln(s.out, line)
		}
	}
	if !s.output.IsData() && len(p.Results) == 0 {
		fmt.Fprintln(s.err, "no dead letters are open")
	}
	if !s.output.IsData() && p.More {
		fmt.Fprintln(s.err, "more dead letters are open: run the command again")
	}
	if failed > 0 {
		return &cmdline.Error{Status: status, Err: fmt.Errorf("%d of %d dead letters were not published", failed,
			len(p.Results))}
	}
	return nil
}
