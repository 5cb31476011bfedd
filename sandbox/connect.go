package sandbox

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// maxConnectRules bounds Program.Connect.
const maxConnectRules = 256

// connectRule is one entry of Program.Connect.
type connectRule struct {
	host string     // in lower case, without a root dot; empty for every host
	addr netip.Addr // of a literal host
	port uint16
}

// connectRules is the compiled Program.Connect. open means that Connect is nil, so Judge decides alone.
type connectRules struct {
	open  bool
	rules []connectRule
}

// parseConnect compiles entries of the form "PORT" or "HOST:PORT".
func parseConnect(entries []string) (connectRules, error) {
	if entries == nil {
		return connectRules{open: true}, nil
	}
	if len(entries) > maxConnectRules {
		return connectRules{}, fmt.Errorf("%w: there are %d entries, at most %d are allowed", ErrConnect, len(entries),
			maxConnectRules)
	}
	var c connectRules
	for _, entry := range entries {
		host, port := "", entry
		if strings.Contains(entry, ":") {
			var err error
			if host, port, err = net.SplitHostPort(entry); err != nil || host == "" {
				return connectRules{}, fmt.Errorf("%w: %q is neither PORT nor HOST:PORT", ErrConnect, entry)
			}
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return connectRules{}, fmt.Errorf("%w: %q has no port between 1 and 65535", ErrConnect, entry)
		}
		r := connectRule{host: canonicalName(host), port: uint16(number)}
		if addr, err := netip.ParseAddr(host); err == nil {
			r.addr = addr.WithZone("").Unmap()
		}
		c.rules = append(c.rules, r)
	}
	return c, nil
}

// permits reports whether an entry permits an address. hasName reports whether the program resolved a name to it
// before.
func (c connectRules) permits(to netip.AddrPort, hasName func(addr netip.Addr, name string) bool) bool {
	if c.open {
		return true
	}
	for _, r := range c.rules {
		if r.port == to.Port() && (r.host == "" || r.names(to.Addr(), hasName)) {
			return true
		}
	}
	return false
}

// namesLoopback reports whether an entry names this loopback address and port, not only the port.
func (c connectRules) namesLoopback(to netip.AddrPort, hasName func(addr netip.Addr, name string) bool) bool {
	for _, r := range c.rules {
		if r.port == to.Port() && r.host != "" && (r.names(to.Addr(), hasName) || r.host == "localhost") {
			return true
		}
	}
	return false
}

func (r connectRule) names(addr netip.Addr, hasName func(addr netip.Addr, name string) bool) bool {
	addr = addr.Unmap()
	return r.addr.IsValid() && r.addr == addr || hasName(addr, r.host)
}

// resolves reports whether a name may be looked up. Look-ups can carry data out, so only listed hosts are resolved,
// unless an entry permits a port on every host.
func (c connectRules) resolves(name string) bool {
	if c.open {
		return true
	}
	for _, r := range c.rules {
		if r.host == "" || r.host == name {
			return true
		}
	}
	return false
}

func canonicalName(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }
