package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/run"
)

func manualCommand() *cobra.Command {
	s := &session{}
	return s.command("manual", "Steps that wait for a person: list them, complete them", s.tasksCommand(),
		s.completeCommand())
}

func (s *session) tasksCommand() *cobra.Command {
	var runID string
	l := listing{none: "No step waits for a person."}
	c := &cobra.Command{
		Use: "list", Short: "List the steps that wait for a person, the longest wait first", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			var all client.ListManualTasksManualTasksManualTaskConnection
			return s.list(c.Context(), l, &all, func(ctx context.Context, first int, after *string) (page, error) {
				out, err := client.ListManualTasks(ctx, s.client, orNil(runID), &first, after)
				if err != nil {
					return page{}, err
				}
				for i := range out.ManualTasks.Edges { // tokens are secrets and do not belong into a list; complete reads them
					out.ManualTasks.Edges[i].Node.Token = nil
				}
				before := all.Edges
				all = out.ManualTasks
				return prepend(before, &all.Edges, all.PageInfo), nil
			}, func() *console.Table {
				t := s.table("RUN", "STEP", "ATTEMPT", "SINCE", "UNTIL", "WHO CAN", "WHAT TO DO")
				for _, e := range all.Edges {
					task := e.Node
					t.Row(task.RunId, task.StepId, task.LogicalAttemptId, s.when(&task.Since), s.when(task.Deadline),
						whoCompletes(task.Action), runtext.Deref(task.Instructions))
				}
				return t
			})
		},
	}
	c.Flags().StringVar(&runID, "run", "", "only steps of this run")
	l.flag(c, 50)
	return c
}

// whoCompletes names the people who can complete a manual step, the viewer as "you", or the reason why nobody can.
func whoCompletes(a client.TaskAction) string {
	others := strings.Join(a.WhoCould, ", ")
	switch {
	case a.Outcome == client.ActionOutcomeApply:
		return "you"
	case runtext.Deref(a.Code) == string(run.CodeSOD):
		return cmp.Or(others, "nobody") + "; not you, who requested or approved the run"
	case others != "":
		return others
	case runtext.Deref(a.Code) == string(run.CodeForbidden):
		return "nobody"
	}
	return "nobody now: " + runtext.Deref(a.Reason)
}

func (s *session) completeCommand() *cobra.Command {
	var outcome, notes string
	var evidence []string
	var how sendOptions
	c := &cobra.Command{
		Use: "complete RUN STEP", Short: "Complete a step that waits for a person", Args: cmdline.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			as, err := cmdline.Word("--outcome", outcome, client.AllManualOutcome)
			if err != nil {
				return err
			}
			token, err := s.tokenOf(c, args[0], args[1])
			if err != nil {
				return err
			}
			in := client.CompleteManualStepInput{RunId: args[0], StepId: args[1], Token: token, Outcome: as,
				EvidenceRefs: evidence}
			if notes != "" {
				in.Notes = &notes
			}
			if cmdline.IsPreview(c) {
				return s.preview(c, client.ActionInput{CompleteManualStep: &in})
			}
			out, err := client.CompleteManualStep(c.Context(), s.client, in)
			if err != nil {
				return cmdline.Failure(err)
			}
			return s.receipt(c.Context(), out.CompleteManualStep.Signal, how)
		},
	}
	c.Flags().StringVar(&outcome, "outcome", "", "succeeded, failed or cancelled")
	_ = c.MarkFlagRequired("outcome") // cannot fail: the flag exists
	cmdline.AddPreview(c)
	c.Flags().StringVar(&notes, "notes", "", "what others should know; kept in the log")
	c.Flags().StringArrayVar(&evidence, "evidence", nil, "address of evidence; may be repeated")
	how.flags(c)
	return c
}

// tokenOf returns the token with which the caller may complete the step. The error tells why there is none: the step
// does not wait, or the caller has no right.
func (s *session) tokenOf(c *cobra.Command, runID, stepID string) (string, error) {
	limit := maxPage
	var after *string
	for {
		out, err := client.ListManualTasks(c.Context(), s.client, &runID, &limit, after)
		if err != nil {
			return "", cmdline.Failure(err)
		}
		for _, e := range out.ManualTasks.Edges {
			t := e.Node
			if t.StepId != stepID {
				continue
			}
			if t.Token != nil {
				return *t.Token, nil
			}
			return "", cmdline.Failure(&client.Error{Code: runtext.Deref(t.Action.Code), Message: runtext.Deref(t.Action.Reason),
				Denial: client.Denial{WhoCould: t.Action.WhoCould}})
		}
		if !out.ManualTasks.PageInfo.HasNextPage {
			return "", cmdline.Failure(
				&client.Error{Code: "MANUAL_NOT_WAITING", Message: fmt.Sprintf("step %s of run %s does not wait for a person",
					stepID, runID)})
		}
		after = out.ManualTasks.PageInfo.EndCursor
	}
}
