package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/run"
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
		err = s.showPreview(c.Context(), s.display, action, p)
	}
	if err != nil {
		return err
	}
	return refusal(action, p)
}

func (s *session) previewOf(ctx context.Context, action client.ActionInput) (*client.PreviewActionPreview, error) {
	out, err := client.PreviewAction(ctx, s.client, action)
	if err != nil {
		return nil, cmdline.Failure(err)
	}
	return &out.Preview, nil
}

// refusal returns the error of an action that would be refused or is not supported, according to its preview, with the
// next command if there is one; otherwise nil.
func refusal(action client.ActionInput, p *client.PreviewActionPreview) error {
	if p.Outcome != client.ActionOutcomeRefused && p.Outcome != client.ActionOutcomeUnsupported {
		return nil
	}
	text := "the server would refuse it"
	if len(p.WhoCould) > 0 {
		text += "\n  who can do this: " + strings.Join(p.WhoCould, ", ")
	}
	if next := nextAfterRefusal(action, runtext.Deref(p.Code), runtext.Deref(p.Reason)); next != "" {
		text += "\n  " + next
	}
	return &cmdline.Error{Status: 3, Code: runtext.Deref(p.Code), Err: errors.New(text)}
}

// nextAfterRefusal returns the command that people need after a refusal with that code and reason; "" for none.
func nextAfterRefusal(action client.ActionInput, code, reason string) string {
	rerun, signal := action.Rerun, action.Signal
	switch {
	case rerun != nil && code == string(run.CodeInvalidRunState) && strings.Contains(reason, "has not ended"):
		return "wait for its end: dvt run watch " + shortID(rerun.RunId)
	case rerun != nil && code == string(run.CodeInvalidRunState) && rerun.From.Failed != nil:
		return "run all of it again: dvt run rerun " + shortID(rerun.RunId) + " --from start"
	case signal != nil && code == string(run.CodeRunTerminal):
		return "run it again: dvt run rerun " + shortID(signal.RunId)
	case signal != nil && strings.HasPrefix(code, "STEP_"):
		return "see the steps: dvt run show " + shortID(signal.RunId)
	}
	return ""
}

// outcomes says what an action would do.
var outcomes = map[client.ActionOutcome]string{
	client.ActionOutcomeApply: "It would be applied.", client.ActionOutcomeNoop: "It would change nothing.",
	client.ActionOutcomeRefused:     "It would be refused.",
	client.ActionOutcomeUnsupported: "This version cannot do it.",
}

// maxPreviewed bounds the steps that a preview lists.
const maxPreviewed = 5

// showPreview prints the server's sentence, the step of the action first, at most four other steps, and how many there
// are besides.
func (s *session) showPreview(ctx context.Context, d console.Display, action client.ActionInput,
	p *client.PreviewActionPreview) error {
	out, reason := d.Out, runtext.Deref(p.Reason)
	fmt.Fprintln(out, strings.TrimSpace(outcomes[p.Outcome]+" "+reason))
	if action.Rerun != nil {
		printRerun(out, p.Changes)
	} else if err := s.printChanges(d, stepOf(action), p.Changes); err != nil {
		return err
	}
	if p.Nodes != nil {
		if err := s.printNodes(d, p.Nodes); err != nil {
			return err
		}
	}
	if n := len(p.Blocked); n > 0 {
		fmt.Fprintf(out, "%s will not start: %s\n", cmdline.Count(n, "step"), firstSteps(p.Blocked))
	}
	if p.Outcome == client.ActionOutcomeApply {
		if reach := s.reachOf(ctx, action); reach != "" {
			fmt.Fprintln(out, reach)
		}
	}
	switch {
	case p.Status == nil:
	case action.Rerun != nil && *p.Status == client.RunStatusPending:
		fmt.Fprintln(out, "Result: a new run is created, and waits.")
	case action.Rerun != nil:
		fmt.Fprintln(out, "Result: a new run starts.")
	case action.Start != nil && *p.Status == client.RunStatusPending:
		fmt.Fprintln(out, "Result: the run waits for its start.")
	case *p.Status == client.RunStatusPending:
		fmt.Fprintln(out, "Result: the run still waits for approval.")
	default:
		if is := strings.ToLower(string(*p.Status)); !strings.Contains(reason, "run is "+is) {
			fmt.Fprintf(out, "Result: the run is %s.\n", is)
		}
	}
	for _, warning := range p.Warnings {
		fmt.Fprintf(out, "! %s\n", warning)
	}
	return nil
}

// reachOf returns a sentence with the numbers of steps that the end of a run or a retry reaches, and "" for another
// action. It returns "" too when the run cannot be read, because the preview is useful without it.
func (s *session) reachOf(ctx context.Context, action client.ActionInput) string {
	var runID, retried string
	switch signal := action.Signal; {
	case action.Cancel != nil:
		runID = action.Cancel.RunId
	case signal == nil:
	case signal.Signal.EmergencyStop != nil:
		runID = signal.RunId
	case signal.Signal.RetryStep != nil:
		runID, retried = signal.RunId, signal.Signal.RetryStep.StepId
	}
	if runID == "" {
		return ""
	}
	out, err := client.ShowRun(ctx, s.client, runID, nil)
	if err != nil || out.Run == nil {
		return ""
	}
	if retried == "" {
		n := out.Run.StepCounts
		return fmt.Sprintf("Running steps that stop: %d. Steps that never start: %d. Steps that have succeeded: %d of %d.",
			n.Running, n.Pending, n.Success, n.Total)
	}
	if cause := out.Run.RootCause; cause != nil && runtext.Deref(cause.StepId) == retried && cause.BlockedSteps > 0 {
		return fmt.Sprintf("Steps that wait for %s: %d.", retried, cause.BlockedSteps)
	}
	return ""
}

// stepOf returns the step that an action is on; "" for an action on a run.
func stepOf(action client.ActionInput) string {
	switch signal := action.Signal; {
	case signal == nil:
	case signal.Signal.RetryStep != nil:
		return signal.Signal.RetryStep.StepId
	case signal.Signal.SkipStep != nil:
		return signal.Signal.SkipStep.StepId
	case signal.Signal.InjectOverride != nil:
		return signal.Signal.InjectOverride.StepId
	case signal.Signal.UpdateTarget != nil:
		return signal.Signal.UpdateTarget.StepId
	}
	if action.CompleteManualStep != nil {
		return action.CompleteManualStep.StepId
	}
	return ""
}

func (s *session) printChanges(d console.Display, own string, changes []client.PreviewActionPreviewChangesStepChange,
) error {
	changes = slices.Clone(changes)
	slices.SortStableFunc(changes, func(a, b client.PreviewActionPreviewChangesStepChange) int {
		switch {
		case a.StepId == own && b.StepId != own:
			return -1
		case b.StepId == own && a.StepId != own:
			return 1
		}
		return 0
	})
	t := &console.Table{Display: d, Whole: s.whole(), Before: "  "}
	for _, c := range changes[:min(len(changes), maxPreviewed)] {
		to := runtext.Words(c.To)
		if c.Kind == "CANCEL" { // the log says FAILED of a step that was stopped, but nothing failed
			to = "cancelled"
		}
		t.Row(c.StepId, runtext.Words(c.From)+" -> "+to, c.Why)
	}
	if err := t.Print(); err != nil {
		return err
	}
	if more := len(changes) - maxPreviewed; more > 0 {
		fmt.Fprintf(d.Out, "  and %s; -o json lists them all\n", cmdline.Count(more, "more step"))
	}
	return nil
}

// maxPreviewedNodes bounds the nodes that a preview lists.
const maxPreviewedNodes = 50

// nodeReasons say why a node is in a retry; %s is the node that is the reason.
var nodeReasons = map[client.RetryNodeReason]string{
	client.RetryNodeReasonFailed: "failed", client.RetryNodeReasonUnfinished: "had not ended",
	client.RetryNodeReasonSkipped: "was skipped", client.RetryNodeReasonTestedBy: "is tested by a test that failed",
	client.RetryNodeReasonTestOf: "tests a model that is built again", client.RetryNodeReasonListed: "was named",
	client.RetryNodeReasonListedNew: "was named, and had not run",
}

// printNodes prints the nodes that a retry would run.
func (s *session) printNodes(d console.Display, p *client.PreviewActionPreviewNodesRetryNodesPreview) error {
	fmt.Fprintf(d.Out, "%s of attempt %d would run:\n", cmdline.Count(p.Count, "node"), p.Attempt)
	t := &console.Table{Display: d, Whole: s.whole(), Before: "  "}
	for _, n := range p.Nodes[:min(len(p.Nodes), maxPreviewedNodes)] {
		why := nodeReasons[n.Why]
		if n.Because != nil {
			why += ": " + *n.Because
		}
		t.Row(n.UniqueId, why)
	}
	if err := t.Print(); err != nil {
		return err
	}
	if more := len(p.Nodes) - maxPreviewedNodes; more > 0 {
		fmt.Fprintf(d.Out, "  and %s; -o json lists them all\n", cmdline.Count(more, "more node"))
	}
	return nil
}

// printRerun prints how many steps run again and how many results are kept, and the first steps of both.
func printRerun(out io.Writer, changes []client.PreviewActionPreviewChangesStepChange) {
	var again, kept []string
	for _, c := range changes {
		if c.Kind == "REUSE" {
			kept = append(kept, c.StepId)
		} else {
			again = append(again, c.StepId)
		}
	}
	if len(again) == 0 && len(kept) == 0 {
		return
	}
	fmt.Fprintln(out, rerunCounts(len(again), len(kept)))
	for _, group := range []struct {
		title string
		steps []string
	}{{"run again", again}, {"kept", kept}} {
		if len(group.steps) > 0 {
			fmt.Fprintf(out, "  %-9s  %s\n", group.title, firstSteps(group.steps))
		}
	}
}

// rerunCounts returns a sentence with the number of steps that a rerun runs again, and of results that it keeps.
func rerunCounts(again, kept int) string {
	runs, results := "steps run", "results are"
	if again == 1 {
		runs = "step runs"
	}
	if kept == 1 {
		results = "result is"
	}
	return fmt.Sprintf("%d %s again, %d %s kept.", again, runs, kept, results)
}

// firstSteps returns the first steps, and how many more there are.
func firstSteps(ids []string) string {
	out := strings.Join(ids[:min(len(ids), maxPreviewed)], ", ")
	if more := len(ids) - maxPreviewed; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}
