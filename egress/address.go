package egress

import "net/netip"

// isInner reports whether an address is not a public address of the internet.
func isInner(a netip.Addr) bool {
	if a.Is4() {
		return containsAddr(inner4, a)
	}
	// All public IPv6 addresses lie in one network. The addresses outside are unspecified, loopback, IPv4-compatible,
	// NAT64, site-local, unique local, link-local, multicast or not assigned.
	return !global6.Contains(a) || containsAddr(inner6, a)
}

// isForbidden reports whether an address is refused under all settings, because it returns the credentials of the
// machine or does not stand for one host.
func isForbidden(a netip.Addr) bool {
	return a.IsUnspecified() || a.IsMulticast() || containsAddr(metadata, a) || a == broadcast
}

// formsOf returns an address and the IPv4 addresses that are embedded in it. A translator on the route would call the
// embedded address, so every rule must check all forms.
func formsOf(a netip.Addr) []netip.Addr {
	a = a.WithZone("").Unmap() // a prefix contains no address with a zone
	forms := []netip.Addr{a}
	if a.Is4() {
		return forms
	}
	b := a.As16()
	v4 := func(i int) { forms = append(forms, netip.AddrFrom4([4]byte(b[i:i+4]))) }
	switch {
	case compatible.Contains(a), nat64.Contains(a):
		v4(12)
	case nat64Local.Contains(a):
		// RFC 6052 puts the address behind a prefix of 48, 56, 64 or 96 bits; byte 8 is skipped.
		forms = append(forms,
			netip.AddrFrom4([4]byte{b[6], b[7], b[9], b[10]}), netip.AddrFrom4([4]byte{b[7], b[9], b[10], b[11]}))
		v4(9)
		v4(12)
	case sixToFour.Contains(a):
		v4(2)
	case teredo.Contains(a):
		v4(4) // the address of the server; that of the client is stored inverted
		forms = append(forms, netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}))
	}
	if isatap(b) {
		v4(12)
	}
	return forms
}

// isatap reports whether an IPv4 address is embedded in the lower half of an address by RFC 5214.
func isatap(b [16]byte) bool {
	return b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

func anyOf(forms []netip.Addr, is func(netip.Addr) bool) bool {
	for _, a := range forms {
		if is(a) {
			return true
		}
	}
	return false
}

func containsAddr(prefixes []netip.Prefix, a netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

//nolint:gochecknoglobals // tables of the IANA registries of special-purpose addresses
var (
	global6    = netip.MustParsePrefix("2000::/3")
	compatible = netip.MustParsePrefix("::/96")
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	teredo     = netip.MustParsePrefix("2001::/32")
	broadcast  = netip.MustParseAddr("255.255.255.255")

	inner4 = prefixes(
		"0.0.0.0/8",        // this network; Linux connects 0.0.0.0 to itself
		"10.0.0.0/8",       // private
		"100.64.0.0/10",    // carrier-grade NAT
		"127.0.0.0/8",      // loopback
		"168.63.129.16/32", // Azure's WireServer
		"169.254.0.0/16",   // link-local
		"172.16.0.0/12",    // private
		"192.0.0.0/24",     // protocol assignments
		"192.0.2.0/24",     // documentation
		"192.88.99.0/24",   // 6to4 relays
		"192.168.0.0/16",   // private
		"198.18.0.0/15",    // benchmarking
		"198.51.100.0/24",  // documentation
		"203.0.113.0/24",   // documentation
		"224.0.0.0/4",      // multicast
		"240.0.0.0/4",      // the former class E, and broadcast
	)
	inner6 = prefixes(
		"2001::/23",     // protocol assignments: Teredo, ORCHID, benchmarking
		"2001:db8::/32", // documentation
		"2002::/16",     // 6to4
		"3fff::/20",     // documentation
	)
	// metadata holds the addresses at which clouds give programs the credentials of their machine.
	metadata = prefixes(
		"169.254.169.254/32", // AWS, Azure, GCP, OpenStack and others
		"169.254.170.2/32",   // AWS ECS
		"169.254.170.23/32",  // AWS EKS
		"fd00:ec2::254/128",  // AWS
		"fd00:ec2::23/128",   // AWS EKS
		"fd20:ce::254/128",   // GCP
		"168.63.129.16/32",   // Azure's WireServer
		"100.100.100.200/32", // Alibaba
		"192.0.0.192/32",     // Oracle
	)
)
