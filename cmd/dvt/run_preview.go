package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

// signalAction returns the action to preview for a signal or, with cancel, for cancelRun.
func signalAction(in client.SignalRunInput, cancel bool) client.ActionInput {
	if cancel {
		return client.ActionInput{Cancel: &client.CancelActionInput{RunId: in.RunId}}
	}
	return client.ActionInput{Signal: &client.SignalActionInput{RunId: in.RunId, Signal: in.Signal}}
}

// preview prints what an action would do. Its error has the exit status 3 if the action would be refused.
func (s *session) preview(c *cobra.Command, action client.ActionInput) error {
	p, err := s.previewOf(c.Context(), action)
	if err != nil {
		return err
	}
	if s.output.IsData() {
		err = s.print(p)
	} else {
		err = s.showPreview(s.display, p)
	}
	if err != nil {
		return err
	}
	return refusal(p)
}

func (s *session) previewOf(ctx context.Context, action client.ActionInput) (*client.PreviewActionPreview, error) {
	out, err := client.PreviewAction(ctx, s.client, action)
	if err != nil {
		return nil, cmdline.Failure(err)
	}
	return &out.Preview, nil
}

// refusal returns the error of an action that would be refused or is not supported, according to its preview; otherwise
// nil.
func refusal(p *client.PreviewActionPreview) error {
	if p.Outcome == client.ActionOutcomeRefused || p.Outcome == client.ActionOutcomeUnsupported {
		return &cmdline.Error{Status: 3, Code: runtext.Deref(p.Code), Err: errors.New("the server would refuse it")}
	}
	return nil
}

// outcomes says what an action would do.
var outcomes = map[client.ActionOutcome]string{
	client.ActionOutcomeApply: "It would be applied.", client.ActionOutcomeNoop: "It would change nothing.",
	client.ActionOutcomeRefused:     "It would be refused.",
	client.ActionOutcomeUnsupported: "This version cannot do it.",
}

func (s *session) showPreview(d console.Display, p *client.PreviewActionPreview) error {
	out := d.Out
	fmt.Fprintln(out, strings.TrimSpace(outcomes[p.Outcome]+" "+runtext.Deref(p.Reason)))
	if p.Status != nil {
		fmt.Fprintf(out, "Result: the run is %s.\n", strings.ToLower(string(*p.Status)))
	}
	t := &console.Table{Display: d, Whole: s.whole(), Before: "  "}
	for _, c := range p.Changes {
		t.Row(runtext.Words(c.Kind), c.StepId, runtext.Words(c.From)+" -> "+runtext.Words(c.To), c.Why)
	}
	if err := t.Print(); err != nil {
		return err
	}
	if len(p.Blocked) > 0 {
		fmt.Fprintf(out, "Cannot start: %s\n", strings.Join(p.Blocked, ", "))
	}
	for _, warning := range p.Warnings {
		fmt.Fprintf(out, "! %s\n", warning)
	}
	return nil
}
