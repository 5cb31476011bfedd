package main

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

func TestRunShow_SaysWhoPausedWhyAndHowToResume(t *testing.T) {
	t.Parallel()
	who, why := "dev-engineer", "wait for data"
	out := &printout{}
	s := &session{out: out, display: console.Display{Out: out}}
	run := &client.ShowRunRun{RunRow: client.RunRow{RunId: "461ea487-4cd3-4f4f-8996-c6157facd90c"},
		Pause: &client.ShowRunRunPausePauseInfo{RequestedBy: &who, Reason: &why, Draining: 3,
			Since: time.Date(2026, 11, 28, 1, 19, 57, 0, time.UTC)}}
	s.showWaiting(t.Context(), run)
	const want = "paused by dev-engineer 2026-11-28 01:19:57Z: wait for data\n3 running steps end first\n" +
		"resume: dvt run resume 461ea487\n"
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}

func TestRunList_CauseIsTheErrorAndNotItsCode(t *testing.T) {
	t.Parallel()
	step, message, empty := "load", "\nERROR: relation raw_orders does not exist\nLINE 1", ""
	for _, c := range []struct {
		message *string
		want    string
	}{
		{&message, "ERROR: relation raw_orders does not exist (load)"}, {&empty, "load: EXIT_STATUS"},
		{nil, "load: EXIT_STATUS"},
	} {
		row := client.RunRow{RootCause: &client.RunRowRootCauseRunError{StepId: &step, Code: "EXIT_STATUS",
			Message: c.message}}
		if got := runtext.ErrorOf(row); got != c.want {
			t.Errorf("the cause is %q, want %q", got, c.want)
		}
	}
	if got := runtext.ErrorOf(client.RunRow{}); got != "" {
		t.Errorf("a run without a failure has the cause %q", got)
	}
}
