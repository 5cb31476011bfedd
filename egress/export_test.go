package egress

import (
	"net"
	"net/netip"
)

// WithResolver makes a guard ask another resolver.
func WithResolver(g *Guard, r *net.Resolver) *Guard { g.resolver = r; return g }

// Permits is the decision about an address that a host resolved to.
func (g *Guard) Permits(tenant, host, address string) bool {
	return g.permits(tenant, host, addr(address))
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }
