package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
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
		"client key that makes repeating safe; default: a new one, which is printed")
	g.flags(c)
}

// id returns the signal id, a new one if none was given, and prints it. A caller that does not learn the outcome can
// repeat the command safely with this id.
func (g *sendOptions) id(s *session) string {
	if g.signalID == "" {
		g.signalID = uuid.NewString()
	}
	fmt.Fprintf(s.err, "signal id %s\n", g.signalID)
	return g.signalID
}

// receipt reports the progress of a signal until its outcome is final, unless how says not to wait. Its error has the
// exit status 3 if the signal was rejected or not applied, and 1 if it was not applied in time.
func (s *session) receipt(ctx context.Context, r client.Receipt, how sendOptions) error {
	deadline := time.Now().Add(how.timeout)
	late := false
	for said := ""; how.wait && !how.noWait && r.Decision == client.SignalDecisionAccepted && !isFinal(r); {
		if is := stage(r); is != said {
			fmt.Fprintln(s.err, is)
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
		return &cmdline.Error{Status: 3, Err: fmt.Errorf("%s\n  see the run as it is now: dvt run show %s", sentence(r),
			r.RunId)}
	case late:
		return &cmdline.Error{
			Status: 1, Err: fmt.Errorf(
				"%s within %s\n  do not send it again: it is durable. `dvt service status` and `dvt workflow debug %s` show what "+
					"delays it", sentence(r), how.timeout, r.RunId)}
	case !s.output.IsData():
		fmt.Fprintln(s.out, sentence(r))
	}
	return nil
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
	is := r.TypeRaw + " ACCEPTED"
	if r.Application != nil && *r.Application == client.SignalApplicationDelivered {
		is = r.TypeRaw + " DELIVERED to the engine"
	}
	if r.AcceptedSeq != nil && is == r.TypeRaw+" ACCEPTED" {
		is += fmt.Sprintf(" at seq %d", *r.AcceptedSeq)
	}
	return is
}

// sentence returns one sentence about the state of a signal.
func sentence(r client.Receipt) string {
	if r.Rejection != nil {
		return fmt.Sprintf("%s REJECTED: %s: %s", r.TypeRaw, r.Rejection.Code, r.Rejection.Message)
	}
	why := ""
	if r.ApplicationReason != nil && *r.ApplicationReason != "" {
		why = ": " + *r.ApplicationReason
	}
	switch {
	case r.Application != nil && *r.Application == client.SignalApplicationApplied && r.AppliedSeq != nil:
		out := fmt.Sprintf("%s APPLIED at seq %d", r.TypeRaw, *r.AppliedSeq)
		if r.QuiescentSeq != nil {
			out += fmt.Sprintf(", and nothing runs any more from seq %d on", *r.QuiescentSeq)
		}
		return out + why
	case r.Application != nil && isFinal(r):
		return fmt.Sprintf("%s %s%s", r.TypeRaw, *r.Application, why)
	}
	return fmt.Sprintf("%s ACCEPTED and durable; the engine has not applied it yet%s", r.TypeRaw, why)
}
