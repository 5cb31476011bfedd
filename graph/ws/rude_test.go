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

// progress lists how far a peer gets before it leaves without a close frame.
var progress = []struct {
	name string
	do   func(c raw)
}{
	{"mid-handshake", func(c raw) { fmt.Fprint(c, upgradeRequest[:60]) }},
	{"before the response to the handshake", func(c raw) { fmt.Fprint(c, upgradeRequest) }},
	{"before init", func(c raw) { c.handshake() }},
	{"mid-frame of init", func(c raw) { c.handshake(); _, _ = c.Write(masked(1, []byte(initMessage))[:20]) }},
	{"before the response to init", func(c raw) { c.handshake(); c.text(initMessage) }},
	{"after init", func(c raw) { c.handshake(); c.init() }},
	{"with subscribe", func(c raw) { c.handshake(); c.init(); c.text(subscribeMessage) }},
	{"mid-frame of subscribe", func(c raw) {
		c.handshake()
		c.init()
		_, _ = c.Write(masked(1, []byte(subscribeMessage))[:9])
	}},
	{"after subscribe", func(c raw) { c.openSubscription() }},
	{"during writes", func(c raw) { c.openSubscription(); _, _ = c.Read(make([]byte, 700)) }},
	{"with complete", func(c raw) { c.openSubscription(); c.text(`{"id":"1","type":"complete"}`) }},
	{"with invalid data", func(c raw) {
		c.openSubscription()
		_, _ = c.Write([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	}},
	{"with a close frame without waiting for the reply", func(c raw) {
		c.openSubscription()
		_, _ = c.Write(masked(8, []byte{3, 0xe8}))
	}},
	{"with an event stream", func(c raw) { fmt.Fprint(c, eventsRequest); _, _ = c.Read(make([]byte, 20)) }},
}

const (
	initMessage      = `{"type":"connection_init","payload":{"Authorization":"Bearer good"}}`
	subscribeMessage = `{"id":"1","type":"subscribe","payload":{"query":"subscription { a }"}}`
	eventsRequest    = "GET /events?query=subscription+%7B+a+%7D HTTP/1.1\r\nHost: x\r\n\r\n"
)

// closeModes lists the ways in which a peer closes its connection.
var closeModes = []func(c *net.TCPConn){
	func(c *net.TCPConn) { c.Close() },
	func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() }, // RST
	func(c *net.TCPConn) { _ = c.CloseWrite(); time.Sleep(5 * time.Millisecond); c.Close() },
}

// openSubscription connects, subscribes and reads the first payload.
func (c raw) openSubscription() {
	c.handshake()
	c.init()
	c.text(subscribeMessage)
	if _, _, err := readFrame(c); err != nil {
		c.t.Errorf("read the first payload: %v", err)
	}
}

func TestRudePeers_LeaveNoGoroutineAndNoSource(t *testing.T) {
	connects, batch := 10_000, 50
	if raced {
		connects = 2_000
	}
	source := newCounter(2 << 10)
	s := start(t, ws.Config{StreamsOfPeer: 1 << 20, WriteTimeout: time.Second, Share: sharing(source.open)}, panicIfAlone)
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
				progress[i%len(progress)].do(raw{conn, t})
				closeModes[rng.IntN(len(closeModes))](conn.(*net.TCPConn))
			})
		}
		peers.Wait()
	}
	cancel()
	publishing.Wait()
	s.http.CloseClientConnections() // connections whose peer never completed a request
	eventually(t, 10*time.Second, "all goroutines of the peers have ended",
		func() bool { return runtime.NumGoroutine() <= before })
	if opened, closed := source.opened.Load(), source.closed.Load(); opened != closed || opened == 0 {
		t.Errorf("%d sources were opened and %d closed, want equal numbers above 0", opened, closed)
	}
	began := time.Now()
	if err := s.Shutdown(t.Context()); err != nil || time.Since(began) > testtime.Of(time.Second) {
		t.Errorf("Shutdown returned %v after %v, want nil at once", err, time.Since(began))
	}
}
