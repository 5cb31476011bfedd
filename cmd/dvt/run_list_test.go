package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/consoletest"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

func TestRunList_FiltersByScopePlanAndTime(t *testing.T) {
	t.Parallel()
	address := serveRuns(t, 3)
	for args, want := range map[string]int{
		"--project shop": 4, "--project other": 0, "--environment sandbox": 4, "--environment prod": 0,
		"--plan plan-3": 4, "--plan plan": 0, "--from 1h": 4, "--to 1h": 0, "--to 2999-01-01T00:00:00Z": 4,
		"--from 2d --to 0s": 4,
	} {
		out, said, status := runSplit(t, address, "dev-viewer", append([]string{"run", "list"}, strings.Fields(args)...)...)
		if n := max(0, strings.Count(out, "\n")-1); n != want || status != 0 {
			t.Errorf("dvt run list %s: %d runs, status %d, want %d and 0\n%s%s", args, n, status, want, out, said)
		}
		if want == 0 && !strings.Contains(said, "No run matches. Use fewer filters") {
			t.Errorf("dvt run list %s says %q, want that the filters match no run", args, said)
		}
	}
	for _, wrong := range []string{"yesterday", "-2h", "3x", "d"} {
		if _, _, status := runSplit(t, address, "dev-viewer", "run", "list", "--from="+wrong); status != 2 {
			t.Errorf("--from=%s: status %d, want 2", wrong, status)
		}
	}
}

func TestRunRow_SkippedStepsAreNotDoneAndARunningRunHasALowerBound(t *testing.T) {
	t.Parallel()
	for want, counts := range map[string]client.RunRowStepCounts{
		"0/2, 2 skipped": {Total: 2, Skipped: 2}, "149/300, 1 failed, 150 skipped": {Total: 300, Success: 149, Failed: 1,
			Skipped: 150}, "3/3": {Total: 3, Success: 3},
		"2/12, 1 cancelled, 2 kept": {Total: 12, Success: 2, Failed: 1, Stopped: 1, Kept: 2},
	} {
		if got := runtext.Steps(client.RunRow{StepCounts: counts}); got != want {
			t.Errorf("the steps are %q, want %q", got, want)
		}
	}
	now := time.Now()
	began, total := now.Add(-15400*time.Millisecond), 15400.
	for want, r := range map[string]client.RunRow{"-": {}, "≥15s": {StartedAt: &began},
		"15.4s": {StartedAt: &began, TotalDurationMs: &total}} {
		if got := runtext.Duration(r, now); got != want {
			t.Errorf("the duration is %q, want %q", got, want)
		}
	}
}

func TestRunShow_PutsFailedStepsFirstAndShowsOnlyThem(t *testing.T) {
	t.Parallel()
	address, s := serveStarted(t)
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.StepCompletedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s2", 1))
	append1(t, s, runtest.Draft(log.StepFailedEvent, "s2", 1))
	out, _, _ := dvt(t, address, "dev-viewer", "run", "show", "r1")
	if failed, done := strings.Index(out, "\ns2 "), strings.Index(out, "\ns1 "); failed < 0 || done < failed {
		t.Errorf("want the failed step s2 before s1\n%s", out)
	}
	only, _, _ := dvt(t, address, "dev-viewer", "run", "show", "r1", "--failed")
	if !strings.Contains(only, "\ns2 ") || strings.Contains(only, "\ns1 ") {
		t.Errorf("with --failed want s2 without s1\n%s", only)
	}
}

func TestRunWatch_TellsTheNextCommands(t *testing.T) {
	address, s := serveWatchedSteps(t, "s1", "s2")
	tty := consoletest.OpenTerminal(t, 100, 30)
	stop := startWatch(t, tty.File, address)
	tty.Await(`● LIVE`)
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.StepFailedEvent, "s1", 1))
	tty.Await(`retry dvt run retry r1 s1\nlog   dvt run logs r1 s1\nopen  ` + address + `/runs/r1\n`)
	append1(t, s, runtest.Draft(log.RunFailed, "", 1))
	tty.Await(`rerun dvt run rerun r1\n`)
	_ = stop() // status 1: the run failed
}

func TestRunWatch_CountsDownTheTimeToRetry(t *testing.T) {
	t.Parallel()
	now := time.Now()
	closes := now.Add(52 * time.Minute)
	v := &watchview.View{}
	v.Frame(watchview.Frame{Sync: client.SyncStateLive, AsOf: now,
		Snapshot: &client.WatchRunRunUpdatesRunUpdateSnapshotRun{
			RunRow: client.RunRow{RunId: "r1", Status: client.RunStatusRunning, RetryDeadline: &closes}}}, now)
	for at, want := range map[time.Time]string{now: "52m00s left to retry",
		now.Add(2 * time.Minute): "50m00s left to retry"} {
		if line := v.Lines(at, 100, 20)[1]; !strings.Contains(fmt.Sprint(line), want) {
			t.Errorf("the line of the status is %v, want %q", line, want)
		}
	}
}

func TestRunListAttention_NamesWhoCanAndTheMissingApprovals(t *testing.T) {
	t.Parallel()
	waits := attentionItem{Next: "dvt run show abc"}
	waits.Kind, waits.Approvals, waits.ApprovalsRequired = client.AttentionKindApproval, new(0), new(2)
	waits.WhoCould = []string{"dev-admin", "dev-planner"}
	if got, want := waits.why(), "waits for approval, 0 of 2 (who can: dev-admin, dev-planner)"; got != want {
		t.Errorf("why of an approval by others: %q, want %q", got, want)
	}
	waits.Next = "dvt run approve abc"
	if got, want := waits.why(), "waits for approval, 0 of 2"; got != want {
		t.Errorf("why of an approval by the viewer: %q, want %q", got, want)
	}
	waits.Stuck, waits.Actions = true, []client.Action{client.ActionApprove}
	want := "waits for approval, 0 of 2; only you can approve, which is not enough: change the policy, or cancel the run"
	if got := waits.why(); got != want {
		t.Errorf("why of an approval that too few people can give: %q, want %q", got, want)
	}
	waits.WhoCould, waits.Actions = nil, nil
	want = "waits for approval, 0 of 2; nobody can approve it: change the policy, or cancel the run"
	if got := waits.why(); got != want {
		t.Errorf("why of an approval that nobody can give: %q, want %q", got, want)
	}
	failed := attentionItem{Next: "dvt run retry abc load"}
	failed.Kind, failed.StepId, failed.Code = client.AttentionKindFailedWaiting, new("load"), new("EXIT_STATUS")
	failed.Message = new("ERROR: relation raw_orders does not exist")
	want = "relation raw_orders does not exist; load failed and waits for a retry (EXIT_STATUS)"
	if got := failed.why(); got != want {
		t.Errorf("why of a failed step: %q, want %q: a terminal cuts the end", got, want)
	}
	manual := attentionItem{Next: "dvt manual complete abc sign --outcome succeeded"}
	manual.Kind, manual.StepId, manual.StepName = client.AttentionKindManualTask, new("sign"), new("Sign the release")
	if got, want := manual.why(), "Sign the release waits for a person to complete it"; got != want {
		t.Errorf("why of a manual step: %q, want %q", got, want)
	}
}
