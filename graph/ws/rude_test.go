package ws_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/graph/ws"
	"github.com/dvt-engine/dvt/internal/testtime"
)

// rudeness is how far a peer comes before it goes without a word.
var rudeness = []struct {
	name string
	do   func(c raw)
}{
	{"mid-handshake", func(c raw) { fmt.Fprint(c, upgradeRequest[:60]) }},
	{"before the answer to the handshake", func(c raw) { fmt.Fprint(c, upgradeRequest) }},
	{"before init", func(c raw) { c.handshake() }},
	{"mid-frame of init", func(c raw) { c.handshake(); _, _ = c.Write(masked(1, []byte(initMessage))[:20]) }},
	{"before the answer to init", func(c raw) { c.handshake(); c.text(initMessage) }},
	{"after init", func(c raw) { c.handshake(); c.init() }},
	{"with subscribe", func(c raw) { c.handshake(); c.init(); c.text(subscribeMessage) }},
	{"mid-frame of subscribe", func(c raw) {
		c.handshake()
		c.init()
		_,
			_ = c.Write(masked(1, []byte(subscribeMessage))[:9])
	}},
	{"after subscribe", func(c raw) { c.subscribed() }},
	{"during writes", func(c raw) { c.subscribed(); _, _ = c.Read(make([]byte, 700)) }},
	{"with complete", func(c raw) { c.subscribed(); c.text(`{"id":"1","type":"complete"}`) }},
	{"with nonsense", func(c raw) { c.subscribed(); _, _ = c.Write([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) }},
	{"with a close frame and no wait", func(c raw) { c.subscribed(); _, _ = c.Write(masked(8, []byte{3, 0xe8})) }},
	{"with an event stream", func(c raw) { fmt.Fprint(c, eventsRequest); _, _ = c.Read(make([]byte, 20)) }},
}

const (
	initMessage      = `{"type":"connection_init","payload":{"Authorization":"Bearer good"}}`
	subscribeMessage = `{"id":"1","type":"subscribe","payload":{"query":"subscription { a }"}}`
	eventsRequest    = "GET /events?query=subscription+%7B+a+%7D HTTP/1.1\r\nHost: x\r\n\r\n"
)

// goodbyes are the ways to go.
var goodbyes = []func(c *net.TCPConn){
	func(c *net.TCPConn) { c.Close() },
	func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() }, // RST
	func(c *net.TCPConn) { _ = c.CloseWrite(); time.Sleep(5 * time.Millisecond); c.Close() },
}

func (c raw) subscribed() {
	c.handshake()
	c.init()
	c.text(subscribeMessage)
	if _, _, err := readFrame(c); err != nil {
		c.t.Errorf("subscribed: %v", err)
	}
}

// Nothing is left of 10,000 peers, however they went.
func TestRude_NothingIsLeft(t *testing.T) {
	connects, batch := 10_000, 50
	if raced {
		connects = 2_000
	}
	source := newCounter(2 << 10)
	s := start(t, ws.Config{StreamsOfPeer: 1 << 20, WriteTimeout: time.Second, Share: sharing(source.open)}, nobody)
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for ctx.Err() == nil {
			source.advance(1, nil)
			time.Sleep(500 * time.Microsecond)
		}
	})
	address := s.http.Listener.Addr().String()
	for begin := 0; begin < connects; begin += batch {
		var peers sync.WaitGroup
		for i := begin; i < begin+batch; i++ {
			peers.Go(func() {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Error(err)
					return
				}
				_ = conn.SetDeadline(time.Now().Add(testtime.Of(10 * time.Second)))
				rng := rand.New(rand.NewPCG(1, uint64(i)))
				rudeness[i%len(rudeness)].do(raw{conn, t})
				goodbyes[rng.IntN(len(goodbyes))](conn.(*net.TCPConn))
			})
		}
		peers.Wait()
	}
	cancel()
	publishing.Wait()
	s.http.CloseClientConnections() // of those that never finished a request
	eventually(t, 10*time.Second, "nothing is left", func() bool { return runtime.NumGoroutine() <= before })
	if opened, closed := source.opened.Load(), source.closed.Load(); opened != closed || opened == 0 {
		t.Errorf("%d sources were opened, %d closed", opened, closed)
	}
	began := time.Now()
	if err := s.Shutdown(t.Context()); err != nil || time.Since(began) > testtime.Of(time.Second) {
		t.Errorf("shutdown: %v after %v", err, time.Since(began))
	}
}
