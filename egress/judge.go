package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"
)

// ErrNotPermitted says that the settings do not permit a tenant to connect to an address. The program that dialled the
// address knows it, so unlike ErrRefused this error keeps no secret.
var ErrNotPermitted = errors.New("the address is not permitted")

const (
	resolveTimeout = 2 * time.Second
	resolvedFor    = 30 * time.Second
	maxResolving   = 16 // lookups at once
)

// Judge returns ErrNotPermitted for an address that a program of a tenant may not connect to. No name is known of such a
// connection: an allowed host permits the addresses that it resolves to at this time, if they are public, and *.example.com
// permits none. Rules that deny names do not apply; those that deny addresses and networks do.
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

// hostAddresses are the addresses of one host, as long as they are young.
type hostAddresses struct {
	at        time.Time
	addresses []netip.Addr
}

// resolvesTo reports whether a host that m names has an address now.
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

// addressesOf keeps the answers of the resolver for a short while. The settings bound how many hosts there are.
func (g *Guard) addressesOf(ctx context.Context, host string) []netip.Addr {
	if kept, ok := g.resolved.Load(host); ok && time.Since(kept.(hostAddresses).at) < resolvedFor {
		return kept.(hostAddresses).addresses
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
