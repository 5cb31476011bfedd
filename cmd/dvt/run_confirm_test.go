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

// started is a server whose run r1 has the steps s1 and s2, and its store.
func started(t *testing.T) (address string, s store.Store) {
	t.Helper()
	address, r := serve(t)
	s, ok := r.Outbox.(store.Store)
	if !ok {
		t.Fatal("no store")
	}
	append1(t, s, runtest.Start("s1", "s2<s1"))
	return address, s
}

// typing runs a command whose input is a terminal, and gives what it printed and a way to type.
func typing(t *testing.T, ctx context.Context, address string, args ...string) (out *printout, answer func(string),
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
			t.Fatalf("it does not end:\n%s", out)
			return nil
		}
	}
}

// Somebody at a terminal sees what a strong signal would do, and types which run is meant.
func TestRunStrongSignals_AskForTheRunOnATerminal(t *testing.T) {
	address, s := started(t)
	for _, answer := range []string{"", "y", "r2", "r1x"} {
		out, says, end := typing(t, t.Context(), address, "run", "cancel", "r1")
		out.await(t, `The run is CANCELLED then[\s\S]*To cancel the run, type r1: `)
		says(answer)
		if err := end(); cmdline.ExitStatus(err) != 2 || !strings.Contains(err.Error(), "nothing was sent") {
			t.Errorf("%q: %d, %v", answer, cmdline.ExitStatus(err), err)
		}
	}
	ctx, interrupt := context.WithCancel(t.Context())
	out, release, end := typing(t, ctx, address, "run", "stop", "r1", "--reason", "r")
	out.await(t, `type r1: `)
	interrupt()
	defer release("") // what still reads
	if err := end(); cmdline.ExitStatus(err) != cmdline.Interrupted || !strings.Contains(out.String(),
		"nothing was sent") {
		t.Errorf("Ctrl-C: %d, %v", cmdline.ExitStatus(err), err)
	}
	if rs, err := s.Receipts(t.Context(), "r1", "", 10); err != nil || len(rs) != 0 {
		t.Fatalf("%v, %v", rs, err)
	}
	out, says, end := typing(t, t.Context(), address, "run", "cancel", "r1", "--no-wait")
	out.await(t, `type r1: `)
	says("r1")
	if err := end(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if rs, err := s.Receipts(t.Context(), "r1", "", 10); err != nil || len(rs) != 1 {
		t.Errorf("%v, %v", rs, err)
	}
}

// What was looked at is what is decided on: when it has changed since, nothing is done, and what changed is said.
func TestRunStrongSignals_SayWhatMoved(t *testing.T) {
	address, s := started(t)
	out, says, end := typing(t, t.Context(), address, "run", "cancel", "r1")
	out.await(t, `type r1: `)
	append1(t, s, runtest.Draft(log.SignalAccepted, "p1", 1, runtest.M{"signalType": "PAUSE", "actor": "ben",
		"reason": "lunch"}))
	append1(t, s, runtest.Draft(log.RunPaused, "p1", 1, runtest.M{"pauseRequestedBy": "ben"}))
	says("r1")
	err := end()
	if cmdline.ExitStatus(err) != 3 {
		t.Fatalf("%d, %v", cmdline.ExitStatus(err), err)
	}
	for _, want := range []string{"RUN_MOVED", "since seq 2:", "the run: RUNNING -> PAUSED", "RunPaused by ben"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	if _, status, err := dvt(t, address, "dev-admin", "run", "cancel", "r1", "--yes", "--expected-run-seq",
		"2"); status != 3 || !strings.Contains(err.Error(), "since seq 2:") {
		t.Errorf("a script that says what it looked at: %d, %v", status, err)
	}
}

// settle appends what became of a signal, as an engine does.
func settle(t *testing.T, s store.Store, signalID string, as log.Application, d log.Draft) {
	t.Helper()
	if _, err := s.Append(t.Context(), store.Append{
		RunID: "r1", Events: []log.Draft{d}, Outcomes: []store.SignalOutcome{{SignalID: signalID, Application: as}},
	}); err != nil {
		t.Fatal(err)
	}
}

// A receipt is followed to its end; each end has its status.
func TestRunSignal_WaitsForTheReceipt(t *testing.T) {
	address, s := started(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if console.CanAnswer(null) || console.CanAnswer(strings.NewReader("y\n")) {
		t.Error("a script is asked")
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
	out.await(t, `signal id p1\nPAUSE ACCEPTED at seq 3\n`)
	settle(t, s, "p1", log.SignalApplied, runtest.Draft(log.RunPaused, "p1", 1))
	if err := end(); err != nil || !strings.Contains(out.String(), "PAUSE APPLIED at seq 4") {
		t.Errorf("%v\n%s", err, out)
	}
	out, end = send(t.Context(), "pause", "r1", "--signal-id", "p1")
	if err := end(); err != nil || !strings.Contains(out.String(), "PAUSE APPLIED at seq 4") {
		t.Errorf("a repeat is safe: %v\n%s", err, out)
	}
	out, end = send(t.Context(), "resume", "r1", "--timeout", "300ms", "--signal-id", "u1")
	if err := end(); cmdline.ExitStatus(err) != 1 || !strings.Contains(err.Error(), "not applied it yet within 300ms") {
		t.Errorf("%d, %v\n%s", cmdline.ExitStatus(err), err, out)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	out, end = send(ctx, "resume", "r1", "--signal-id", "u1")
	out.await(t, `RESUME ACCEPTED`)
	interrupt()
	if err := end(); cmdline.ExitStatus(err) != cmdline.Interrupted || !strings.Contains(out.String(),
		"the signal is durable") {
		t.Errorf("%d, %v\n%s", cmdline.ExitStatus(err), err, out)
	}
	out, end = send(t.Context(), "resume", "r1", "--signal-id", "u1")
	out.await(t, `RESUME ACCEPTED`)
	settle(t, s, "u1", log.SignalNotApply, runtest.Draft(log.RunFailed, "", 1))
	if err := end(); cmdline.ExitStatus(err) != 3 || !strings.Contains(err.Error(), "NOT_APPLIED") {
		t.Errorf("%d, %v\n%s", cmdline.ExitStatus(err), err, out)
	}
	out, end = send(t.Context(), "pause", "r1")
	if err := end(); cmdline.ExitStatus(err) != 3 || !strings.Contains(err.Error(), "RUN_TERMINAL") {
		t.Errorf("%d, %v\n%s", cmdline.ExitStatus(err), err, out)
	}
}
