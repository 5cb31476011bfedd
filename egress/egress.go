// Package egress guards the connections that dvt makes to addresses from users: HTTP_NOTIFY steps, plan references and
// programs of steps. A caller gets an http.RoundTripper from a Guard. The Guard checks the name before it is resolved
// and each address when it is dialled, so neither a redirect nor a second answer of the resolver evades the rules.
//
// An error of this package never holds an address or a resolver's answer, because its readers may not have the right to
// know the network of the process. The details go to the Guard's log.
package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrRefused reports that an address may not be called. It is the same error for a denied name, a name that resolves
// into a private network and a name that does not exist. Otherwise a caller could list the names of an inner network.
var ErrRefused = errors.New("the address leads to no host that may be called")

// Guard decides which addresses may be called. It is immutable and safe for concurrent use; a nil Guard permits public
// addresses only and logs nothing.
type Guard struct {
	private bool
	lists   map[string]list
	own     func(netip.AddrPort) bool // nil means no address
	log     *slog.Logger

	resolver *net.Resolver // nil means the system's resolver
	resolved sync.Map      // cache of Judge: host to hostAddresses
}

// New returns a Guard with these settings. The error names every invalid setting. A nil log discards.
func New(s Settings, log *slog.Logger) (*Guard, error) {
	lists, err := s.compile()
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Guard{private: s.AllowPrivate, lists: lists, own: s.Own, log: log}, nil
}

// WithPrivate returns a guard with the same rules that permits private networks too.
func (g *Guard) WithPrivate() *Guard {
	g = g.orPublic()
	return &Guard{private: true, lists: g.lists, own: g.own, log: g.log, resolver: g.resolver}
}

// orPublic returns the guard that a nil Guard stands for.
func (g *Guard) orPublic() *Guard {
	if g == nil {
		return &Guard{log: slog.New(slog.DiscardHandler)}
	}
	return g
}

// Private reports whether private networks may be called. It is false for a nil Guard.
func (g *Guard) Private() bool { return g != nil && g.private }

type tenantKey struct{}

// WithTenant returns a context in which the rules of a tenant apply to calls. Without it only the rules of Everyone
// apply.
func WithTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

func tenantOf(ctx context.Context) string {
	tenant, _ := ctx.Value(tenantKey{}).(string)
	return tenant
}

// maxIdle is the number of connections to one host that a transport with Timeouts.Idle keeps.
const maxIdle = 8

// Timeouts bound one call.
type Timeouts struct {
	Dial   time.Duration // of a connection, and of the TLS handshake
	Answer time.Duration // from the request to the header of the response; 0 means no limit
	// Idle keeps connections for as long, so that the next call needs no handshake; 0 keeps none. Only for a transport
	// whose calls all have the same rules: a connection of one tenant must not carry the request of another. Kept
	// connections speak HTTP/1.1, where a call that is cancelled ends its connection. A dead connection of HTTP/2 would
	// fail call after call.
	Idle time.Duration
}

// Transport returns a RoundTripper that calls permitted addresses only; it returns ErrRefused for others. It uses no
// proxy.
func (g *Guard) Transport(t Timeouts) http.RoundTripper {
	g = g.orPublic()
	dialer := &net.Dialer{Timeout: t.Dial, ControlContext: g.control, Resolver: g.resolver}
	return &transport{guard: g, next: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return g.dial(ctx, dialer, network, address)
		},
		DisableKeepAlives: t.Idle == 0, IdleConnTimeout: t.Idle, MaxIdleConnsPerHost: maxIdle,
		ForceAttemptHTTP2:   t.Idle == 0,
		TLSHandshakeTimeout: t.Dial, ResponseHeaderTimeout: t.Answer, MaxResponseHeaderBytes: 64 << 10,
	}}
}

// DialContext connects to a permitted address over TCP or UDP; it returns ErrRefused for others. Callers that speak
// HTTP take a Transport.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	g = g.orPublic()
	return g.dial(ctx, &net.Dialer{ControlContext: g.control, Resolver: g.resolver}, network, address)
}

type transport struct {
	guard *Guard
	next  *http.Transport
}

// RoundTrip also checks the Host header, because that header names the site at an address that many sites share.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Host != "" && r.Host != r.URL.Host {
		if !isASCII(r.Host) || !t.guard.mayResolve(tenantOf(r.Context()), hostOf(r.Host)) {
			t.guard.logRefusal(r.Context(), r.Host, "", "the Host header")
			return nil, ErrRefused
		}
	}
	res, err := t.next.RoundTrip(r)
	if err != nil && !errors.Is(err, ErrRefused) && r.Context().Err() == nil {
		t.guard.log.WarnContext(r.Context(), "a call failed",
			slog.String("tenantId", tenantOf(r.Context())), slog.String("host", r.URL.Host), slog.Any("error", err))
	}
	return res, err
}

// CloseIdleConnections is called by http.Client.
func (t *transport) CloseIdleConnections() { t.next.CloseIdleConnections() }

type hostKey struct{}

// dial checks the name before it is resolved, so that a denied name cannot carry data out in a DNS query.
func (g *Guard) dial(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error) {
	host := hostOf(address)
	if !g.mayResolve(tenantOf(ctx), host) {
		g.logRefusal(ctx, host, "", "the name")
		return nil, ErrRefused
	}
	conn, err := d.DialContext(context.WithValue(ctx, hostKey{}, host), network, address)
	var dns *net.DNSError
	switch {
	case errors.Is(err, ErrRefused):
		return nil, ErrRefused // without wrapping, because the outer error names the address
	case errors.As(err, &dns) && dns.IsNotFound && !g.private:
		g.logRefusal(ctx, host, "", "the name does not exist")
		return nil, ErrRefused
	}
	return conn, err
}

// control checks each address immediately before the connection to it is made.
func (g *Guard) control(ctx context.Context, network, address string, _ syscall.RawConn) error {
	host, _ := ctx.Value(hostKey{}).(string)
	at, err := netip.ParseAddrPort(address)
	known := strings.HasPrefix(network, "tcp") || strings.HasPrefix(network, "udp")
	if err != nil || !known || !g.permits(tenantOf(ctx), host, at.Addr()) {
		g.logRefusal(ctx, host, address, "the address")
		return ErrRefused
	}
	if g.own != nil && g.own(at) {
		g.logRefusal(ctx, host, address, "the address belongs to this installation")
		return ErrRefused
	}
	return nil
}

func (g *Guard) logRefusal(ctx context.Context, host, address, cause string) {
	g.log.WarnContext(ctx, "a call was refused", slog.String("tenantId", tenantOf(ctx)), slog.String("host", host),
		slog.String("address", address), slog.String("cause", cause))
}

// mayResolve reports whether a host may be resolved. permits decides about the addresses afterwards.
func (g *Guard) mayResolve(tenant, host string) bool {
	all, own := g.lists[Everyone], g.lists[tenant]
	if all.deny.names(host) || own.deny.names(host) {
		return false
	}
	allow := g.allowOf(tenant)
	// An allowed network may permit the addresses of any name, and those are not known yet.
	return allow.empty() || allow.names(host) || len(allow.prefixes) > 0
}

// allowOf returns the allow list of a tenant: its own, else that of Everyone.
func (g *Guard) allowOf(tenant string) matcher {
	if own := g.lists[tenant].allow; !own.empty() {
		return own
	}
	return g.lists[Everyone].allow
}

// denies reports whether an address, in any of its forms, is refused regardless of the allow list.
func (g *Guard) denies(tenant string, forms []netip.Addr) bool {
	return g.lists[Everyone].deny.covers(forms) || g.lists[tenant].deny.covers(forms) || anyOf(forms, isForbidden)
}

// isOpen reports whether an address may be reached although no network of an allow list holds it.
func (g *Guard) isOpen(forms []netip.Addr) bool { return g.private || !anyOf(forms, isInner) }

// permits reports whether a host may be called at an address that it resolved to.
func (g *Guard) permits(tenant, host string, a netip.Addr) bool {
	if !g.mayResolve(tenant, host) {
		return false
	}
	forms := formsOf(a)
	if g.denies(tenant, forms) {
		return false
	}
	allow, open := g.allowOf(tenant), g.isOpen(forms)
	if allow.empty() {
		return open
	}
	return allow.admits(forms) || allow.names(host) && open
}

// Reason returns a fixed sentence for an error of a Transport. It never holds an address.
func Reason(err error) string {
	var timeout net.Error
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var op *net.OpError
	switch {
	case errors.Is(err, ErrRefused):
		return ErrRefused.Error()
	case errors.As(err, &timeout) && timeout.Timeout():
		return "there was no answer in time"
	case errors.As(err, &dns):
		return "the name could not be resolved"
	case errors.As(err, &verification), errors.As(err, &unknown), errors.As(err, &hostname), errors.As(err, &invalid):
		return "the certificate is not valid for this host"
	case errors.As(err, &record), errors.As(err, &alert):
		return "the TLS handshake failed"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused"
	case errors.As(err, &op) && op.Op == "dial":
		return "no connection could be made"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "the connection was closed before an answer"
	}
	return "the call failed"
}

// hostOf returns the name or address in host:port, in lower case and without a root dot.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}
