package ws_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/graph/ws"
)

// follower reads the events of a stream.
type follower struct {
	t     *testing.T
	lines *bufio.Scanner
	at    continuity
}

func follow(t *testing.T, r io.Reader) *follower {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	return &follower{t: t, lines: lines}
}

// next is the data of the next event.
func (f *follower) next() string {
	f.t.Helper()
	for f.lines.Scan() {
		if data, ok := strings.CutPrefix(f.lines.Text(), "data: "); ok {
			return data
		}
	}
	f.t.Fatalf("the stream has ended: %v", f.lines.Err())
	return ""
}

// payload judges the next event and gives its kind.
func (f *follower) payload() string {
	f.t.Helper()
	var m shown
	if err := json.Unmarshal([]byte(f.next()), &m.Payload); err != nil {
		f.t.Fatal(err)
	}
	if err := f.at.accept(m); err != nil {
		f.t.Fatal(err)
	}
	return m.Payload.Data.Kind
}

func TestEvents_ShareAGroupWithSockets(t *testing.T) {
	t.Parallel()
	source := newCounter(0)
	s := start(t, ws.Config{Share: sharing(source.open)}, nobody)
	c := s.open(t)
	c.subscribe("1", subscription)
	c.next()
	ctx, cancel := context.WithCancel(t.Context())
	f := follow(t, s.events(ctx, t, subscription).Body)
	if kind := f.payload(); kind != "first" {
		t.Errorf("begins with %s", kind)
	}
	for range 3 {
		source.advance(1, nil)
		if m, ok := c.next(); !ok || m.Payload.Data.To != source.current() {
			t.Fatalf("a socket got %+v", m)
		}
		if kind := f.payload(); kind != "next" {
			t.Errorf("goes on with %s", kind)
		}
	}
	if n := source.opened.Load(); n != 1 {
		t.Errorf("opened %d times", n)
	}
	c.Close()
	cancel()
	eventually(t, 5*time.Second, "the group has ended", func() bool { return source.closed.Load() == 1 })
}

func TestEvents_GroupEndsWithItsError(t *testing.T) {
	t.Parallel()
	source := newCounter(0)
	s := start(t, ws.Config{Share: sharing(source.open)}, nobody)
	f := follow(t, s.events(t.Context(), t, subscription).Body)
	f.payload()
	source.advance(0, errors.New("RESYNC_FAILED"))
	if got := f.next(); !strings.Contains(got, `"errors":[{"message":"RESYNC_FAILED"`) {
		t.Errorf("got %s", got)
	}
	for f.lines.Scan() {
		if f.lines.Text() == "event: complete" {
			return
		}
	}
	t.Error("no complete at the end")
}

// contract: S14
func TestEvents_SlowViewerIsBroughtToTheNewest(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	source := newCounter(32 << 10)
	s := start(t, ws.Config{WriteTimeout: time.Minute, Share: sharing(source.open), Metrics: registry}, nobody)
	conn := s.small(t)
	fmt.Fprint(conn, eventsRequest)
	eventually(t, 10*time.Second, "it is far behind", func() bool {
		source.advance(10, nil) // the kernel takes megabytes
		return metric(t, registry, "dvt_frames_conflated_total") > 20
	})
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	f := follow(t, resp.Body)
	slow, seen := 0, int64(0)
	for ; f.at.at < source.current(); seen++ {
		if f.payload() == "slow" {
			slow++
		}
	}
	if slow == 0 || seen > source.current()-20 {
		t.Errorf("%d payloads of %d, %d for a slow viewer", seen, source.current(), slow)
	}
	source.advance(1, nil)
	if kind := f.payload(); kind != "next" {
		t.Errorf("went on with %s", kind)
	}
}
