package artifact_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
)

// requests are the calls that a server of a bucket got.
type requests struct {
	mu    sync.Mutex
	calls []string
}

func (r *requests) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = nil
}

func (r *requests) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// counting returns the address of a proxy before a server, and its requests.
func counting(t *testing.T, addr string) (string, *requests) {
	t.Helper()
	seen := &requests{}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.mu.Lock()
		seen.calls = append(seen.calls, fmt.Sprint(r.Method, " ", r.URL.Path, " ", r.Header.Get("Range")))
		seen.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), seen
}

// A long log in a bucket opens at the line that names its error by few requests: one list, the table of a segment, and
// the frames of the page. 256 MiB with TEST_LONG, 24 MiB without.
func TestLogs_ALongLogOpensAtItsErrorByFewRequests(t *testing.T) {
	t.Parallel()
	batches := 48
	if os.Getenv("TEST_LONG") != "" {
		batches = 510 // of 512 KiB, just below the limit of an attempt
	}
	server := testserver.S3(t)
	w := open(t, server.URL(server.Addr), artifact.Limits{})
	const perBatch = 1100
	filler := strings.Repeat("the quick brown fox jumps over the lazy dog ", 9)
	var size int
	failing := int64(batches*perBatch/2 + 17)
	for b := range batches {
		lines := make([]artifact.Line, perBatch)
		for i := range lines {
			no := int64(b*perBatch + i + 1)
			lines[i] = artifact.Line{At: time.Unix(no, 0).UTC(), Stream: "stdout", Text: fmt.Sprint(no, " ", filler, no*7919)}
			if no == failing {
				lines[i].Text = "error: this one"
			}
			size += len(lines[i].Text) + 80
		}
		add(t, w, 1, int64(b*perBatch+1), lines)
	}
	proxy, seen := counting(t, server.Addr)
	reader := open(t, server.URL(proxy), artifact.Limits{})
	seen.reset()
	began := time.Now()
	no, err := reader.ErrorLine(t.Context(), attempt, 1, failing)
	if err != nil || no != failing {
		t.Fatalf("ErrorLine: %d, %v; want %d", no, err, failing)
	}
	page, err := reader.Read(t.Context(), attempt, no-100, 500)
	took := time.Since(began)
	if err != nil || len(page.Lines) != 500 || page.Lines[100].Text != "error: this one" {
		t.Fatalf("Read: %d lines, %v; want 500 around the error", len(page.Lines), err)
	}
	calls := seen.all()
	t.Logf("%d MiB open at line %d after %s by %d requests: %s", size>>20, no, took.Round(time.Millisecond), len(calls),
		strings.Join(calls, "; "))
	if len(calls) > 6 || took > testtime.Of(1500*time.Millisecond) {
		t.Errorf("the log opened after %s by %d requests, want at most 1.5 s and 6: %v", took, len(calls), calls)
	}
	seen.reset()
	if _, err := reader.Read(t.Context(), attempt, no-50, 100); err != nil || len(seen.all()) > 1 {
		t.Errorf("the same lines again took the requests %v, %v; want the list alone", seen.all(), err)
	}
}

// A viewer at another server sees a line soon after it is stored.
func TestLogs_ViewersOfABucketSeeNewLinesWithinASecond(t *testing.T) {
	t.Parallel()
	server := testserver.S3(t)
	address := server.URL(server.Addr)
	w, viewer := open(t, address, artifact.Limits{}), open(t, address, artifact.Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wake := viewer.Follow(ctx, attempt)
	const lines = 40
	var mu sync.Mutex
	stored := map[int64]time.Time{}
	go func() {
		for i := 1; i <= lines; i++ {
			if err := w.Append(ctx, attempt, 1, int64(i), text(i, i)); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
				return
			}
			mu.Lock()
			stored[int64(i)] = time.Now()
			mu.Unlock()
			time.Sleep(70 * time.Millisecond)
		}
	}()
	var delays []time.Duration
	deadline := time.After(time.Minute)
	for seen := int64(0); seen < lines; {
		select {
		case <-wake:
		case <-deadline:
			t.Fatalf("the viewer saw %d of %d lines in a minute", seen, lines)
		}
		page, err := viewer.Read(t.Context(), attempt, seen+1, 100)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		mu.Lock()
		for _, l := range page.Lines {
			delays = append(delays, max(0, now.Sub(stored[l.No])))
			if stored[l.No].IsZero() { // the viewer was faster than the writer's note
				delays[len(delays)-1] = 0
			}
			seen = l.No
		}
		mu.Unlock()
	}
	slices.Sort(delays)
	p95 := delays[len(delays)*95/100]
	t.Logf("p50 %s, p95 %s", delays[len(delays)/2].Round(time.Millisecond), p95.Round(time.Millisecond))
	if p95 > testtime.Of(time.Second) {
		t.Errorf("p95 of the delay is %s, want at most 1 s", p95)
	}
}
