package server

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// clientAddress is where a request comes from: the address of its connection, or if that is a
// trusted proxy's the last one in X-Forwarded-For that is not. What stands before that anybody
// could have written.
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
