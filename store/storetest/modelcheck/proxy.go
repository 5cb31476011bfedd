package modelcheck

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// The faults in a thousand requests, and the bounds of the proxy.
const (
	lateRequests  = 30 // delayed by up to maxDelay
	lostRequests  = 2  // the connection ends before the server receives the request
	lostAnswers   = 2  // the server executes the request, but the connection ends before the response
	maxDelay      = 15 * time.Millisecond
	proxyBuffer   = 64 << 10
	dialUpstream  = 5 * time.Second
	maxForwarding = 1000 // connections at once
)

// proxy forwards the connections of processes to a server, and delays and closes some of them.
type proxy struct {
	listener net.Listener
	upstream string

	mu   sync.Mutex
	dice *rand.Rand
	open map[net.Conn]bool

	before, after, delays atomic.Int64
}

func listen(dice *rand.Rand) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &proxy{listener: l, dice: dice, open: map[net.Conn]bool{}}, nil
}

func (p *proxy) hostPort() string { return p.listener.Addr().String() }

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		go p.forward(client)
	}
}

func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		c.Close()
	}
}

// keep registers a connection, so that close closes it. It returns false if there are too many connections.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) >= maxForwarding {
		return false
	}
	p.open[c] = true
	return true
}

func (p *proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.open, c)
	}
}

// forward copies data in both directions until one side ends or the proxy closes the connection.
func (p *proxy) forward(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.upstream, dialUpstream)
	if err != nil {
		client.Close()
		return
	}
	defer p.drop(client, server)
	if !p.keep(client) || !p.keep(server) {
		return
	}
	var loseAnswer atomic.Bool
	answers := make(chan struct{})
	go func() {
		defer close(answers)
		defer p.drop(client)
		pump(client, server, func() bool {
			if loseAnswer.Load() {
				p.after.Add(1)
				return false
			}
			return true
		})
	}()
	pump(server, client, func() bool {
		switch fate, delay := p.roll(); {
		case fate < lostRequests:
			p.before.Add(1)
			return false
		case fate < lostRequests+lostAnswers:
			loseAnswer.Store(true)
		case fate < lostRequests+lostAnswers+lateRequests:
			p.delays.Add(1)
			time.Sleep(delay)
		}
		return true
	})
	server.Close()
	<-answers
}

func (p *proxy) roll() (fate int, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dice.IntN(1000), time.Duration(p.dice.Int64N(int64(maxDelay)))
}

// pump copies data until an error occurs or pass returns false.
func pump(to, from net.Conn, pass func() bool) {
	buf := make([]byte, proxyBuffer)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !pass() {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
