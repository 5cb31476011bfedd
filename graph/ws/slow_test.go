package ws_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/graph/ws"
	"github.com/dvt-engine/dvt/internal/testtime"
)

// dialSlow opens a connection with a small receive window. With an even smaller one the kernel delays by 200 ms
// repeatedly.
func (s *server) dialSlow(t *testing.T) net.Conn {
	conn := s.dialSmallWindow(t)
	_ = conn.(*net.TCPConn).SetReadBuffer(32 << 10)
	return conn
}

// slowViewer subscribes over a connection with a small receive window and reads the first payload.
func (s *server) slowViewer(t *testing.T) raw {
	t.Helper()
	c := s.upgrade(t, s.dialSlow(t)).init()
	c.text(`{"id":"narrow","type":"subscribe","payload":{"query":"subscription { a }"}}`)
	if m := c.nextPayload(); m.Payload.Data.Kind != "first" {
		t.Fatalf("got %+v, want a first payload", m)
	}
	return c
}

// nextPayload reads frames until it gets a payload.
func (c raw) nextPayload() nextMessage {
	c.t.Helper()
	for {
		opcode, data := c.frame()
		var m nextMessage
		if opcode != 1 {
			continue
		}
		if err := json.Unmarshal(data, &m); err != nil || m.Type != "next" {
			c.t.Fatalf("got %.200s, error %v; want a payload", data, err)
		}
		return m
	}
}

func (c raw) frame() (byte, []byte) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	opcode, data, err := readFrame(c)
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	return opcode, data
}

// metric returns the sum of a gauge or counter over its labels.
func metric(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// contract: S14
func TestSlow_StuckPeerIsDisconnectedAndOthersGetEveryPayload(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	others := 100
	if raced {
		others = 20
	}
	registry := prometheus.NewRegistry()
	source := newCounter(16 << 10)
	s := start(t, ws.Config{WriteTimeout: timeout, IdleTimeout: time.Minute, Share: sharing(source.open),
		Metrics: registry}, panicIfAlone)
	readers := make([]*client, others)
	for i := range readers {
		readers[i] = s.open(t)
		readers[i].subscribe("1", subscription)
		readers[i].next()
	}
	s.slowViewer(t)
	var behind time.Time
	gone := false
	for to := int64(2); to < 2000 && !gone; to++ {
		source.advance(1, nil)
		for i, c := range readers { // every reader gets this payload before the next one
			if m, ok := c.next(); !ok || m.Payload.Data.Kind != "next" || m.Payload.Data.To != to {
				t.Fatalf("viewer %d received %+v, want the next payload to %d", i, m.Payload.Data, to)
			}
		}
		if behind.IsZero() && metric(t, registry, "dvt_frames_conflated_total") > 0 {
			behind = time.Now()
		}
		gone = metric(t, registry, "dvt_slow_peers_dropped_total") == 1
	}
	if took := time.Since(behind); !gone || took > testtime.Of(timeout+2*time.Second) {
		t.Errorf("disconnected is %v, %v after the peer fell behind; want true within %v", gone, took, timeout)
	}
	eventually(t, 5*time.Second, "only the socket of the stuck peer is closed", func() bool {
		return metric(t, registry, "dvt_sockets") == float64(others) &&
			metric(t, registry, "dvt_shared_viewers") == float64(others)
	})
}

// byteReader reads one byte at a time.
type byteReader struct{ io.Reader }

func (b byteReader) Read(p []byte) (int, error) { return b.Reader.Read(p[:1]) }

// contract: S14
func TestSlow_PartialWritesNeverCorruptAFrame(t *testing.T) {
	t.Parallel()
	const updates = 400
	registry := prometheus.NewRegistry()
	source := newCounter(3000)
	s := start(t, ws.Config{PingEvery: 5 * time.Millisecond, WriteTimeout: time.Minute, IdleTimeout: time.Minute,
		Share: sharing(source.open), Metrics: registry}, panicIfAlone)
	c := s.slowViewer(t)
	for range updates {
		source.advance(1, nil)
		time.Sleep(time.Millisecond)
	}
	eventually(t, 5*time.Second, "the viewer is behind", func() bool {
		return metric(t, registry, "dvt_frames_conflated_total") > 0
	})
	r := byteReader{c}
	seen, pings, at := 0, 0, continuity{1}
	for at.at < updates+1 {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		opcode, data, err := readFrame(r)
		if err != nil {
			t.Fatalf("after %d payloads and %d pings: %v", seen, pings, err)
		}
		if opcode == 9 {
			pings++
			continue
		}
		var m nextMessage
		if err := json.Unmarshal(data, &m); err != nil || m.ID != "narrow" {
			t.Fatalf("malformed message %.300q: %v", data, err)
		}
		if err := at.accept(m); err != nil {
			t.Fatal(err)
		}
		seen++
	}
	t.Logf("the viewer received %d of %d payloads and %d pings", seen, updates, pings)
	if seen > updates/2 || pings == 0 {
		t.Errorf("the viewer received %d of %d payloads and %d pings, want at most half and at least one ping", seen, updates,
			pings)
	}
}

// contract: S14
func TestSlow_ViewerSkipsToTheNewestPayloadAndContinues(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	source := newCounter(32 << 10)
	s := start(t, ws.Config{WriteTimeout: time.Minute, Share: sharing(source.open), Metrics: registry}, panicIfAlone)
	c := s.slowViewer(t)
	at := continuity{1}
	for round := 1; round <= 3; round++ {
		begun := source.slow.Load()
		// A short delay of the writer also counts as being behind; wait for payloads that are skipped in a row.
		rendered, conflated := begun, metric(t, registry, "dvt_frames_conflated_total")
		eventually(t, 5*time.Second, "the viewer is far behind", func() bool {
			source.advance(1, nil)
			now := metric(t, registry, "dvt_frames_conflated_total")
			if slow := source.slow.Load(); slow != rendered {
				rendered, conflated = slow, now
			}
			return now > conflated+10
		})
		eventually(t, 5*time.Second, "all payloads are rendered",
			func() bool { return source.nexts.Load() == source.current()-1 })
		slow := int64(0)
		for at.at < source.current() {
			m := c.nextPayload()
			if err := at.accept(m); err != nil {
				t.Fatal(err)
			}
			if m.Payload.Data.Kind == "slow" {
				slow++
			}
		}
		if now := source.slow.Load(); now != rendered+1 || slow != now-begun {
			t.Fatalf("round %d: the viewer received %d payloads for a slow viewer; %d were rendered, %d of them after it "+
				"read again, want 1", round,
				slow, now-begun, now-rendered)
		}
		source.advance(1, nil)
		if m := c.nextPayload(); m.Payload.Data.Kind != "next" || at.accept(m) != nil {
			t.Fatalf("the viewer continued with %+v, want a next payload", m.Payload.Data)
		}
	}
}

// contract: T202
func TestSlow_ViewerRevokedWhileBehindGetsNoPayload(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	c := newRightsFixture()
	c.source = newCounter(32 << 10)
	s := start(t, ws.Config{WriteTimeout: time.Minute, Share: c.share, Metrics: registry}, panicIfAlone)
	v := s.slowViewer(t)
	eventually(t, 5*time.Second, "the viewer is behind", func() bool {
		c.source.advance(1, nil)
		return metric(t, registry, "dvt_frames_conflated_total") > 0
	})
	at := c.source.current()
	c.ticket(0).revoke(errors.New("FORBIDDEN")) // no further update: only reading by the viewer triggers the check
	for {
		_, data := v.frame()
		if strings.Contains(string(data), "FORBIDDEN") {
			break
		}
		var m nextMessage
		if err := json.Unmarshal(data, &m); err != nil || m.Payload.Data.To >= at {
			t.Fatalf("after the refusal the viewer received %.100s, error %v; want only earlier payloads", data, err)
		}
	}
}

func TestSlow_ShutdownFinishesTheFrameBeforeItsMessage(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	source := newCounter(32 << 10)
	timeout := max(5*time.Second, testtime.Of(time.Second))
	s := start(t, ws.Config{WriteTimeout: timeout, Share: sharing(source.open), Metrics: registry}, panicIfAlone)
	c, never := s.slowViewer(t), s.slowViewer(t)
	eventually(t, 5*time.Second, "both viewers are behind", func() bool {
		source.advance(1, nil)
		return metric(t, registry, "dvt_frames_conflated_total") > 20
	})
	began, done := time.Now(), make(chan error, 1)
	go func() { done <- s.Shutdown(t.Context()) }()
	at := continuity{1}
	for {
		opcode, data := c.frame()
		if strings.Contains(string(data), `"id":"narrow","type":"error"`) && strings.Contains(string(data),
			"SERVER_SHUTDOWN") {
			break
		}
		var m nextMessage
		if err := json.Unmarshal(data, &m); err != nil || opcode != 1 || at.accept(m) != nil {
			t.Fatalf("got opcode %d with %.100s, error %v; want a payload or SERVER_SHUTDOWN", opcode, data, err)
		}
	}
	if opcode, data := c.frame(); opcode != 8 || !bytes.HasPrefix(data, []byte{1012 >> 8, 1012 & 0xff}) {
		t.Errorf("got opcode %d with %q, want a close frame with code 1012", opcode, data)
	}
	c.Close()
	if err := <-done; err != nil || time.Since(began) > timeout+testtime.Of(3*time.Second) {
		t.Errorf("Shutdown returned %v after %v, want nil within the write timeout", err, time.Since(began))
	}
	if n := metric(t, registry, "dvt_sockets"); n != 0 {
		t.Errorf("%v sockets are open after Shutdown, want 0", n)
	}
	never.Close()
}

// A TLS connection gives no access to its file descriptor, so a goroutine does the blocking writes.
func TestSlow_TLSViewerGetsAnUnbrokenChain(t *testing.T) {
	t.Parallel()
	source := newCounter(32 << 10)
	plain := start(t, ws.Config{Share: sharing(source.open)}, panicIfAlone)
	encrypted := httptest.NewTLSServer(plain.http.Config.Handler)
	t.Cleanup(encrypted.Close)
	tcp, err := net.Dial("tcp", encrypted.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(tcp, &tls.Config{InsecureSkipVerify: true})
	t.Cleanup(func() { conn.Close() })
	c := plain.upgrade(t, conn).init()
	c.text(`{"id":"1","type":"subscribe","payload":{"query":"subscription { a }"}}`)
	at := continuity{}
	const updates = 300
	go source.advance(updates, nil)
	for at.at < updates+1 {
		if err := at.accept(c.nextPayload()); err != nil {
			t.Fatal(err)
		}
	}
	c.text(`{"type":"ping"}`)
	if _, data := c.frame(); string(data) != `{"type":"pong"}` {
		t.Errorf("got %s, want a pong", data)
	}
}
