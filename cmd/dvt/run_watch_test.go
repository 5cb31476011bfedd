package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/live"
	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// downBus is a bus that is down, so that the hub polls the heads of runs.
type downBus struct{}

func (downBus) Publish(context.Context, live.Message) error { return errors.New("down") }

func (downBus) WakeLists(context.Context, ...live.List) error { return errors.New("down") }

func (downBus) Subscribe(string) live.Subscription { return downBus{} }

func (downBus) SubscribeList(string, string) live.Subscription { return downBus{} }

func (downBus) Up() bool { return false }

func (downBus) C() <-chan live.Delivery { return nil }

func (downBus) Close() {}

type closableDownBus struct{ downBus }

func (closableDownBus) Close() error { return nil }

// failingStore is a store whose heads cannot be read while down is set.
type failingStore struct {
	store.Store
	down atomic.Bool
}

func (a *failingStore) Heads(ctx context.Context, ids []string) (store.Heads, error) {
	if a.down.Load() {
		return store.Heads{}, store.ErrUnavailable
	}
	return a.Store.Heads(ctx, ids)
}

// serveWatched serves the run r1 with the steps s1 and s2. The store's clock is three hours ahead.
func serveWatched(t *testing.T) (address string, s *failingStore) {
	t.Helper()
	return serveWatchedSteps(t, "s1", "s2")
}

// serveWatchedSteps is serveWatched with these steps, written as for runtest.Start.
func serveWatchedSteps(t *testing.T, steps ...string) (address string, s *failingStore) {
	t.Helper()
	opened, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "dvt.db"), sqlite.Options{
		Now: func() time.Time { return time.Now().Add(3 * time.Hour) },
	})
	if err != nil {
		t.Fatal(err)
	}
	s = &failingStore{Store: opened}
	id := runtest.ID
	id.RunID, id.TenantID, id.ProjectID = "r1", "acme", "shop"
	if _, _, err := s.CreateRun(t.Context(), store.NewRun{Run: store.Run{Identity: id, RequestKey: "k"},
		Events: []log.Draft{
			runtest.Draft(log.RunApproved, "", 1), runtest.Start(steps...),
		}}); err != nil {
		t.Fatal(err)
	}
	directory, rights := devRights(t)
	hub := live.New(s, closableDownBus{}, live.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = hub.Run(ctx) })
	h := graph.NewHandler(
		usecases.New(usecases.Config{Store: s, Authz: rights, Hub: hub, Bus: closableDownBus{}}),
		graph.Config{Authenticate: directory.Authenticate})
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), testtime.Of(10*time.Second))
		defer stop()
		if err := h.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		server.Close()
		cancel()
		running.Wait()
		_ = opened.Close()
	})
	return server.URL, s
}

// printout collects the output of a command. It is safe for concurrent use.
type printout struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *printout) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *printout) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *printout) await(t *testing.T, pattern string) {
	t.Helper()
	for began := time.Now(); !regexp.MustCompile(pattern).MatchString(s.String()); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("the output does not match %s after a minute:\n%s", pattern, s.String())
		}
	}
}

// startLatencyWatch starts dvt run watch --latency. stop ends it and returns its error.
func startLatencyWatch(t *testing.T, address string, args ...string) (out *printout, stop func() error) {
	t.Helper()
	out = &printout{}
	return out, startWatch(t, out, address, append(args, "--latency")...)
}

// startWatch starts dvt run watch with the output out. stop ends it and returns its error.
func startWatch(t *testing.T, out io.Writer, address string, args ...string) (stop func() error) {
	t.Helper()
	ended, cancel := watchUntilEnd(t, out, address, args...)
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = stop() })
	return stop
}

// watchUntilEnd is startWatch for a command that ends by itself.
func watchUntilEnd(t *testing.T, out io.Writer, address string, args ...string) (ended <-chan error, cancel func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := root()
	c.SetOut(out)
	c.SetErr(out)
	c.SetArgs(append([]string{"run", "watch", "r1", "--server", address, "--token", "dev-viewer"}, args...))
	done := make(chan error, 1)
	go func() { done <- c.ExecuteContext(ctx) }()
	return done, cancel
}

func append1(t *testing.T, s store.Store, d log.Draft) {
	t.Helper()
	if _, err := s.Append(t.Context(), store.Append{RunID: "r1", Events: []log.Draft{d}}); err != nil {
		t.Fatal(err)
	}
}

// The clocks are three hours apart. The latencies must not contain that difference, but must contain a delay of the
// server.
// contract: T34
func TestRunWatchLatency_IsMeasuredByTheStoresClock(t *testing.T) {
	address, s := serveWatched(t)
	out, stop := startLatencyWatch(t, address)
	out.await(t, `run +RUNNING`)
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	out.await(t, `latency +\d+\.\d ms  seq 3`)
	s.down.Store(true)
	out.await(t, `view +STALE \(STORE_DOWN\)`)
	append1(t, s, runtest.Draft(log.StepCompletedEvent, "s1", 1))
	time.Sleep(time.Second)
	s.down.Store(false)
	out.await(t, `latency +([3-9]|\d+\d)\d\d\.\d ms  seq 4`)
	out.await(t, `view +LIVE`)
	if err := stop(); err != nil {
		t.Errorf("Ctrl-C is no failure: %v", err)
	}
	for _, pattern := range []string{
		`frames   \d+ LIVE, .*[1-9] STALE.*, 0 resets\n`,
		`latency  p50 \d+\.\d ms, p95 .* ms, p99 .* ms, max ([3-9]|\d+\d)\d\d\.\d ms of 2 frames with changes, from commit to here; each ±\d+\.\d ms\n`,
		`stale    1 times\n +STORE_DOWN, LIVE again after ([3-9]|\d+\d)\d\d ms\n`,
	} {
		out.await(t, pattern)
	}
	if regexp.MustCompile(`\d{6,}\.\d ms`).MatchString(out.String()) {
		t.Errorf("a latency contains the difference of the clocks:\n%s", out)
	}
}

func TestRunWatchLatency_JSONEndsWithTheSummary(t *testing.T) {
	address, s := serveWatched(t)
	out, stop := startLatencyWatch(t, address, "-o", "json")
	out.await(t, `"runSeq": 2`)
	for _, d := range []log.Draft{
		runtest.Draft(log.StepStartedEvent, "s1", 1), runtest.Draft(log.StepFailedEvent, "s1", 1),
		runtest.Draft(log.RunFailed, "", 1),
	} {
		append1(t, s, d)
	}
	out.await(t, `"episodes"`)
	err := stop()
	var e *cmdline.Error
	if !errors.As(err, &e) || e.Status != 1 || !strings.Contains(e.Error(), "the run failed") {
		t.Errorf("the command returned %v, want status 1 and FAILED", err)
	}
	objects := json.NewDecoder(strings.NewReader(out.String()[:strings.LastIndex(out.String(), "}")+1]))
	var last json.RawMessage
	for objects.More() {
		if err := objects.Decode(&last); err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}
	}
	var sum watchview.Summary
	if err := json.Unmarshal(last, &sum); err != nil || sum.Latency.Count == 0 || sum.Frames[client.SyncStateLive] < 2 ||
		sum.Stale != 0 {
		t.Errorf("the summary is %+v, %v, want latencies, two LIVE frames and no STALE one:\n%s", sum, err, last)
	}
}

func TestRunWatchLatency_IsRefusedLikeWatch(t *testing.T) {
	address, _ := serveWatched(t)
	if out, status, err := dvt(t, address, "dev-mallory", "run", "watch", "r1", "--latency"); status != 4 ||
		!strings.Contains(fmt.Sprint(err), "NOT_FOUND") {
		t.Errorf("status %d, %v: %s", status, err, out)
	}
}

// The memory of a long watch is bounded, and the quantiles are those of the remembered ages.
func TestLatencies_KeepTheNewestOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &watchview.Latencies{}
		ahead := 90 * time.Minute
		if err := l.Clock.Set(t.Context(), func(context.Context) (time.Time, error) {
			time.Sleep(30 * time.Millisecond)
			at := time.Now().Add(ahead)
			time.Sleep(10 * time.Millisecond)
			return at, nil
		}); err != nil {
			t.Fatal(err)
		}
		if off := l.Clock.Now().Sub(time.Now().Add(ahead)); off.Abs() > 20*time.Millisecond ||
			l.Summary().Latency.Within != 20 {
			t.Errorf("the clock is off by %v and reports %v ms, want at most 20 ms", off, l.Summary().Latency.Within)
		}
		l.Clock.Best.Store(&watchview.Tick{At: time.Now(), Says: time.Now().Add(ahead)})
		frame := func(sync client.SyncState, reason client.SyncReason, seq int64, age time.Duration, reset bool) (float64,
			bool) {
			committed := time.Now().Add(ahead - age)
			f := client.WatchRunRunUpdatesRunUpdate{Sync: sync, RunSeq: seq, CommittedAt: &committed, Reset: reset}
			if reason != "" {
				f.Reason = &reason
			}
			return l.Frame(f)
		}
		for i, c := range []struct {
			seq   int64
			reset bool
			newer bool
		}{{5, false, false}, {6, false, true}, {6, false, false}, {9, false, true}, {4, true, false}, {5, false, true}} {
			if ms, newer := frame(client.SyncStateLive, "", c.seq, 40*time.Millisecond, c.reset); newer != c.newer || newer &&
				ms != 40 {
				t.Errorf("frame %d: %v ms and newer %t, want 40 ms if newer is %t", i, ms, newer, c.newer)
			}
		}
		for i := range 2 * watchview.MaxLatencies {
			frame(client.SyncStateLive, "", int64(6+i), time.Duration(1+i%100)*time.Millisecond, false)
		}
		frame(client.SyncStateLive, "", 1<<40, -time.Hour, false) // a wrong clock must not make the age negative
		sum := l.Summary()
		if q := sum.Latency; q.Count != 3+2*watchview.MaxLatencies+1 || len(l.Ages) != watchview.MaxLatencies ||
			q.P50 != 50 || q.P95 != 95 ||
			q.P99 != 99 || q.Max != 100 {
			t.Errorf("the quantiles are %+v of %d ages, want 50, 95, 99 and 100 of %d", q, len(l.Ages),
				watchview.MaxLatencies)
		}
		for range watchview.MaxEpisodes + 5 {
			frame(client.SyncStateStale, client.SyncReasonGap, 1<<40, 0, false)
			time.Sleep(70 * time.Millisecond)
			frame(client.SyncStateResyncing, client.SyncReasonGap, 1<<40, 0, false)
			frame(client.SyncStateLive, "", 1<<40, 0, false)
		}
		frame(client.SyncStateStale, client.SyncReasonStoreDown, 1<<40, 0, false)
		sum = l.Summary()
		last := sum.Episodes[len(sum.Episodes)-1]
		if sum.Stale != watchview.MaxEpisodes+6 || len(sum.Episodes) != watchview.MaxEpisodes || last.MS != nil ||
			last.Cause != "STORE_DOWN" ||
			*sum.Episodes[0].MS != 70 || sum.Resets != 1 || sum.Frames[client.SyncStateStale] != watchview.MaxEpisodes+6 {
			t.Errorf("%d episodes, %d of them kept, the last one %+v, want %d kept and an open last one",
				sum.Stale, len(sum.Episodes), last, watchview.MaxEpisodes)
		}
		var b bytes.Buffer
		sum.Render(console.Display{Out: &b})
		if !strings.HasSuffix(b.String(), "STORE_DOWN, not LIVE again\n") {
			t.Errorf("the summary must end with the open episode:\n%s", b.String())
		}
	})
}
