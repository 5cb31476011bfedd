package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// receiptWait is the default time that a command waits for a signal to be applied. The signal is durable even if the
// command stops waiting.
const receiptWait = 30 * time.Second

// sendOptions are the flags that tell how a command sends a signal and what it waits for.
type sendOptions struct {
	signalID     string
	wait, noWait bool
	timeout      time.Duration
}

func (g *sendOptions) flags(c *cobra.Command) {
	c.Flags().BoolVar(&g.wait, "wait", true, "wait until the signal is applied, and report its progress")
	c.Flags().BoolVar(&g.noWait, "no-wait", false, "return when the signal is accepted")
	c.Flags().DurationVar(&g.timeout, "timeout", receiptWait, "longest time to wait; after it the exit status is 1")
	c.MarkFlagsMutuallyExclusive("wait", "no-wait")
}

// idFlags adds the flags of a command whose caller may choose the signal id.
func (g *sendOptions) idFlags(c *cobra.Command) {
	c.Flags().StringVar(&g.signalID, "signal-id", "",
		"client key that makes repeating safe; default: a new one, which is printed for people")
	g.flags(c)
}

// id returns the signal id, a new one if none was given. A caller that does not learn the outcome can repeat the
// command safely with this id, which the error then names.
func (g *sendOptions) id() string {
	if g.signalID == "" {
		g.signalID = uuid.NewString()
	}
	return g.signalID
}

// receipt reports the progress of a signal until its outcome is final, unless how says not to wait. Its error has the
// exit status 3 if the signal was rejected or not applied, and 1 if it was not applied in time. A resume that waits for
// running steps is no error.
func (s *session) receipt(ctx context.Context, r client.Receipt, how sendOptions) error {
	deadline := time.Now().Add(how.timeout)
	late := false
	for said := ""; how.wait && !how.noWait && r.Decision == client.SignalDecisionAccepted && !isFinal(r); {
		if is := stage(r); is != said {
			s.note("%s\n", is)
			said = is
		}
		if late = time.Now().After(deadline); late {
			break
		}
		select {
		case <-ctx.Done():
			fmt.Fprintf(s.err, "the signal is durable: the run applies it although you stopped waiting (signal id %s)\n",
				r.SignalId)
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
		out, err := client.GetSignal(ctx, s.client, r.RunId, r.SignalId)
		if err != nil {
			if ctx.Err() != nil {
				continue
			}
			return cmdline.Failure(err)
		}
		if out.Signal == nil {
			return cmdline.NotFound("signal")
		}
		r = *out.Signal
	}
	if s.output.IsData() {
		if err := s.print(r); err != nil {
			return err
		}
	}
	switch {
	case r.Decision == client.SignalDecisionRejected || r.Application != nil &&
		*r.Application == client.SignalApplicationNotApplied:
		refused, next := &cmdline.Error{Status: 3}, "see the run as it is now: dvt run show "+r.RunId
		if r.Rejection != nil {
			refused.Code = r.Rejection.Code
		}
		if refused.Code == string(run.CodeRunTerminal) {
			next = s.rerunHint(ctx, r.RunId)
		}
		refused.Err = fmt.Errorf("%s\n  %s", sentence(r), next)
		return refused
	case late:
		if n := s.stepsBeforeResume(ctx, r); n > 0 {
			if !s.output.IsData() {
				fmt.Fprintf(s.out, "resume: accepted; the run continues when the running steps have ended: %d left\n", n)
			}
			return nil
		}
		return &cmdline.Error{
			Status: 1, Err: fmt.Errorf(
				"%s within %s\n  do not send it again: it is durable. `dvt service status` and `dvt workflow debug %s` show what "+
					"delays it", sentence(r), plan.DurationWords(how.timeout), r.RunId)}
	case !s.output.IsData():
		fmt.Fprintln(s.out, sentence(r))
	}
	return nil
}

// stepsBeforeResume returns the number of running steps that a run which is paused must end before it applies a RESUME.
// It returns 0 for other signals, and when the run cannot be read.
func (s *session) stepsBeforeResume(ctx context.Context, r client.Receipt) int {
	if r.TypeRaw != string(client.SignalTypeResume) {
		return 0
	}
	out, err := client.ShowRun(ctx, s.client, r.RunId, nil)
	if err != nil || out.Run == nil || out.Run.Substatus == nil ||
		*out.Run.Substatus != client.RunSubstatusDraining {
		return 0
	}
	return out.Run.StepCounts.Running
}

// rerunHint returns the command that runs an ended run again: all of it when nothing failed, because a rerun from
// the failed steps would be refused.
func (s *session) rerunHint(ctx context.Context, runID string) string {
	from := "failed"
	out, err := client.ShowRun(ctx, s.client, runID, nil)
	if err == nil && out.Run != nil && out.Run.Status == client.RunStatusCompleted && out.Run.StepCounts.Failed == 0 {
		from = "start"
	}
	return fmt.Sprintf("run it again: dvt run rerun %s --from %s", shortID(runID), from)
}

func isFinal(r client.Receipt) bool {
	if r.Application == nil {
		return true
	}
	switch *r.Application {
	case client.SignalApplicationApplied, client.SignalApplicationNoop, client.SignalApplicationNotApplied:
		return true
	}
	return false
}

// stage returns the current stage of a signal that is not final yet.
func stage(r client.Receipt) string {
	name := runtext.Words(r.TypeRaw)
	switch {
	case r.Application != nil && *r.Application == client.SignalApplicationDelivered:
		return name + ": delivered to the engine"
	case r.AcceptedSeq != nil:
		return fmt.Sprintf("%s: accepted at seq %d", name, *r.AcceptedSeq)
	}
	return name + ": accepted"
}

// applications says how a signal ended.
var applications = map[client.SignalApplication]string{
	client.SignalApplicationApplied: "applied", client.SignalApplicationNoop: "no effect",
	client.SignalApplicationNotApplied: "not applied",
}

// sentence returns one sentence about the state of a signal.
func sentence(r client.Receipt) string {
	name := runtext.Words(r.TypeRaw)
	if r.Rejection != nil {
		return fmt.Sprintf("%s: rejected. %s", name, r.Rejection.Message)
	}
	why := ""
	if r.ApplicationReason != nil && *r.ApplicationReason != "" {
		why = ": " + *r.ApplicationReason
	}
	if why == ": "+string(run.CodeAlreadyInState) {
		why = ": the run was already in this state"
	}
	switch {
	case r.Application != nil && *r.Application == client.SignalApplicationApplied && r.AppliedSeq != nil:
		out := fmt.Sprintf("%s: applied at seq %d", name, *r.AppliedSeq)
		if r.QuiescentSeq != nil {
			out += "; no step is running"
		}
		return out + why
	case r.Application != nil && isFinal(r):
		return fmt.Sprintf("%s: %s%s", name, applications[*r.Application], why)
	}
	return fmt.Sprintf("%s: accepted and durable; the engine has not applied it yet%s", name, why)
}
