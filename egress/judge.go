package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"
)

// ErrNotPermitted reports that the settings do not permit a tenant to connect to an address. The program that dialled
// the address knows it, so this error, unlike ErrRefused, hides nothing.
var ErrNotPermitted = errors.New("the address is not permitted")

const (
	resolveTimeout = 2 * time.Second
	resolvedFor    = 30 * time.Second
	maxResolving   = 16 // lookups at once
)

// Judge returns ErrNotPermitted for an address to which a program of a tenant may not connect. The name of such a
// connection is unknown. An allowed host therefore permits the public addresses to which it resolves at this time, and
// *.example.com permits none. Rules that deny names do not apply; rules that deny addresses and networks do. Judge may
// take two seconds to resolve hosts.
func (g *Guard) Judge(tenant string, a netip.Addr) error {
	if g == nil {
		g = &Guard{}
	}
	forms := formsOf(a)
	if g.denies(tenant, forms) {
		return ErrNotPermitted
	}
	allow, open := g.allowOf(tenant), g.isOpen(forms)
	if (allow.empty() || allow.any) && open || allow.admits(forms) {
		return nil
	}
	if open && len(allow.exact) > 0 && g.resolvesTo(allow, forms[0]) {
		return nil
	}
	return ErrNotPermitted
}

// hostAddresses is the cached answer of the resolver for one host. It is valid for resolvedFor.
type hostAddresses struct {
	at        time.Time
	addresses []netip.Addr
}

// resolvesTo reports whether one of the hosts of m resolves to a now. It looks up to maxResolving hosts up at once.
func (g *Guard) resolvesTo(m matcher, a netip.Addr) bool {
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	found := make(chan bool, len(m.exact))
	slots := make(chan struct{}, maxResolving)
	for host := range m.exact {
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			found <- slices.Contains(g.addressesOf(ctx, host), a)
		}()
	}
	for range m.exact {
		if <-found {
			return true
		}
	}
	return false
}

// addressesOf returns the addresses of a host and caches them for resolvedFor. The settings bound the size of the
// cache.
func (g *Guard) addressesOf(ctx context.Context, host string) []netip.Addr {
	if cached, ok := g.resolved.Load(host); ok && time.Since(cached.(hostAddresses).at) < resolvedFor {
		return cached.(hostAddresses).addresses
	}
	resolver := g.resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	addresses, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	for i, a := range addresses {
		addresses[i] = a.Unmap()
	}
	g.resolved.Store(host, hostAddresses{at: time.Now(), addresses: addresses})
	return addresses
}
