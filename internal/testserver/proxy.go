package testserver

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy is a TCP proxy on loopback in front of a server. A test uses it to break the network between a client and the
// server. It forwards everything until another method is called. It is safe for concurrent use.
type Proxy struct {
	// Addr is host:port.
	Addr string

	upstream string
	ln       net.Listener
	carry    func(l *link) (up, down func() error) // returns the copy functions of a link; nil: unchanged bytes
	running  sync.WaitGroup

	mu      sync.Mutex
	mode    mode
	changed chan struct{} // closed when mode changes
	links   map[*link]struct{}
	closed  bool
}

type mode int

const (
	passing mode = iota
	refusing
	holding
)

// NewProxy starts a proxy in front of upstream (host:port) and ends it when t ends.
func NewProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	return startProxy(t, upstream, nil)
}

func startProxy(t testing.TB, upstream string, carry func(*link) (up, down func() error)) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("testserver: no proxy: %v", err)
	}
	p := &Proxy{Addr: ln.Addr().String(), upstream: upstream, ln: ln, carry: carry, changed: make(chan struct{}),
		links: map[*link]struct{}{}}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Pass ends the effect of Refuse, Hold or Stop. The proxy accepts connections again and forwards the bytes that it
// held.
func (p *Proxy) Pass() { p.set(passing) }

// Refuse resets all new connections. Existing ones continue; Cut ends them.
func (p *Proxy) Refuse() { p.set(refusing) }

// Hold turns the proxy into a black hole until Pass: it accepts connections, but forwards neither bytes nor the end of
// a connection.
func (p *Proxy) Hold() { p.set(holding) }

// Cut resets all existing connections.
func (p *Proxy) Cut() { p.cut(func(*link) bool { return true }) }

// Stop imitates a stopped server until Pass: it resets existing and new connections.
func (p *Proxy) Stop() {
	p.Refuse()
	p.Cut()
}

// Open returns the number of open connections.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

func (p *Proxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode != m {
		p.mode = m
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

func (p *Proxy) cut(which func(*link) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if which(l) {
			l.end()
		}
	}
}

func (p *Proxy) close() {
	_ = p.ln.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Cut()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return
		}
		l := &link{proxy: p, client: c, over: make(chan struct{})}
		p.mu.Lock()
		if p.closed || p.mode == refusing {
			reset(c)
		} else {
			p.links[l] = struct{}{}
			p.running.Go(l.run)
		}
		p.mu.Unlock()
	}
}

// link is one connection of a client with the connection of the proxy to the server.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	over           chan struct{}
	once           sync.Once
	subscriber     bool // used by BusProxy; guarded by proxy.mu
}

func (l *link) run() {
	defer func() {
		l.end()
		l.proxy.mu.Lock()
		delete(l.proxy.links, l)
		l.proxy.mu.Unlock()
	}()
	if !l.pass() {
		return
	}
	server, err := net.Dial("tcp", l.proxy.upstream)
	if err != nil {
		return
	}
	defer reset(server)
	l.server = server
	up, down := l.copies(server, l.client), l.copies(l.client, server)
	if l.proxy.carry != nil {
		up, down = l.proxy.carry(l)
	}
	var both sync.WaitGroup
	for _, carry := range []func() error{up, down} {
		both.Go(func() {
			_ = carry() // any end of one direction ends the other
			l.end()
		})
	}
	<-l.over
	reset(server)
	both.Wait()
}

// pass waits while the proxy holds all bytes. It returns false when the link has ended.
func (l *link) pass() bool {
	for {
		l.proxy.mu.Lock()
		held, changed := l.proxy.mode == holding, l.proxy.changed
		l.proxy.mu.Unlock()
		if !held {
			select {
			case <-l.over:
				return false
			default:
				return true
			}
		}
		select {
		case <-l.over:
			return false
		case <-changed:
		}
	}
}

// copies returns a function that copies bytes unchanged until an error or the end of the link.
func (l *link) copies(to io.Writer, from io.Reader) func() error {
	return func() error {
		buf := make([]byte, 32<<10)
		for {
			n, err := from.Read(buf)
			if !l.pass() || err != nil && n == 0 {
				return err
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
	}
}

func (l *link) end() {
	l.once.Do(func() {
		close(l.over)
		reset(l.client)
	})
}

// reset closes a connection so that its peer notices at once.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}
