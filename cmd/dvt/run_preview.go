package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
)

// addDryRun gives a command the flag that dryRun reads.
func addDryRun(c *cobra.Command) {
	c.Flags().Bool("dry-run", false, "only say what would happen; nothing is sent")
}

// dryRun reports whether a command is only to say what it would do.
func dryRun(c *cobra.Command) bool {
	yes, err := c.Flags().GetBool("dry-run")
	return err == nil && yes
}

// previewSignal prints what a signal would do.
func (s *session) previewSignal(c *cobra.Command, in client.SignalRunInput, cancel bool) error {
	if cancel {
		return s.preview(c, client.ActionInput{Cancel: &client.CancelActionInput{RunId: in.RunId}})
	}
	return s.preview(c, client.ActionInput{Signal: &client.SignalActionInput{RunId: in.RunId, Signal: in.Signal}})
}

// preview prints what an action would do. What would be refused has the exit status 3.
func (s *session) preview(c *cobra.Command, action client.ActionInput) error {
	out, err := client.PreviewAction(c.Context(), s.client, action)
	if err != nil {
		return failure(err)
	}
	p := &out.Preview
	if s.output.data() {
		err = s.print(p)
	} else {
		err = s.showPreview(p)
	}
	if err == nil && (p.Outcome == client.ActionOutcomeRefused || p.Outcome == client.ActionOutcomeUnsupported) {
		return &exitError{status: 3, err: fmt.Errorf("%s: it would be refused", text(p.Code))}
	}
	return err
}

func (s *session) showPreview(p *client.PreviewActionPreview) error {
	fmt.Fprintf(s.out, "%s\t%s\n", p.Outcome, text(p.Reason))
	if p.Status != nil {
		fmt.Fprintf(s.out, "The run is %s then, if nothing else happens.\n", *p.Status)
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	for _, c := range p.Changes {
		fmt.Fprintf(w, "  %s\t%s\t%s -> %s\t%s\n", c.Kind, c.StepId, c.From, c.To, c.Why)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(p.Blocked) > 0 {
		fmt.Fprintf(s.out, "Cannot start: %s\n", strings.Join(p.Blocked, ", "))
	}
	for _, warning := range p.Warnings {
		fmt.Fprintf(s.out, "! %s\n", warning)
	}
	return nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
