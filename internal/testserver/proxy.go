package testserver

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy is a TCP proxy on loopback in front of a server, at which a test breaks what lies between the two. It passes
// everything until told otherwise; its methods may be called at any time, from anywhere.
type Proxy struct {
	// Addr is host:port.
	Addr string

	upstream string
	ln       net.Listener
	carry    func(l *link) (up, down func() error) // how bytes go; nil: as they are
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

// Pass ends whatever fault there is: new connections are accepted, and what was held goes on, late.
func (p *Proxy) Pass() { p.set(passing) }

// Refuse resets every connection that is made from now on. Those that exist go on; Cut ends them.
func (p *Proxy) Refuse() { p.set(refusing) }

// Hold makes a black hole: connections are accepted, and neither they nor the ones that exist carry a byte, nor learn
// of an end, until Pass.
func (p *Proxy) Hold() { p.set(holding) }

// Cut resets every connection that exists.
func (p *Proxy) Cut() { p.cut(func(*link) bool { return true }) }

// Stop is what a server that was stopped looks like: everything is cut and refused, until Pass.
func (p *Proxy) Stop() {
	p.Refuse()
	p.Cut()
}

// Open is how many connections there are.
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

// link is one connection with what it stands for behind the proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	over           chan struct{}
	once           sync.Once
	subscriber     bool // of a BusProxy; guarded by proxy.mu
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
			_ = carry() // whatever ended one direction ends the other
			l.end()
		})
	}
	<-l.over
	reset(server)
	both.Wait()
}

// pass waits while the proxy holds everything, and is false when the link is over.
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

// copies carries bytes as they are.
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
