package testserver

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"sync"
	"testing"
)

// TLSProxy terminates TLS on loopback in front of a server without TLS. It requires client certificates, like a server
// with mutual TLS. It is safe for concurrent use.
type TLSProxy struct {
	// Addr is host:port.
	Addr string

	upstream string
	ln       net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	config  *tls.Config
	links   map[net.Conn]struct{}
	clients map[string]int // connections by the common name of the client's certificate
	closed  bool
}

// NewTLSProxy starts a proxy that presents the certificate server and requires client certificates of the authority
// clients, and stops it when t ends. alpn are the protocols that it offers, such as h2 for a gRPC server.
func NewTLSProxy(t testing.TB, upstream string, server Pair, clients *Authority, alpn ...string) *TLSProxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("testserver: no proxy: %v", err)
	}
	p := &TLSProxy{Addr: ln.Addr().String(), upstream: upstream, ln: ln, links: map[net.Conn]struct{}{},
		clients: map[string]int{}}
	p.config = p.configure(t, server, clients, alpn)
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = ln.Close()
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.Cut()
		p.running.Wait()
	})
	return p
}

func (p *TLSProxy) configure(t testing.TB, server Pair, clients *Authority, alpn []string) *tls.Config {
	t.Helper()
	pair, err := tls.X509KeyPair(server.Cert, server.Key)
	if err != nil {
		t.Fatalf("testserver: %v", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(clients.PEM)
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
		NextProtos: alpn,
		MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true,
	}
}

// Replace replaces the certificate of the proxy and the authority of clients for new connections.
func (p *TLSProxy) Replace(t testing.TB, server Pair, clients *Authority) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config = p.configure(t, server, clients, p.config.NextProtos)
}

// Cut closes all existing connections.
func (p *TLSProxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.links {
		_ = c.Close()
	}
}

// Clients returns the number of connections so far with a client certificate of this common name.
func (p *TLSProxy) Clients(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clients[name]
}

func (p *TLSProxy) accept() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		if p.closed {
			_ = c.Close()
		} else {
			p.links[c] = struct{}{}
			secured := tls.Server(c, p.config)
			p.running.Go(func() { p.carry(c, secured) })
		}
		p.mu.Unlock()
	}
}

func (p *TLSProxy) carry(raw net.Conn, client *tls.Conn) {
	defer func() {
		_ = raw.Close()
		p.mu.Lock()
		delete(p.links, raw)
		p.mu.Unlock()
	}()
	if client.Handshake() != nil {
		return
	}
	server, err := net.Dial("tcp", p.upstream)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.clients[client.ConnectionState().PeerCertificates[0].Subject.CommonName]++
	p.mu.Unlock()
	var both sync.WaitGroup
	for _, direction := range [][2]net.Conn{{server, client}, {client, server}} {
		both.Go(func() {
			_, _ = io.Copy(direction[0], direction[1]) // any end of one direction ends the other
			_ = raw.Close()
			_ = server.Close()
		})
	}
	both.Wait()
}
