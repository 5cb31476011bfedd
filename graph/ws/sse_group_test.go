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

// eventReader reads the events of a stream.
type eventReader struct {
	t     *testing.T
	lines *bufio.Scanner
	at    continuity
}

func newEventReader(t *testing.T, r io.Reader) *eventReader {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	return &eventReader{t: t, lines: lines}
}

// next returns the data of the next event.
func (f *eventReader) next() string {
	f.t.Helper()
	for f.lines.Scan() {
		if data, ok := strings.CutPrefix(f.lines.Text(), "data: "); ok {
			return data
		}
	}
	f.t.Fatalf("the stream has ended with %v, want another event", f.lines.Err())
	return ""
}

// payload checks the continuity of the next event and returns its kind.
func (f *eventReader) payload() string {
	f.t.Helper()
	var m nextMessage
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
	s := start(t, ws.Config{Share: sharing(source.open)}, panicIfAlone)
	c := s.open(t)
	c.subscribe("1", subscription)
	c.next()
	ctx, cancel := context.WithCancel(t.Context())
	f := newEventReader(t, s.events(ctx, t, subscription).Body)
	if kind := f.payload(); kind != "first" {
		t.Errorf("the event stream starts with a payload of kind %s, want first", kind)
	}
	for range 3 {
		source.advance(1, nil)
		if m, ok := c.next(); !ok || m.Payload.Data.To != source.current() {
			t.Fatalf("the socket got %+v, want the payload to %d", m, source.current())
		}
		if kind := f.payload(); kind != "next" {
			t.Errorf("the event stream continues with a payload of kind %s, want next", kind)
		}
	}
	if n := source.opened.Load(); n != 1 {
		t.Errorf("%d sources were opened, want one for both", n)
	}
	c.Close()
	cancel()
	eventually(t, 5*time.Second, "the group has ended", func() bool { return source.closed.Load() == 1 })
}

func TestEvents_EndWithTheErrorOfTheGroup(t *testing.T) {
	t.Parallel()
	source := newCounter(0)
	s := start(t, ws.Config{Share: sharing(source.open)}, panicIfAlone)
	f := newEventReader(t, s.events(t.Context(), t, subscription).Body)
	f.payload()
	source.advance(0, errors.New("RESYNC_FAILED"))
	if got := f.next(); !strings.Contains(got, `"errors":[{"message":"RESYNC_FAILED"`) {
		t.Errorf("got %s, want the error of the group", got)
	}
	for f.lines.Scan() {
		if f.lines.Text() == "event: complete" {
			return
		}
	}
	t.Error("the stream ended without a complete event")
}

// contract: S14
func TestEvents_SlowViewerSkipsToTheNewestPayload(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	source := newCounter(32 << 10)
	s := start(t, ws.Config{WriteTimeout: time.Minute, Share: sharing(source.open), Metrics: registry}, panicIfAlone)
	conn := s.dialSlow(t)
	fmt.Fprint(conn, eventsRequest)
	eventually(t, 10*time.Second, "the viewer is far behind", func() bool {
		source.advance(10, nil) // the kernel buffers megabytes
		return metric(t, registry, "dvt_frames_conflated_total") > 20
	})
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	f := newEventReader(t, resp.Body)
	slow, seen := 0, int64(0)
	for ; f.at.at < source.current(); seen++ {
		if f.payload() == "slow" {
			slow++
		}
	}
	if slow == 0 || seen > source.current()-20+int64(slow) {
		t.Errorf("the viewer received %d of %d payloads, %d of them for a slow viewer; want fewer, and at least one", seen,
			source.current(), slow)
	}
	source.advance(1, nil)
	if kind := f.payload(); kind != "next" {
		t.Errorf("the stream continued with a payload of kind %s, want next", kind)
	}
}
