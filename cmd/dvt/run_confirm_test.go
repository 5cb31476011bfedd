package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/consoletest"
	"github.com/dvt-engine/dvt/internal/testtime"
	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// serveStarted serves run r1, which has started with the steps s1 and s2.
func serveStarted(t *testing.T) (address string, s store.Store) {
	t.Helper()
	address, r := serve(t)
	s, ok := r.Outbox.(store.Store)
	if !ok {
		t.Fatal("no store")
	}
	append1(t, s, runtest.Start("s1", "s2<s1"))
	return address, s
}

// runTyping runs a command whose input is a terminal. It returns the output, a function that types a line, and one that
// waits for the end.
func runTyping(t *testing.T, ctx context.Context, address string, args ...string) (out *printout, answer func(string),
	end func() error) {
	t.Helper()
	tty := consoletest.OpenTerminal(t, 100, 30)
	out = &printout{}
	c := root()
	c.SetIn(tty.File)
	c.SetOut(out)
	c.SetErr(out)
	c.SetArgs(append(args, "--server", address, "--token", "dev-admin"))
	done := make(chan error, 1)
	go func() { done <- c.ExecuteContext(ctx) }()
	return out, func(text string) { _, _ = tty.Own.WriteString(text + "\n") }, func() error {
		select {
		case err := <-done:
			return err
		case <-time.After(testtime.Of(20 * time.Second)):
			t.Fatalf("the command did not end:\n%s", out)
			return nil
		}
	}
}

// A person at a terminal sees the preview of a strong signal and must type the short id of the run.
func TestStrongSignals_AskForTheRunIDOnATerminal(t *testing.T) {
	address, s := serveStarted(t)
	for _, answer := range []string{"", "y", "r2", "r1x"} {
		out, says, end := runTyping(t, t.Context(), address, "run", "cancel", "r1")
		out.await(t, `The run is cancelled. This cannot be undone\.[\s\S]*To cancel the run, type r1: `)
		says(answer)
		if err := end(); cmdline.ExitStatus(err) != 2 || !strings.Contains(err.Error(), "nothing was sent") {
			t.Errorf("the answer %q: status %d, %v, want 2", answer, cmdline.ExitStatus(err), err)
		}
	}
	ctx, interrupt := context.WithCancel(t.Context())
	out, release, end := runTyping(t, ctx, address, "run", "stop", "r1", "--reason", "r")
	out.await(t, `type r1: `)
	interrupt()
	defer release("") // ends the goroutine that still reads
	if err := end(); cmdline.ExitStatus(err) != cmdline.Interrupted || !strings.Contains(out.String(),
		"nothing was sent") {
		t.Errorf("Ctrl-C: status %d, %v, want %d", cmdline.ExitStatus(err), err, cmdline.Interrupted)
	}
	if rs, err := s.Receipts(t.Context(), "r1", "", 10); err != nil || len(rs) != 0 {
		t.Fatalf("receipts %v, %v, want none", rs, err)
	}
	out, says, end := runTyping(t, t.Context(), address, "run", "cancel", "r1", "--no-wait")
	out.await(t, `type r1: `)
	says("r1")
	if err := end(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if rs, err := s.Receipts(t.Context(), "r1", "", 10); err != nil || len(rs) != 1 {
		t.Errorf("receipts %v, %v, want one", rs, err)
	}
}

// A person decides on the preview. If the run has moved since, the server refuses, and the error tells what changed.
func TestStrongSignals_ReportWhatChangedSinceThePreview(t *testing.T) {
	address, s := serveStarted(t)
	out, says, end := runTyping(t, t.Context(), address, "run", "cancel", "r1")
	out.await(t, `type r1: `)
	append1(t, s, runtest.Draft(log.SignalAccepted, "p1", 1, runtest.M{"signalType": "PAUSE", "actor": "ben",
		"reason": "lunch"}))
	append1(t, s, runtest.Draft(log.RunPaused, "p1", 1, runtest.M{"pauseRequestedBy": "ben"}))
	says("r1")
	err := end()
	if cmdline.ExitStatus(err) != 3 {
		t.Fatalf("status %d, %v, want 3", cmdline.ExitStatus(err), err)
	}
	for _, want := range []string{"RUN_MOVED", "since seq 2:", "the run: running -> paused", "RunPaused by ben"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in\n%v", want, err)
		}
	}
	if _, status, err := dvt(t, address, "dev-admin", "run", "cancel", "r1", "--yes", "--expected-run-seq",
		"2"); status != 3 || !strings.Contains(err.Error(), "since seq 2:") {
		t.Errorf("a script with --expected-run-seq: status %d, %v, want 3", status, err)
	}
}

// appendOutcome appends an event and the outcome of a signal, as an engine does.
func appendOutcome(t *testing.T, s store.Store, signalID string, as log.Application, d log.Draft) {
	t.Helper()
	if _, err := s.Append(t.Context(), store.Append{
		RunID: "r1", Events: []log.Draft{d}, Outcomes: []store.SignalOutcome{{SignalID: signalID, Application: as}},
	}); err != nil {
		t.Fatal(err)
	}
}

// The command waits for the outcome of the signal; each outcome has its exit status.
func TestRunSignal_WaitsForTheOutcome(t *testing.T) {
	address, s := serveStarted(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if console.CanAnswer(null) || console.CanAnswer(strings.NewReader("y\n")) {
		t.Error("CanAnswer is true for input that is not a terminal")
	}
	send := func(ctx context.Context, args ...string) (out *printout, end func() error) {
		out = &printout{}
		c := root()
		c.SetOut(out)
		c.SetErr(out)
		c.SetArgs(append(append([]string{"run"}, args...), "--server", address, "--token", "dev-admin"))
		done := make(chan error, 1)
		go func() { done <- c.ExecuteContext(ctx) }()
		return out, func() error { return <-done }
	}
	out, end := send(t.Context(), "pause", "r1", "--signal-id", "p1")
	out.await(t, `pause: accepted at seq 3\n`)
	appendOutcome(t, s, "p1", log.SignalApplied, runtest.Draft(log.RunPaused, "p1", 1))
	if err := end(); err != nil || !strings.Contains(out.String(), "pause: applied at seq 4") {
		t.Errorf("%v\n%s", err, out)
	}
	out, end = send(t.Context(), "pause", "r1", "--signal-id", "p1")
	if err := end(); err != nil || !strings.Contains(out.String(), "pause: applied at seq 4") {
		t.Errorf("repeating a signal id: %v, want the outcome again\n%s", err, out)
	}
	out, end = send(t.Context(), "resume", "r1", "--timeout", "300ms", "--signal-id", "u1")
	if err := end(); cmdline.ExitStatus(err) != 1 || !strings.Contains(err.Error(), "not applied it yet within 300 ms") {
		t.Errorf("%d, %v\n%s", cmdline.ExitStatus(err), err, out)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	out, end = send(ctx, "resume", "r1", "--signal-id", "u1")
	out.await(t, `resume: accepted`)
	interrupt()
	if err := end(); cmdline.ExitStatus(err) != cmdline.Interrupted || !strings.Contains(out.String(),
		"the signal is durable") {
		t.Errorf("%d, %v\n%s", cmdline.ExitStatus(err), err, out)
	}
	out, end = send(t.Context(), "resume", "r1", "--signal-id", "u1")
	out.await(t, `resume: accepted`)
	appendOutcome(t, s, "u1", log.SignalNotApply, runtest.Draft(log.RunFailed, "", 1))
	if err := end(); cmdline.ExitStatus(err) != 3 || !strings.Contains(err.Error(), "not applied") {
		t.Errorf("%d, %v\n%s", cmdline.ExitStatus(err), err, out)
	}
	out, end = send(t.Context(), "pause", "r1")
	if err := end(); cmdline.ExitStatus(err) != 3 || !strings.Contains(err.Error(), "RUN_TERMINAL") {
		t.Errorf("%d, %v\n%s", cmdline.ExitStatus(err), err, out)
	}
}
