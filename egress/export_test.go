package egress

import (
	"net"
	"net/netip"
)

// WithResolver replaces the resolver of a guard.
func WithResolver(g *Guard, r *net.Resolver) *Guard { g.resolver = r; return g }

// Permits reports whether a tenant may call a host at an address to which the host resolved.
func (g *Guard) Permits(tenant, host, address string) bool {
	return g.permits(tenant, host, addr(address))
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }
