package server

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// clientAddress returns a function that returns the address of a request's client. That is the address of the
// connection. When the connection comes from a trusted proxy, it is the last address in X-Forwarded-For that is not a
// trusted proxy. Earlier entries are ignored, because any client can write them.
func clientAddress(proxies []netip.Prefix) func(*http.Request) string {
	trusted := func(ip netip.Addr) bool {
		return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(ip) })
	}
	return func(r *http.Request) string {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		at, err := netip.ParseAddr(host)
		if err != nil {
			return host
		}
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for at = at.Unmap().WithZone(""); trusted(at) && len(hops) > 0; hops = hops[:len(hops)-1] {
			before, err := netip.ParseAddr(strings.TrimSpace(hops[len(hops)-1]))
			if err != nil {
				break
			}
			at = before.Unmap().WithZone("")
		}
		return at.String()
	}
}
