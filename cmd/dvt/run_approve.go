package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

func (s *session) approveCommand() *cobra.Command {
	var reject bool
	var reason, requestID string
	c := &cobra.Command{
		Use: "approve RUN", Short: "Approve a run that waits for approval, or reject it", Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if reject && !cmdline.IsPreview(c) {
				if err := cmdline.NeedReason(reason); err != nil {
					return err
				}
			}
			decision := client.DecisionApprove
			if reject {
				decision = client.DecisionReject
			}
			if cmdline.IsPreview(c) {
				return s.preview(c, client.ActionInput{Approve: &client.ApproveActionInput{RunId: args[0], Decision: decision}})
			}
			in := client.ApproveRunInput{RunId: args[0], RequestId: orNew(requestID), Decision: decision}
			if reason != "" {
				in.Reason = &reason
			}
			out, err := client.ApproveRun(c.Context(), s.client, in)
			if err != nil {
				return cmdline.Failure(err)
			}
			if s.output.IsData() {
				return s.print(out.ApproveRun.Run)
			}
			r := out.ApproveRun.Run
			line := fmt.Sprintf("%s is %s", r.RunId, runtext.Words(runtext.Status(r.RunRow)))
			if a := r.Approval; a != nil && a.ExpiresAt != nil {
				line = fmt.Sprintf("%s has %d of %d approvals, and waits until %s", r.RunId, approvalCount(a),
					a.Required, runtext.Moment(a.ExpiresAt))
			}
			if c := out.ApproveRun.Change; c != nil && c.RequestId != in.RequestId {
				line = fmt.Sprintf("You decided at %s already, and that decision stands. %s", runtext.Moment(&c.At), line)
			}
			_, err = fmt.Fprintln(s.out, line)
			return err
		},
	}
	c.Flags().BoolVar(&reject, "reject", false, "reject the run, which ends it")
	c.Flags().StringVar(&reason, "reason", "", "why; kept in the log and the audit")
	c.Flags().StringVar(&requestID, "request-id", "", "client key that makes repeating safe; default: a new one")
	cmdline.AddPreview(c)
	return c
}

// approvalCount returns the number of principals who approved.
func approvalCount(a *client.ApprovalRow) (n int) {
	for _, d := range a.Decisions {
		if d.Decision == client.DecisionApprove {
			n++
		}
	}
	return n
}

// listApprovals prints the runs that wait for approval.
func (s *session) listApprovals(c *cobra.Command, l listing) error {
	l.none = "No run waits for approval."
	var all client.ListApprovalsApprovalsRunConnection
	return s.list(c.Context(), l, &all, func(ctx context.Context, first int, after *string) (page, error) {
		out, err := client.ListApprovals(ctx, s.client, &first, after)
		if err != nil {
			return page{}, err
		}
		before := all.Edges
		all = out.Approvals
		return prepend(before, &all.Edges, all.PageInfo), nil
	}, func() *console.Table {
		t := s.table("RUN", "PLAN", "WHERE", "BY", "ASKED", "APPROVALS", "UNTIL", "YOU MAY")
		for _, e := range all.Edges {
			r, have, until, may := e.Node, "–", "–", "–"
			if a := r.Approval; a != nil {
				have, until = fmt.Sprintf("%d/%d", approvalCount(a), a.Required), s.when(a.ExpiresAt)
			}
			for _, a := range r.Actions {
				if a.Action != client.ActionApprove {
					continue
				}
				if may = "yes"; a.Outcome != client.ActionOutcomeApply {
					may = runtext.Deref(a.Reason)
				}
			}
			t.Row(r.RunId, r.Plan.PlanId+"@"+r.Plan.PlanVersion, r.ProjectId+"/"+r.EnvironmentId, runtext.Deref(r.TriggeredBy),
				s.when(&r.CreatedAt), have, until, may)
		}
		return t
	})
}
