package main

import (
	"bufio"
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

// shortRunID is the length of a short run id, which people see and type.
const shortRunID = 8

func shortID(runID string) string { return runID[:min(len(runID), shortRunID)] }

// confirm shows what a strong signal would do and asks the person to type the run's short id. It returns the seq that
// the preview is based on, so that the server can refuse the signal if the run has moved since. If stops is true and
// the server cannot preview, confirm asks nevertheless and returns 0: a person must be able to stop a run while parts
// of dvt fail.
func (s *session) confirm(c *cobra.Command, in client.SignalRunInput, cancel, stops bool) (seq int64, err error) {
	if !console.CanAnswer(c.InOrStdin()) {
		return 0, cmdline.Usage(
			fmt.Errorf("dvt %s needs --yes without a terminal: see what it would do with --preview first",
				strings.TrimPrefix(c.CommandPath(), "dvt ")))
	}
	action := signalAction(in, cancel)
	p, err := s.previewOf(c.Context(), action)
	switch {
	case err == nil:
		if err := s.showPreview(c.Context(), console.NewDisplay(s.err, s.colour), action, p); err != nil {
			return 0, err
		}
		if err := refusal(action, p); err != nil {
			return 0, err
		}
		seq = p.BasedOnSeq
	case stops && c.Context().Err() == nil && cmdline.ExitStatus(err) == 1:
		fmt.Fprintf(s.err, "No preview is available: %v\n", err)
	default:
		return 0, err
	}
	short := shortID(in.RunId)
	fmt.Fprintf(s.err, "To %s the run, type %s: ", c.Name(), short)
	answer, err := readLine(c)
	if err != nil {
		return 0, err
	}
	if answer != short && answer != in.RunId {
		return 0, cmdline.Usage(errors.New("nothing was sent"))
	}
	return seq, nil
}

// readLine returns the line that a person types, without surrounding spaces. On Ctrl-C it returns the error of the
// context.
func readLine(c *cobra.Command) (string, error) {
	typed := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(c.InOrStdin()).ReadString('\n')
		typed <- strings.TrimSpace(text)
	}()
	select {
	case text := <-typed:
		return text, nil
	case <-c.Context().Done():
		fmt.Fprintln(c.ErrOrStderr(), "\nnothing was sent")
		return "", c.Context().Err()
	}
}

// explainMoved returns err as a failure. To the error RUN_MOVED it adds what changed in the run since the seq that the
// person looked at.
func (s *session) explainMoved(ctx context.Context, runID string, since int64, err error) error {
	var e *client.Error
	if !errors.As(client.AsAPIError(err), &e) || e.Code != "RUN_MOVED" || e.RunSeq <= since {
		return cmdline.Failure(err)
	}
	out, derr := client.DiffRun(ctx, s.client, runID, since, e.RunSeq)
	if derr != nil || out.RunDiff == nil {
		return cmdline.Failure(e)
	}
	d := out.RunDiff
	var b strings.Builder
	fmt.Fprintf(&b, "since seq %d:", since)
	if d.From.StatusRaw != d.To.StatusRaw {
		fmt.Fprintf(&b, "\n  the run: %s -> %s", runtext.Words(d.From.StatusRaw), runtext.Words(d.To.StatusRaw))
	}
	for i, st := range d.Steps {
		if i == maxMoved {
			fmt.Fprintf(&b, "\n  and %d more steps", len(d.Steps)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %s: %s -> %s (attempt %d)", st.StepId, runtext.Words(before(st)),
			runtext.Words(st.To.StatusRaw), st.To.LogicalAttemptId)
	}
	for _, x := range d.Decisions[max(0, len(d.Decisions)-maxMoved):] {
		fmt.Fprintf(&b, "\n  seq %d at %s: %s%s", x.RunSeq, runtext.Moment(&x.PersistedAt), x.EventType,
			decisionText(x.Payload))
	}
	e.More = append(e.More, b.String())
	return cmdline.Failure(e)
}

// maxMoved bounds the steps, and the decisions, in that error.
const maxMoved = 10
