package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/consoletest"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// What somebody sees at a terminal, from the first frame to the end, and that nothing is left behind.
func TestRunWatch_OnATerminal(t *testing.T) {
	tty := consoletest.OpenTerminal(t, 100, 20)
	address, s := servedSteps(t, "s1", "s2<s1", "s3<s2", "s4")
	began := time.Now()
	stop := watchingOn(t, tty.File, address)
	tty.Await(`▶ RUNNING  [\s\S]*0/4  0 % · 4 pending[\s\S]*● LIVE \(BUS_DEGRADED\)  seq 2, as of \d\d:\d\d:\d\dZ`)
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s4", 1))
	tty.Await(`▶ RUNNING +s1 +\S`)
	append1(t, s, runtest.Draft(log.StepFailedEvent, "s1", 1, runtest.M{"errorMessage": "disk\nfull \x1b[2J now"}))
	seen := tty.Await(`✗ FAILED +s1 .*EXIT_STATUS: disk full \[2J now\n +blocks 2: s2, s3\n▶ RUNNING +s4`)
	if !strings.Contains(seen, "Ctrl-C stops watching") || !tty.Coloured {
		t.Errorf("coloured %t:\n%s", tty.Coloured, seen)
	}
	s.down.Store(true)
	tty.Await(`▲ STALE \S+ \(STORE_DOWN\)  last known: seq 5 at .*the store does not answer`)
	tty.Await(`▶ RUNNING +s4 +≥`)
	s.down.Store(false)
	tty.Await(`● LIVE`)
	tty.Resize(40, 8)
	seen = tty.Await(`(?m)^✗ FAILED +s1 .*\n +EXIT_STATUS: disk .*…$`)
	if n := strings.Count(seen, "\n"); n >= 8 {
		t.Errorf("%d lines of 8:\n%s", n+1, seen)
	}
	append1(t, s, runtest.Draft(log.RunFailed, "", 1))
	tty.Await(`(?s)run FAILED.*0 of 4.*steps.done.*1 fa.*cause s1`)
	if err := stop(); cmdline.ExitStatus(err) != 1 {
		t.Errorf("status %d, %v", cmdline.ExitStatus(err), err)
	}
	tty.Clean()
	tty.Paced(began)
}

func TestRunWatch_CtrlCLeavesTheTerminalAsItWas(t *testing.T) {
	tty := consoletest.OpenTerminal(t, 60, 10)
	address, _ := served(t)
	stop := watchingOn(t, tty.File, address, "--color=never")
	tty.Await(`● LIVE`)
	if err := stop(); cmdline.ExitStatus(err) != cmdline.Interrupted {
		t.Errorf("status %d, %v", cmdline.ExitStatus(err), err)
	}
	tty.Await(`^run r1 was RUNNING at seq 2 and goes on: dvt run watch r1`)
	tty.Clean()
	if tty.Coloured {
		t.Error("it is coloured in spite of --color=never")
	}
}

// A pipe and TERM=dumb get lines, without colours and without anything that moves a cursor.
func TestRunWatch_PipedIsOneLineAChange(t *testing.T) {
	address, s := servedSteps(t, "s1", "s2<s1")
	out := &printout{}
	stop := watchingOn(t, out, address)
	dumb := consoletest.OpenTerminal(t, 80, 24)
	t.Setenv("TERM", "dumb")
	watchingOn(t, dumb.File, address)
	out.await(t, `run +RUNNING`)
	dumb.Await(`run +RUNNING`)
	for _, d := range []log.Draft{
		runtest.Draft(log.StepStartedEvent, "s1", 1), runtest.Draft(log.StepFailedEvent, "s1", 1,
			runtest.M{"errorMessage": "disk\nfull"}),
	} {
		append1(t, s, d)
		out.await(t, `s1 +`+map[log.EventType]string{log.StepStartedEvent: "RUNNING", log.StepFailedEvent: "FAILED"}[d.Type])
	}
	append1(t, s, runtest.Draft(log.RunCancelled, "", 1))
	out.await(t, `end +CANCELLED`)
	if err := stop(); cmdline.ExitStatus(err) != 1 {
		t.Errorf("status %d, %v", cmdline.ExitStatus(err), err)
	}
	got := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3}Z| after \S+`).ReplaceAllString(out.String(), "T")
	want := `T  run                   RUNNING  0 of 2 steps done  seq 2
T  s1                    RUNNING
T  s1                    FAILED  EXIT_STATUS: disk full
T  run                   CANCELLED  0 of 2 steps done  seq 5
`
	got = strings.TrimSuffix(got, got[strings.LastIndex(strings.TrimSuffix(got, "\n"), "\n")+1:])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	dumb.Await(`end +CANCELLED`)
	if len(dumb.Frames) > 0 || dumb.Coloured {
		t.Error("TERM=dumb has a screen")
	}
}

func TestRunWatch_ExitStatusIsTheRuns(t *testing.T) {
	for _, c := range []struct {
		end  log.EventType
		args []string
		want int
	}{
		{log.RunCompleted, nil, 0}, {log.RunFailed, nil, 1}, {log.RunCancelled, nil, 1},
		{log.RunFailed, []string{"--exit-zero"}, 0}, {log.RunFailed, []string{"-o", "json"}, 1},
	} {
		address, s := servedSteps(t, "s1")
		for _, d := range []log.Draft{runtest.Draft(log.StepStartedEvent, "s1", 1), runtest.Draft(log.StepCompletedEvent,
			"s1", 1), runtest.Draft(c.end, "", 1)} {
			append1(t, s, d)
		}
		out, got, err := dvt(t, address, "dev-viewer", append([]string{"run", "watch", "r1"}, c.args...)...)
		if got != c.want {
			t.Errorf("%s %v: status %d, %v\n%s", c.end, c.args, got, err, out)
		}
	}
	address, _ := served(t)
	if _, got, err := dvt(t, address, "dev-viewer", "run", "watch", "r2"); got != 4 {
		t.Errorf("no such run: %d, %v", got, err)
	}
	if _, got, err := dvt(t, "http://127.0.0.1:1", "dev-viewer", "run", "watch", "r1"); got != 1 {
		t.Errorf("no server: %d, %v", got, err)
	}
}

// cutting is a server before another one, whose connections a test can cut.
type cutting struct {
	*httptest.Server
	down   atomic.Bool
	mu     sync.Mutex
	bodies []string
}

func cut(t *testing.T, behind string) *cutting {
	t.Helper()
	to, err := url.Parse(behind)
	if err != nil {
		t.Fatal(err)
	}
	c := &cutting{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	proxy.ErrorLog = nil
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		c.mu.Lock()
		c.bodies = append(c.bodies, string(body))
		c.mu.Unlock()
		if c.down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = recover() }() // the proxy's way to say that a stream was cut
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

// A lost connection is said, and made again from the last position on: nothing is shown twice and nothing is missing.
func TestRunWatch_ReconnectsAndGoesOn(t *testing.T) {
	address, s := servedSteps(t, "s1", "s2")
	front := cut(t, address)
	out := &printout{}
	stop := watchingOn(t, out, front.URL)
	out.await(t, `run +RUNNING`)
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	out.await(t, `s1 +RUNNING`)
	tty := consoletest.OpenTerminal(t, 120, 20)
	watchingOn(t, tty.File, front.URL)
	tty.Await(`● LIVE`)
	front.down.Store(true)
	front.CloseClientConnections()
	out.await(t, `view +OFFLINE \(CONNECTION_LOST\)`)
	tty.Await(`✗ OFFLINE \S+ \(CONNECTION_LOST\)  last known: seq 3 at \S+; (next try in|trying again)`)
	append1(t, s, runtest.Draft(log.StepCompletedEvent, "s1", 1))
	front.down.Store(false)
	out.await(t, `s1 +SUCCESS`)
	out.await(t, `view +LIVE`)
	tty.Await(`● LIVE.*seq 4`)
	for _, d := range []log.Draft{runtest.Draft(log.StepStartedEvent, "s2", 1), runtest.Draft(log.StepCompletedEvent, "s2",
		1), runtest.Draft(log.RunCompleted, "", 1)} {
		append1(t, s, d)
	}
	out.await(t, `end +COMPLETED`)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(out.String(), "s1                    RUNNING"); n != 1 {
		t.Errorf("shown %d times:\n%s", n, out)
	}
	front.mu.Lock()
	defer front.mu.Unlock()
	if last := front.bodies[len(front.bodies)-1]; !strings.Contains(last, `"after":3`) ||
		!strings.Contains(last, `"storeEpoch":"`) {
		t.Errorf("it did not go on from where it was: %s", last)
	}
}

func TestRunWatch_GivesUp(t *testing.T) {
	address, _ := served(t)
	front := cut(t, address)
	out := &printout{}
	ended, _ := watchedOn(t, out, front.URL, "--give-up-after", "500ms")
	out.await(t, `run +RUNNING`)
	front.down.Store(true)
	front.CloseClientConnections()
	out.await(t, `view +OFFLINE`)
	if err := <-ended; cmdline.ExitStatus(err) != 1 || !strings.Contains(err.Error(), "no connection for") {
		t.Errorf("status %d, %v", cmdline.ExitStatus(err), err)
	}
}

// follow ends with what another try would not mend, and begins anew when its position is not known any more.
func TestFollow_WhatIsMended(t *testing.T) {
	t.Parallel()
	for code, mends := range map[string]bool{
		"SERVER_SHUTDOWN": true, "RESYNC_FAILED": true, "STORE_UNAVAILABLE": true, "CURSOR_INVALID": true, "NOT_FOUND": false,
		"FORBIDDEN": false, "TOKEN_EXPIRED": false, "": false,
	} {
		var after []client.Position
		err := watchview.Follow(t.Context(), 0, client.Position{}, func(_ context.Context, at client.Position,
			took func(client.Position)) error {
			after = append(after, at)
			took(client.Position{Seq: int64(10 + len(after)), Epoch: "e"})
			if len(after) == 2 {
				return watchview.Stop{Cause: errOver}
			}
			return &client.Error{Code: code}
		}, func(error, time.Time) {})
		if errors.Is(err, errOver) != mends {
			t.Errorf("%s: %v", code, err)
		}
		want := client.Position{Seq: 11, Epoch: "e"}
		if code == "CURSOR_INVALID" {
			want = client.Position{}
		}
		if mends && (len(after) != 2 || after[1] != want) {
			t.Errorf("%s: asked %v", code, after)
		}
	}
	tries := 0
	err := watchview.Follow(t.Context(), 0, client.Position{}, func(context.Context, client.Position,
		func(client.Position)) error {
		tries++
		return errors.New("refused")
	},
		func(error, time.Time) {})
	if err == nil || tries != 1 {
		t.Errorf("before the first frame: %d tries, %v", tries, err)
	}
}

// 5,000 steps: the screen has what matters, and drawing it takes little.
func TestRunWatch_FiveThousandSteps(t *testing.T) {
	const n = 5000
	steps := make([]string, n)
	for i := range steps {
		steps[i] = fmt.Sprintf("step-%04d", i)
		if i >= n/2 {
			steps[i] += fmt.Sprintf("<step-%04d", i-n/2)
		}
	}
	tty := consoletest.OpenTerminal(t, 100, 30)
	address, s := servedSteps(t, steps...)
	began := time.Now()
	watchingOn(t, tty.File, address)
	tty.Await(`0/5000`)
	batch := make([]log.Draft, 0, n)
	for i := range n / 2 {
		batch = append(batch, runtest.Draft(log.StepStartedEvent, fmt.Sprintf("step-%04d", i), 1))
	}
	batch = append(batch, runtest.Draft(log.StepFailedEvent, "step-0042", 1))
	for len(batch) > 0 {
		some := batch[:min(100, len(batch))]
		if _, err := s.Append(t.Context(), store.Append{RunID: "r1", Events: some}); err != nil {
			t.Fatal(err)
		}
		batch = batch[len(some):]
	}
	seen := tty.Await(`(?s)1 failed · 2499 running · 2500 pending.*✗ FAILED +step-0042.*blocks 1: step-2542\n.*… and \d+ more: 1 failed, 2499 running in all\n`)
	tty.Paced(began)
	if lines := strings.Count(seen, "\n") + 1; lines > 30 {
		t.Errorf("%d lines:\n%s", lines, seen)
	}
	v := &watchview.View{Index: map[string]int{}, Behind: map[string][]string{}, Sync: client.SyncStateLive}
	for _, name := range steps {
		id, on, _ := strings.Cut(name, "<")
		v.Step(client.StepRow{StepId: id, Status: client.StepStatusRunning, DependsOn: strings.Fields(on)})
	}
	if took := testing.AllocsPerRun(10, func() { v.Lines(time.Now(), 100, 30) }); took > 2000 {
		t.Errorf("a frame takes %v allocations", took)
	}
}

var update = flag.Bool("update", false, "write golden files and docs/cli.md anew")

// testdata/watch.txt holds what the screen shows at widths and heights.
func TestView_Golden(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 3, 12, 7, 0, time.UTC)
	began := at.Add(-12*time.Minute - 4*time.Second)
	manual := client.RunSubstatusWaitingManual
	code := func(s string) *string { return &s }
	v := &watchview.View{}
	step := func(id string, is client.StepStatus, after ...string) client.WatchRunRunUpdatesRunUpdateSnapshotRunStepsStep {
		row := client.StepRow{StepId: id, Type: "COMMAND", Status: is, StatusRaw: string(is), DependsOn: after,
			LogicalAttemptId: 1, StartedAt: &began}
		if is == client.StepStatusFailed {
			ms := 123_000.0
			row.Error, row.DurationMs, row.LogicalAttemptId = &client.StepRowErrorStepError{Code: "EXIT_STATUS",
				Message: code(`exit status 2: relation "orders" does not exist`)}, &ms, 2
		}
		return client.WatchRunRunUpdatesRunUpdateSnapshotRunStepsStep{StepRow: row}
	}
	approve := step("approve_prod", client.StepStatusRunning)
	approve.Substatus = &manual
	head := int64(4120)
	run := &client.WatchRunRunUpdatesRunUpdateSnapshotRun{
		RunRow: client.RunRow{
			RunId: "4fec12ab-0000-4000-8000-000000000001", ProjectId: "shop", EnvironmentId: "dev",
			Status: client.RunStatusRunning, StatusRaw: "RUNNING", StartedAt: &began, RunSeq: 812,
			Plan:       client.RunRowPlanPlanRef{PlanId: "nightly", PlanVersion: "1.0"},
			StepCounts: client.RunRowStepCounts{Total: 8, Success: 3, Failed: 1, Running: 2, Pending: 2},
			Message:    code("one step failed"),
		},
		Steps: []client.WatchRunRunUpdatesRunUpdateSnapshotRunStepsStep{
			step("a", client.StepStatusSuccess), step("b", client.StepStatusSuccess), step("c", client.StepStatusSuccess),
			step("orders", client.StepStatusFailed, "a"),
			step("customers_日本", client.StepStatusRunning, "b"), approve, step("publish", client.StepStatusPending, "orders"),
			step("notify", client.StepStatusPending, "publish"),
		},
	}
	why := client.SyncReasonStoreDown
	v.Frame(watchview.Frame{Sync: client.SyncStateLive, RunSeq: 812, AsOf: at, Snapshot: run}, at)
	var got strings.Builder
	draw := func(name string, width, height int) {
		fmt.Fprintf(&got, "== %s, %d by %d\n", name, width, height)
		for _, l := range v.Lines(at.Add(12*time.Second), width, height) {
			if l.Width() >= width {
				t.Errorf("%s: %q is %d wide", name, l.Render(false), l.Width())
			}
			fmt.Fprintln(&got, strings.TrimRight(l.Render(false), " "))
		}
	}
	draw("live", 100, 24)
	draw("narrow", 44, 24)
	draw("low", 100, 9)
	draw("tiny", 12, 3)
	v.Frame(watchview.Frame{Sync: client.SyncStateStale, Reason: &why, RunSeq: 812, AsOf: at}, at)
	draw("stale", 140, 24)
	v.Frame(watchview.Frame{Sync: client.SyncStateResyncing, RunSeq: 812, HeadSeq: &head, AsOf: at}, at)
	draw("resyncing", 100, 6)
	v.Frame(watchview.Frame{Sync: client.SyncStateVerifying, RunSeq: 812, AsOf: at}, at)
	draw("verifying", 100, 6)
	v.GoOffline(errors.New("connection refused"), at.Add(20*time.Second), at)
	draw("offline", 120, 6)
	file := filepath.Join("testdata", "watch.txt")
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Error(diff)
	}
}

// However much changes, a screen is drawn ten times a second at most.
func TestScreen_IsDrawnTenTimesASecondAtMost(t *testing.T) {
	tty := consoletest.OpenTerminal(t, 80, 24)
	began := time.Now()
	s := watchview.OpenScreen(t.Context(), console.NewDisplay(tty.File, console.ColourNever))
	for i := range int64(1000) {
		s.Change(func(v *watchview.View) { v.Frame(watchview.Frame{Sync: client.SyncStateLive, RunSeq: i}, time.Now()) })
		time.Sleep(time.Millisecond)
	}
	tty.Await(`● LIVE`)
	s.Close()
	tty.Paced(began)
}

// An id that is too long for the screen keeps both ends, and the time behind it is seen.
func TestView_LongIDsOnANarrowTerminal(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 3, 12, 7, 0, time.UTC)
	began := at.Add(-time.Minute)
	v := &watchview.View{Index: map[string]int{}, Behind: map[string][]string{}}
	for _, id := range []string{"model.warehouse.finance_" + strings.Repeat("very_", 20) + "long_name",
		strings.Repeat("日本", 40), "short"} {
		v.Step(client.StepRow{StepId: id, Status: client.StepStatusRunning, StatusRaw: "RUNNING", StartedAt: &began})
	}
	v.Frame(watchview.Frame{Sync: client.SyncStateLive, AsOf: at}, at)
	for _, width := range []int{40, 60, 200} {
		text := ""
		for _, l := range v.Lines(at, width, 24) {
			if l.Width() >= width {
				t.Errorf("%d cells: %q", width, l.Render(false))
			}
			text += l.Render(false) + "\n"
		}
		if strings.Count(text, "  1m00s") != 3 || strings.Count(text, "…") != 2 || !strings.Contains(text, "name ") {
			t.Errorf("at %d:\n%s", width, text)
		}
	}
}
