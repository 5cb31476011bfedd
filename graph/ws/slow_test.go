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

// small is a connection with a small window. With a smaller one the kernel waits for
// 200 ms again and again.
func (s *server) small(t *testing.T) net.Conn {
	conn := s.stuck(t)
	_ = conn.(*net.TCPConn).SetReadBuffer(32 << 10)
	return conn
}

// narrow is a viewer with a small window, which has read its first payload.
func (s *server) narrow(t *testing.T) raw {
	t.Helper()
	c := s.upgrade(t, s.small(t)).init()
	c.text(`{"id":"narrow","type":"subscribe","payload":{"query":"subscription { a }"}}`)
	if m := c.shown(); m.Payload.Data.Kind != "first" {
		t.Fatalf("got %+v", m)
	}
	return c
}

// shown reads frames up to a payload.
func (c raw) shown() shown {
	c.t.Helper()
	for {
		opcode, data := c.frame()
		var m shown
		if opcode != 1 {
			continue
		}
		if err := json.Unmarshal(data, &m); err != nil || m.Type != "next" {
			c.t.Fatalf("got %.200s, %v; want a payload", data, err)
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
func TestSlow_StuckPeerIsGoneAndNobodyElseNotices(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	others := 100
	if raced {
		others = 20
	}
	registry := prometheus.NewRegistry()
	source := newCounter(16 << 10)
	s := start(t, ws.Config{WriteTimeout: timeout, IdleTimeout: time.Minute, Share: sharing(source.open),
		Metrics: registry}, nobody)
	readers := make([]*client, others)
	for i := range readers {
		readers[i] = s.open(t)
		readers[i].subscribe("1", subscription)
		readers[i].next()
	}
	s.narrow(t)
	var behind time.Time
	gone := false
	for to := int64(2); to < 2000 && !gone; to++ {
		source.advance(1, nil)
		for i, c := range readers { // each of them gets each payload before there is another
			if m, ok := c.next(); !ok || m.Payload.Data.Kind != "next" || m.Payload.Data.To != to {
				t.Fatalf("viewer %d is shown %+v, want %d", i, m.Payload.Data, to)
			}
		}
		if behind.IsZero() && metric(t, registry, "dvt_frames_conflated_total") > 0 {
			behind = time.Now()
		}
		gone = metric(t, registry, "dvt_slow_peers_dropped_total") == 1
	}
	if took := time.Since(behind); !gone || took > testtime.Of(timeout+2*time.Second) {
		t.Errorf("gone is %v, %v after it was behind", gone, took)
	}
	eventually(t, 5*time.Second, "its socket is closed", func() bool {
		return metric(t, registry, "dvt_sockets") == float64(others) && metric(t, registry,
			"dvt_shared_viewers") == float64(others)
	})
}

// bytewise reads one byte at a time, slowly for the first of them.
type bytewise struct{ io.Reader }

func (b bytewise) Read(p []byte) (int, error) { return b.Reader.Read(p[:1]) }

// contract: S14
func TestSlow_PartialWritesNeverCorruptAFrame(t *testing.T) {
	t.Parallel()
	const updates = 400
	registry := prometheus.NewRegistry()
	source := newCounter(3000)
	s := start(t, ws.Config{PingEvery: 5 * time.Millisecond, WriteTimeout: time.Minute, IdleTimeout: time.Minute,
		Share: sharing(source.open), Metrics: registry}, nobody)
	c := s.narrow(t)
	for range updates {
		source.advance(1, nil)
		time.Sleep(time.Millisecond)
	}
	eventually(t, 5*time.Second, "it is behind", func() bool {
		return metric(t, registry,
			"dvt_frames_conflated_total") > 0
	})
	r := bytewise{c}
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
		var m shown
		if err := json.Unmarshal(data, &m); err != nil || m.ID != "narrow" {
			t.Fatalf("malformed message %.300q: %v", data, err)
		}
		if err := at.accept(m); err != nil {
			t.Fatal(err)
		}
		seen++
	}
	t.Logf("%d of %d payloads were shown, and %d pings", seen, updates, pings)
	if seen > updates/2 || pings == 0 {
		t.Errorf("%d of %d payloads were shown, and %d pings", seen, updates, pings)
	}
}

// contract: S14
func TestSlow_OnePayloadBringsItToTheNewestAndItGoesOn(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	source := newCounter(32 << 10)
	s := start(t, ws.Config{WriteTimeout: time.Minute, Share: sharing(source.open), Metrics: registry}, nobody)
	c := s.narrow(t)
	at := continuity{1}
	for round := 1; round <= 3; round++ {
		begun := source.slow.Load()
		// A writer that had no turn for a while was behind too, and is not for what it wrote then.
		rendered, conflated := begun, metric(t, registry, "dvt_frames_conflated_total")
		eventually(t, 5*time.Second, "it is far behind", func() bool {
			source.advance(1, nil)
			now := metric(t, registry, "dvt_frames_conflated_total")
			if slow := source.slow.Load(); slow != rendered {
				rendered, conflated = slow, now
			}
			return now > conflated+10
		})
		eventually(t, 5*time.Second, "all is rendered", func() bool { return source.nexts.Load() == source.current()-1 })
		slow := int64(0)
		for at.at < source.current() {
			m := c.shown()
			if err := at.accept(m); err != nil {
				t.Fatal(err)
			}
			if m.Payload.Data.Kind == "slow" {
				slow++
			}
		}
		if now := source.slow.Load(); now != rendered+1 || slow != now-begun {
			t.Fatalf("round %d: %d payloads for a slow viewer were shown, %d rendered, %d of them when it read again", round,
				slow, now-begun, now-rendered)
		}
		source.advance(1, nil)
		if m := c.shown(); m.Payload.Data.Kind != "next" || at.accept(m) != nil {
			t.Fatalf("went on with %+v", m.Payload.Data)
		}
	}
}

// contract: T202
func TestSlow_RevokedWhileBehindIsShownNothingMore(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	c := newClass()
	c.source = newCounter(32 << 10)
	s := start(t, ws.Config{WriteTimeout: time.Minute, Share: c.share, Metrics: registry}, nobody)
	v := s.narrow(t)
	eventually(t, 5*time.Second, "it is behind", func() bool {
		c.source.advance(1, nil)
		return metric(t, registry, "dvt_frames_conflated_total") > 0
	})
	at := c.source.current()
	c.ticket(0).revoke(errors.New("FORBIDDEN")) // and nothing else happens but that it reads
	for {
		_, data := v.frame()
		if strings.Contains(string(data), "FORBIDDEN") {
			break
		}
		var m shown
		if err := json.Unmarshal(data, &m); err != nil || m.Payload.Data.To >= at {
			t.Fatalf("after the refusal it is shown %.100s, %v", data, err)
		}
	}
}

func TestSlow_ShutdownFinishesTheFrameAndThenSaysSo(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	source := newCounter(32 << 10)
	timeout := max(5*time.Second, testtime.Of(time.Second))
	s := start(t, ws.Config{WriteTimeout: timeout, Share: sharing(source.open), Metrics: registry}, nobody)
	c, never := s.narrow(t), s.narrow(t)
	eventually(t, 5*time.Second, "both are behind", func() bool {
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
		var m shown
		if err := json.Unmarshal(data, &m); err != nil || opcode != 1 || at.accept(m) != nil {
			t.Fatalf("got %d %.100s, %v", opcode, data, err)
		}
	}
	if opcode, data := c.frame(); opcode != 8 || !bytes.HasPrefix(data, []byte{1012 >> 8, 1012 & 0xff}) {
		t.Errorf("closed with %d %q", opcode, data)
	}
	c.Close()
	if err := <-done; err != nil || time.Since(began) > timeout+testtime.Of(3*time.Second) {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	if n := metric(t, registry, "dvt_sockets"); n != 0 {
		t.Errorf("%v sockets are left after the shutdown", n)
	}
	never.Close()
}

// Without access to the descriptor a goroutine does what would wait.
func TestSlow_TLS(t *testing.T) {
	t.Parallel()
	source := newCounter(32 << 10)
	plain := start(t, ws.Config{Share: sharing(source.open)}, nobody)
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
		if err := at.accept(c.shown()); err != nil {
			t.Fatal(err)
		}
	}
	c.text(`{"type":"ping"}`)
	if _, data := c.frame(); string(data) != `{"type":"pong"}` {
		t.Errorf("got %s", data)
	}
}
