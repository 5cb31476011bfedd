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
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// The test follows the screen from the first frame to the end and checks that the terminal is restored.
func TestRunWatch_DrawsAScreenOnATerminal(t *testing.T) {
	tty := consoletest.OpenTerminal(t, 100, 20)
	address, s := serveWatchedSteps(t, "s1", "s2<s1", "s3<s2", "s4")
	began := time.Now()
	stop := startWatch(t, tty.File, address)
	tty.Await(`▶ RUNNING  [\s\S]*0/4  0 % · 4 pending[\s\S]*● LIVE \(BUS_DEGRADED\)  seq 2, as of \d\d:\d\d:\d\dZ`)
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s4", 1))
	tty.Await(`▶ RUNNING +s1 +\S`)
	append1(t, s, runtest.Draft(log.StepFailedEvent, "s1", 1, runtest.M{"errorMessage": "disk\nfull \x1b[2J now"}))
	seen := tty.Await(`✗ FAILED +s1 .*EXIT_STATUS: disk full \[2J now\n +Nothing new starts: 2 steps wait, all of them need s1: s2, s3\n▶ RUNNING +s4`)
	if !strings.Contains(seen, "Ctrl-C stops watching") || !tty.Coloured {
		t.Errorf("coloured %t, want true, and the hint for Ctrl-C:\n%s", tty.Coloured, seen)
	}
	s.down.Store(true)
	tty.Await(`▲ STALE \S+ \(STORE_DOWN\)  last known: seq 5 at .*the store does not answer`)
	tty.Await(`▶ RUNNING +s4 +≥`)
	s.down.Store(false)
	tty.Await(`● LIVE`)
	tty.Resize(40, 8)
	seen = tty.Await(`(?m)^✗ FAILED +s1 .*\n +EXIT_STATUS: disk .*…$`)
	if n := strings.Count(seen, "\n"); n >= 8 {
		t.Errorf("%d lines on a screen of 8:\n%s", n+1, seen)
	}
	append1(t, s, runtest.Draft(log.RunFailed, "", 1))
	tty.Await(`(?s)run FAILED.*steps 0/4, 1 failed.*cause s1`)
	if err := stop(); cmdline.ExitStatus(err) != 1 {
		t.Errorf("status %d, %v", cmdline.ExitStatus(err), err)
	}
	tty.Clean()
	tty.Paced(began)
}

func TestRunWatch_CtrlCRestoresTheTerminal(t *testing.T) {
	tty := consoletest.OpenTerminal(t, 60, 10)
	address, _ := serveWatched(t)
	stop := startWatch(t, tty.File, address, "--color=never")
	tty.Await(`● LIVE`)
	if err := stop(); cmdline.ExitStatus(err) != cmdline.Interrupted {
		t.Errorf("status %d, %v", cmdline.ExitStatus(err), err)
	}
	tty.Await(`^run r1 was running at seq 2 and continues: dvt run watch r1`)
	tty.Clean()
	if tty.Coloured {
		t.Error("the output has colours in spite of --color=never")
	}
}

// A run that waits for approval says how many approvals it has and how many it needs.
func TestRunWatch_PipeShowsTheMissingApprovals(t *testing.T) {
	out := &printout{}
	w := &changeLines{s: &session{out: out, display: console.Display{Out: out}}, steps: map[string]string{}}
	var asked []string
	w.showNeeds = func(id string) { asked = append(asked, id) }
	row := client.RunRow{RunId: "r1", Status: client.RunStatusPending, StatusRaw: "PENDING",
		WaitsForApprovals: &client.RunRowWaitsForApprovalsApprovalCount{Required: 2}}
	w.run(time.Now(), row)
	w.run(time.Now(), row)
	if got := strings.Count(out.String(), "waits for approval: 0 of 2"); got != 1 || len(asked) != 1 {
		t.Errorf("%d lines, the approval was shown for %q; want 1 line and r1 once:\n%s", got, asked, out.String())
	}
}

// A run that stands still says at once what it waits for, so that nobody has to ask again.
func TestRunWatch_PipeShowsWhatARunNeeds(t *testing.T) {
	manual, awaiting := client.RunSubstatusWaitingManual, client.RunSubstatusAwaitingOperator
	for _, c := range []struct {
		row   client.RunRow
		needs bool
	}{
		{client.RunRow{Status: client.RunStatusApproved, StatusRaw: "APPROVED"}, true},
		{client.RunRow{Status: client.RunStatusPaused, StatusRaw: "PAUSED"}, true},
		{client.RunRow{Status: client.RunStatusRunning, StatusRaw: "RUNNING", Substatus: &manual}, true},
		{client.RunRow{Status: client.RunStatusRunning, StatusRaw: "RUNNING", Substatus: &awaiting}, true},
		{client.RunRow{Status: client.RunStatusRunning, StatusRaw: "RUNNING"}, false},
		{client.RunRow{Status: client.RunStatusCompleted, StatusRaw: "COMPLETED"}, false},
	} {
		out, asked := &printout{}, 0
		w := &changeLines{s: &session{out: out, display: console.Display{Out: out}}, steps: map[string]string{},
			showNeeds: func(string) { asked++ }}
		w.run(time.Now(), c.row)
		w.run(time.Now(), c.row)
		if want := map[bool]int{true: 1}[c.needs]; asked != want {
			t.Errorf("%s: its needs were shown %d times, want %d", runtext.Status(c.row), asked, want)
		}
	}
}

// A pipe and TERM=dumb get plain lines, without escape sequences.
func TestRunWatch_PipeGetsOneLinePerChange(t *testing.T) {
	address, s := serveWatchedSteps(t, "s1", "s2<s1")
	out := &printout{}
	stop := startWatch(t, out, address)
	dumb := consoletest.OpenTerminal(t, 80, 24)
	t.Setenv("TERM", "dumb")
	startWatch(t, dumb.File, address)
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
	want := `T  run                   RUNNING  steps 0/2  seq 2
T  s1                    RUNNING
T  s1                    FAILED  EXIT_STATUS: disk full
T  run                   Nothing new starts: 1 step waits for s1
T  run                   CANCELLED  steps 0/2, 1 failed  seq 5
`
	got = strings.TrimSuffix(got, got[strings.LastIndex(strings.TrimSuffix(got, "\n"), "\n")+1:])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	dumb.Await(`end +CANCELLED`)
	if len(dumb.Frames) > 0 || dumb.Coloured {
		t.Error("TERM=dumb got a screen or colours, want plain lines")
	}
}

func TestRunWatch_ExitStatusFollowsTheRun(t *testing.T) {
	for _, c := range []struct {
		end  log.EventType
		args []string
		want int
	}{
		{log.RunCompleted, nil, 0}, {log.RunFailed, nil, 1}, {log.RunCancelled, nil, 1},
		{log.RunFailed, []string{"--exit-zero"}, 0}, {log.RunFailed, []string{"-o", "json"}, 1},
	} {
		address, s := serveWatchedSteps(t, "s1")
		for _, d := range []log.Draft{runtest.Draft(log.StepStartedEvent, "s1", 1), runtest.Draft(log.StepCompletedEvent,
			"s1", 1), runtest.Draft(c.end, "", 1)} {
			append1(t, s, d)
		}
		out, got, err := dvt(t, address, "dev-viewer", append([]string{"run", "watch", "r1"}, c.args...)...)
		if got != c.want {
			t.Errorf("%s %v: status %d, %v, want %d\n%s", c.end, c.args, got, err, c.want, out)
		}
	}
	address, _ := serveWatched(t)
	if _, got, err := dvt(t, address, "dev-viewer", "run", "watch", "r2"); got != 4 {
		t.Errorf("an unknown run: status %d, %v, want 4", got, err)
	}
	if _, got, err := dvt(t, "http://127.0.0.1:1", "dev-viewer", "run", "watch", "r1"); got != 1 {
		t.Errorf("no server: status %d, %v, want 1", got, err)
	}
}

// cuttableProxy is a proxy whose connections a test can cut. It records the bodies of the requests.
type cuttableProxy struct {
	*httptest.Server
	down   atomic.Bool
	mu     sync.Mutex
	bodies []string
}

func newCuttableProxy(t *testing.T, behind string) *cuttableProxy {
	t.Helper()
	to, err := url.Parse(behind)
	if err != nil {
		t.Fatal(err)
	}
	c := &cuttableProxy{}
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
		defer func() { _ = recover() }() // the proxy panics when a stream is cut
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

// After a lost connection the watch continues from the last position: it shows nothing twice and misses nothing.
func TestRunWatch_ReconnectsFromTheLastPosition(t *testing.T) {
	address, s := serveWatchedSteps(t, "s1", "s2")
	front := newCuttableProxy(t, address)
	out := &printout{}
	stop := startWatch(t, out, front.URL)
	out.await(t, `run +RUNNING`)
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	out.await(t, `s1 +RUNNING`)
	tty := consoletest.OpenTerminal(t, 120, 20)
	startWatch(t, tty.File, front.URL)
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
		t.Errorf("s1 RUNNING was shown %d times, want once:\n%s", n, out)
	}
	front.mu.Lock()
	defer front.mu.Unlock()
	if last := front.bodies[len(front.bodies)-1]; !strings.Contains(last, `"after":3`) ||
		!strings.Contains(last, `"storeEpoch":"`) {
		t.Errorf("the last request does not continue from seq 3: %s", last)
	}
}

func TestRunWatch_GivesUpAfterTheGivenTime(t *testing.T) {
	address, _ := serveWatched(t)
	front := newCuttableProxy(t, address)
	out := &printout{}
	ended, _ := watchUntilEnd(t, out, front.URL, "--give-up-after", "500ms")
	out.await(t, `run +RUNNING`)
	front.down.Store(true)
	front.CloseClientConnections()
	out.await(t, `view +OFFLINE`)
	if err := <-ended; cmdline.ExitStatus(err) != 1 || !strings.Contains(err.Error(), "no connection for") {
		t.Errorf("status %d, %v", cmdline.ExitStatus(err), err)
	}
}

// Follow ends with an error that another attempt cannot repair, and starts over when the server does not know its
// position any more.
func TestFollow_RetriesOnlyRepairableErrors(t *testing.T) {
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
			t.Errorf("%s: Follow returned %v, want a retry: %t", code, err, mends)
		}
		want := client.Position{Seq: 11, Epoch: "e"}
		if code == "CURSOR_INVALID" {
			want = client.Position{}
		}
		if mends && (len(after) != 2 || after[1] != want) {
			t.Errorf("%s: the positions were %v, want the second to be %v", code, after, want)
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
		t.Errorf("before the first frame: %d attempts, %v, want one attempt and its error", tries, err)
	}
}

// With 5,000 steps the screen still shows the failed step and the counts, and drawing it is cheap.
func TestRunWatch_FiveThousandStepsFitTheScreen(t *testing.T) {
	const n = 5000
	steps := make([]string, n)
	for i := range steps {
		steps[i] = fmt.Sprintf("step-%04d", i)
		if i >= n/2 {
			steps[i] += fmt.Sprintf("<step-%04d", i-n/2)
		}
	}
	tty := consoletest.OpenTerminal(t, 100, 30)
	address, s := serveWatchedSteps(t, steps...)
	began := time.Now()
	startWatch(t, tty.File, address)
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
	seen := tty.Await(`(?s)1 failed · 2499 running · 2500 pending.*✗ FAILED +step-0042.*Nothing new starts: 2500 steps wait, 1 of them needs step-0042: step-2542\n.*… and \d+ more: 1 failed, 2499 running in all\n`)
	tty.Paced(began)
	if lines := strings.Count(seen, "\n") + 1; lines > 30 {
		t.Errorf("%d lines on a screen of 30:\n%s", lines, seen)
	}
	v := &watchview.View{Index: map[string]int{}, Behind: map[string][]string{}, Sync: client.SyncStateLive}
	for _, name := range steps {
		id, on, _ := strings.Cut(name, "<")
		v.Step(client.StepRow{StepId: id, Status: client.StepStatusRunning, DependsOn: strings.Fields(on)})
	}
	if took := testing.AllocsPerRun(10, func() { v.Lines(time.Now(), 100, 30) }); took > 2000 {
		t.Errorf("a frame takes %v allocations, want at most 2000", took)
	}
}

var update = flag.Bool("update", false, "rewrite the golden files and docs/cli.md")

// testdata/watch.txt holds the screen at several sizes and states.
func TestView_MatchesTheGoldenFile(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 3, 12, 7, 0, time.UTC)
	began := at.Add(-12*time.Minute - 4*time.Second)
	manual := client.RunSubstatusWaitingManual
	code := func(s string) *string { return &s }
	v := &watchview.View{}
	step := func(id string, is client.StepStatus, after ...string) client.StepRow {
		row := client.StepRow{StepId: id, Type: "COMMAND", Status: is, StatusRaw: string(is), DependsOn: after,
			LogicalAttemptId: 1, StartedAt: &began}
		if is == client.StepStatusFailed {
			ms := 123_000.0
			row.Error, row.DurationMs, row.LogicalAttemptId = &client.StepRowErrorStepError{Code: "EXIT_STATUS",
				Message: code(`exit status 2: relation "orders" does not exist`)}, &ms, 2
		}
		return row
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
		Steps: []client.StepRow{
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
				t.Errorf("%s: %q has %d cells, want less than %d", name, l.Render(false), l.Width(), width)
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

func TestScreen_IsDrawnAtMostTenTimesASecond(t *testing.T) {
	tty := consoletest.OpenTerminal(t, 80, 24)
	began := time.Now()
	s := watchview.OpenScreen(t.Context(), console.NewDisplay(tty.File, console.ColourNever), "")
	for i := range int64(1000) {
		s.Change(func(v *watchview.View) { v.Frame(watchview.Frame{Sync: client.SyncStateLive, RunSeq: i}, time.Now()) })
		time.Sleep(time.Millisecond)
	}
	tty.Await(`● LIVE`)
	s.Close()
	tty.Paced(began)
}

// A long id keeps its beginning and end, and the time behind it stays visible.
func TestView_CutsLongIDsInTheMiddle(t *testing.T) {
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
				t.Errorf("the line is wider than %d cells: %q", width, l.Render(false))
			}
			text += l.Render(false) + "\n"
		}
		if strings.Count(text, "  1m00s") != 3 || strings.Count(text, "…") != 2 || !strings.Contains(text, "name ") {
			t.Errorf("at %d cells want three times, two cuts and the end of the id:\n%s", width, text)
		}
	}
}
