package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Everyone is the key of the rules for all tenants.
const Everyone = "*"

// Limits of the settings.
const (
	MaxTenants = 1_000
	MaxRules   = 200 // of one list
)

// Settings are the rules of an installation. The zero value permits public addresses to all.
type Settings struct {
	// AllowPrivate permits private networks and loopback too. Addresses of cloud metadata stay refused.
	AllowPrivate bool
	// Rules by tenant id; the rules of Everyone apply to all tenants.
	Rules map[string]Rules
	// Own reports whether an address belongs to the installation itself. No call reaches such an address, whatever the
	// other settings permit. nil means that none does. It may be called from several goroutines at once.
	Own func(netip.AddrPort) bool
}

// Rules are hosts (hooks.example.com, *.example.com, * for every name), addresses and networks (10.1.0.0/16).
//
// Deny wins over Allow, and the Deny of Everyone applies to each tenant. A tenant with an allow list may call only the
// hosts and networks in it; a tenant without one has the list of Everyone. An allowed name permits only its public
// addresses, because a third party may control the name. An allowed network also permits private addresses.
type Rules struct {
	Allow []string `json:"allow"`
	Deny  []string `json:"deny"`
}

// hostPattern matches a name or *.name. International names are written in their ASCII form.
var hostPattern = regexp.MustCompile(`^(\*\.)?[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)

type list struct{ allow, deny matcher }

type matcher struct {
	exact    map[string]bool
	suffixes []string // with a leading dot
	any      bool
	prefixes []netip.Prefix
}

func (s Settings) compile() (map[string]list, error) {
	if len(s.Rules) > MaxTenants {
		return nil, fmt.Errorf("at most %d tenants may have rules, not %d", MaxTenants, len(s.Rules))
	}
	out := make(map[string]list, len(s.Rules))
	var errs []error
	for tenant, r := range s.Rules {
		allow, err := compile(r.Allow)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: allow: %w", tenant, err))
		}
		deny, err := compile(r.Deny)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: deny: %w", tenant, err))
		}
		out[tenant] = list{allow: allow, deny: deny}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return out, errors.Join(errs...)
}

func compile(rules []string) (m matcher, err error) {
	if len(rules) > MaxRules {
		return m, fmt.Errorf("a list has at most %d entries, not %d", MaxRules, len(rules))
	}
	m.exact = map[string]bool{}
	var errs []error
	for _, rule := range rules {
		text := strings.ToLower(strings.TrimSuffix(rule, "."))
		if p, ok := network(text); ok {
			m.prefixes = append(m.prefixes, p)
			continue
		}
		switch {
		case text == "*":
			m.any = true
		case len(text) > 255 || !hostPattern.MatchString(text) || endsWithNumber(text):
			errs = append(errs, fmt.Errorf(
				"%q is no host, address or network: write hooks.example.com, *.example.com, 10.1.2.3 or 10.1.0.0/16", rule))
		case strings.HasPrefix(text, "*."):
			m.suffixes = append(m.suffixes, text[1:])
		default:
			m.exact[text] = true
		}
	}
	return m, errors.Join(errs...)
}

// network parses an address or a network. It rejects a network with bits behind the mask, because that is probably a
// mistake.
func network(text string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Masked() != p || p.Addr().Is4In6() {
		return netip.Prefix{}, false
	}
	return p, true
}

// endsWithNumber reports whether the last label is a number. Such a text is a malformed address, not a name.
func endsWithNumber(text string) bool {
	last := text[strings.LastIndexByte(text, '.')+1:]
	return strings.Trim(last, "0123456789") == ""
}

func (m matcher) empty() bool {
	return !m.any && len(m.exact) == 0 && len(m.suffixes) == 0 && len(m.prefixes) == 0
}

func (m matcher) names(host string) bool {
	return m.any || m.exact[host] || slices.ContainsFunc(m.suffixes,
		func(s string) bool { return strings.HasSuffix(host, s) })
}

// covers reports whether a network of the list holds at least one of the forms. That suffices to deny an address.
func (m matcher) covers(forms []netip.Addr) bool {
	return anyOf(forms, func(a netip.Addr) bool { return containsAddr(m.prefixes, a) })
}

// admits reports whether a network of the list permits an address. The address itself must be in a network of the list.
// An embedded address must be public or in a network of the list.
func (m matcher) admits(forms []netip.Addr) bool {
	for i, a := range forms {
		if !containsAddr(m.prefixes, a) && (i == 0 || isInner(a)) {
			return false
		}
	}
	return true
}
