package egress_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/egress"
)

// insideAddresses lead into the network or the machine of the caller, directly or through a translator.
var insideAddresses = strings.Fields(`
	0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.254 169.254.0.1 172.16.0.1 172.31.255.255
	192.0.0.1 192.0.0.170 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1
	224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255
	:: ::1 ::2 ::7f00:1 ::a9fe:a9fe ::ffff:10.0.0.1 ::ffff:127.0.0.1 ::ffff:0:10.0.0.1
	64:ff9b::a9fe:a9fe 64:ff9b::7f00:1 64:ff9b::5db8:d822 64:ff9b:1::a00:1 100::1 400::1
	2001::1 2001:0:7f00:1::1 2001:2::1 2001:10::1 2001:db8::1 2002:7f00:1::1 2002:a9fe:a9fe::1 2002:5db8:d822::1 3fff::1
	4000::1 5f00::1 fc00::1 fd00::1 fd12:3456::1 fe80::1 febf::1 fec0::1 feff::1 ff02::1 ff0e::1
	fe80::1%eth0 2002:7f00:1::1%eth0 ::1%lo
`)

// metadataAddresses return the credentials of a machine in some cloud.
var metadataAddresses = strings.Fields(`
	169.254.169.254 169.254.170.2 169.254.170.23 168.63.129.16 100.100.100.200 192.0.0.192
	fd00:ec2::254 fd00:ec2::254%eth0 fd00:ec2::23 fd20:ce::254
	::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 64:ff9b:1::a9fe:a9fe 64:ff9b:1:a9fe:a9:fe00:: 2002:a9fe:a9fe::1 ::a9fe:a9fe
	2001:0:a9fe:a9fe:: 2001:0:5db8:d822::5601:5601 2a00::5efe:a9fe:a9fe 2a00::200:5efe:a9fe:a9fe
`)

var publicAddresses = strings.Fields(`
	1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0 192.0.1.0
	192.88.98.1 198.17.255.255 198.20.0.0 223.255.255.255 ::ffff:93.184.216.34
	2001:200::1 2001:4860:4860::8888 2003::1 2400:cb00::1 2606:4700::1111 2a00:1450:4001::1 3ffe::1
`)

// contract: T225
func TestGuard_RefusesEveryInsideAddress(t *testing.T) {
	t.Parallel()
	g := newGuard(t, egress.Settings{})
	for _, a := range append(insideAddresses, metadataAddresses...) {
		if g.Permits("acme", "example.com", a) {
			t.Errorf("%s is permitted, want it refused", a)
		}
	}
	for _, a := range publicAddresses {
		if !g.Permits("acme", "example.com", a) {
			t.Errorf("%s is refused, want it permitted", a)
		}
	}
}

func TestGuard_AllowPrivateOpensNoMetadataAddress(t *testing.T) {
	t.Parallel()
	g := newGuard(t, egress.Settings{
		AllowPrivate: true, Rules: map[string]egress.Rules{"acme": {Allow: []string{"0.0.0.0/0", "::/0", "*"}}},
	})
	for _, tenant := range []string{"acme", "globex"} {
		for _, a := range metadataAddresses {
			if g.Permits(tenant, "example.com", a) {
				t.Errorf("%s is permitted to %s, want it refused", a, tenant)
			}
		}
		for _, a := range []string{"127.0.0.1", "10.0.0.1", "fd00::1", "93.184.216.34"} {
			if !g.Permits(tenant, "example.com", a) {
				t.Errorf("%s is refused to %s, want it permitted", a, tenant)
			}
		}
	}
}

func TestGuard_RulesOfTenants(t *testing.T) {
	t.Parallel()
	const open, private = "93.184.216.34", "10.1.2.3"
	g := newGuard(t, egress.Settings{Rules: map[string]egress.Rules{
		egress.Everyone: {Deny: []string{"*.evil.example", "93.184.217.0/24"}},
		"names":         {Allow: []string{"hooks.example.com", "*.hooks.example.com"}},
		"networks":      {Allow: []string{"10.1.0.0/16", "64:ff9b::/96"}},
		"both": {
			Allow: []string{"hooks.example.com", "10.1.0.0/16"}, Deny: []string{"10.1.2.0/24", "bad.hooks.example.com"},
		},
		"none": {Deny: []string{"*"}},
	}})
	for _, c := range []struct {
		tenant, host, address string
		want                  bool
	}{
		{"other", "example.com", open, true},
		{"other", "example.com", private, false},
		{"other", "a.evil.example", open, false},
		{"other", "evil.example", open, true},
		{"other", "example.com", "93.184.217.9", false},
		{"other", "example.com", "::ffff:93.184.217.9", false},
		{"names", "hooks.example.com", open, true},
		{"names", "a.b.hooks.example.com", open, true},
		{"names", "xhooks.example.com", open, false},
		{"names", "example.com", open, false},
		{"names", open, open, false},
		{"names", "hooks.example.com", private, false}, // a name permits public addresses only
		{"names", "hooks.example.com", "93.184.217.9", false},
		{"networks", "anything.example", private, true},
		{"networks", private, private, true},
		{"networks", "anything.example", open, false},
		{"networks", "a.evil.example", private, false},
		{"networks", "anything.example", "64:ff9b::5db8:d822", true}, // a NAT64 network, to a public address
		{"networks", "anything.example", "64:ff9b::a01:203", true},   // to one that is allowed itself
		{"networks", "anything.example", "64:ff9b::a02:203", false},  // to a private one
		{"both", "hooks.example.com", open, true},
		{"both", "x.example.com", "10.1.3.1", true},
		{"both", "x.example.com", private, false}, // a deny wins
		{"both", "bad.hooks.example.com", "10.1.3.1", false},
		{"none", "example.com", open, false},
	} {
		if got := g.Permits(c.tenant, c.host, c.address); got != c.want {
			t.Errorf("%s calls %s at %s: permitted is %t, want %t", c.tenant, c.host, c.address, got, c.want)
		}
	}
}

func TestNew_NamesEveryRuleThatIsWrong(t *testing.T) {
	t.Parallel()
	bad := []string{
		"", "http://x", "*x.example", "a..b", "10.0.0.1/8", "300.1.1.1", "10.1", "0x7f.1/8", "ü.example", "a b",
		"fe80::1%eth0", "*.*.example",
		strings.Repeat("a", 256),
	}
	_, err := egress.New(egress.Settings{Rules: map[string]egress.Rules{"acme": {Allow: bad[:6], Deny: bad[6:]}}}, nil)
	if err == nil {
		t.Fatal("New accepted wrong rules, want an error")
	}
	for _, rule := range bad {
		if !strings.Contains(err.Error(), fmt.Sprintf("%q is no host", rule)) {
			t.Errorf("the error does not name %q: %v", rule, err)
		}
	}
	long := make([]string, egress.MaxRules+1)
	for i := range long {
		long[i] = fmt.Sprintf("h%d.example", i)
	}
	if _, err := egress.New(egress.Settings{Rules: map[string]egress.Rules{"acme": {Deny: long}}}, nil); err == nil {
		t.Errorf("a list of %d rules is accepted, want an error", len(long))
	}
	many := map[string]egress.Rules{}
	for i := range egress.MaxTenants + 1 {
		many[fmt.Sprintf("t%d", i)] = egress.Rules{}
	}
	if _, err := egress.New(egress.Settings{Rules: many}, nil); err == nil {
		t.Errorf("rules of %d tenants are accepted, want an error", len(many))
	}
}
