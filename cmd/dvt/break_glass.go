package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

func breakGlassCommand() *cobra.Command {
	s := &session{}
	c := s.command("break-glass", "Take a role in an emergency, for some minutes, and give it up again",
		s.breakGlassTake(), s.breakGlassEnd(), s.breakGlassStatus())
	c.Long = "The policy names who may take which role in an emergency, and for how long: see dvt break-glass status.\n" +
		"Each use is audited."
	return c
}

func (s *session) breakGlassTake() *cobra.Command {
	in := client.BreakGlassInput{}
	c := &cobra.Command{
		Use: "take ROLE", Short: "Take a role on the whole tenant for some minutes", Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if in.Role, err = cmdline.Word("ROLE", args[0], client.AllRole); err != nil {
				return err
			}
			if in.Minutes < 1 {
				return cmdline.Usage(errors.New("--minutes must be 1 or more"))
			}
			in.RequestId = orNew(in.RequestId)
			out, err := client.BreakGlass(c.Context(), s.client, in)
			if err != nil {
				return cmdline.Failure(err)
			}
			if s.output.IsData() {
				return s.print(out.BreakGlass)
			}
			b := out.BreakGlass
			fmt.Fprintf(s.out, "You have the role %s on the whole tenant until %s.\n", b.Role, runtext.Moment(&b.Until))
			fmt.Fprintln(s.err, "Give it up when you are done: dvt break-glass end")
			return nil
		},
	}
	c.Flags().IntVar(&in.Minutes, "minutes", 0, "for how long; the policy has a limit for each role")
	c.Flags().StringVar(&in.Reason, "reason", "", "why; kept in the audit")
	c.Flags().StringVar(&in.RequestId, "request-id", "", "client key that makes repeating safe; default: a new one")
	_ = c.MarkFlagRequired("minutes") // cannot fail: the flag exists
	_ = c.MarkFlagRequired("reason")
	return c
}

func (s *session) breakGlassEnd() *cobra.Command {
	var requestID string
	c := &cobra.Command{
		Use: "end", Short: "Give up the roles that you took, before they expire", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := client.EndBreakGlass(c.Context(), s.client, client.EndBreakGlassInput{RequestId: orNew(requestID)})
			if err != nil {
				return cmdline.Failure(err)
			}
			if s.output.IsData() {
				return s.print(out.EndBreakGlass)
			}
			_, err = fmt.Fprintf(s.out, "You have no role by break-glass. The policy has the version %d.\n",
				out.EndBreakGlass.PolicyVersion)
			return err
		},
	}
	c.Flags().StringVar(&requestID, "request-id", "", "client key that makes repeating safe; default: a new one")
	return c
}

func (s *session) breakGlassStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the roles that you took, and those that the policy lets you take",
		Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := client.ShowBreakGlass(c.Context(), s.client)
			if err != nil {
				return cmdline.Failure(err)
			}
			v := out.Viewer
			if s.output.IsData() {
				return s.print(v)
			}
			until := map[client.Role]*time.Time{}
			for _, g := range v.Grants {
				if g.BreakGlass {
					until[g.Role] = g.ExpiresAt
				}
			}
			if len(until) == 0 {
				fmt.Fprintf(s.out, "%s has no role by break-glass.\n", v.Principal)
			}
			for role, at := range until {
				fmt.Fprintf(s.out, "%s has the role %s by break-glass until %s.\n", v.Principal, role, runtext.Moment(at))
			}
			if len(v.BreakGlass) == 0 {
				fmt.Fprintln(s.err, "The policy lets you take no role. API tokens can take none.")
				return nil
			}
			fmt.Fprintln(s.out)
			t := s.table("YOU MAY TAKE", "FOR AT MOST")
			for _, r := range v.BreakGlass {
				t.Row(r.Role, cmdline.Count(r.MaxMinutes, "minute"))
			}
			return t.Print()
		},
	}
}
