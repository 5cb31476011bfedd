package server

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/store/postgres"
)

const (
	ownAddressesFor = 30 * time.Second // that resolved names are used
	resolveOwn      = 2 * time.Second
)

// ownAddresses are where the parts of this installation listen that this process is configured with. No program of a step
// may connect to them, whatever other rules say. Safe for concurrent use.
type ownAddresses struct {
	targets []string // host:port; an empty host is this machine
	log     *slog.Logger

	mu       sync.Mutex
	resolved map[string][]netip.Addr // by target; what it resolved to last
	at       time.Time
}

func newOwnAddresses(c *Config, log *slog.Logger) *ownAddresses {
	o := &ownAddresses{log: log, resolved: map[string][]netip.Addr{}}
	add := func(hostPort, port string) {
		host, p, err := net.SplitHostPort(hostPort)
		if err != nil {
			host, p = strings.Trim(hostPort, "[]"), port
		}
		if hostPort != "" && p != "" && p != "0" {
			o.targets = append(o.targets, net.JoinHostPort(host, p))
		}
	}
	add(c.Temporal[strings.LastIndexByte(c.Temporal, '/')+1:], "7233")
	for _, address := range []struct{ url, port string }{{c.Server, "80"}, {c.Redis, "6379"}} {
		if u, err := url.Parse(address.url); err == nil && u.Host != "" {
			port := address.port
			if u.Scheme == "https" {
				port = "443"
			}
			add(u.Host, port)
		}
	}
	if strings.HasPrefix(c.Store, "postgres") {
		for _, address := range postgres.Addresses(c.Store) {
			add(address, "")
		}
	}
	add(c.MetricsListen, "")
	if c.dev {
		add(c.Listen, "")
		if c.TemporalUIPort != 0 {
			add(net.JoinHostPort("127.0.0.1", strconv.Itoa(c.TemporalUIPort)), "")
		}
	}
	return o
}

// contains reports whether an address is one of them. A part that listens on this machine is refused by each address of
// the machine, and so is every port on which this process or one that it started listens.
func (o *ownAddresses) contains(a netip.AddrPort) bool {
	addr := a.Addr().WithZone("").Unmap()
	local := isLocal(addr)
	if local && listensHere(a.Port()) {
		return true
	}
	for target, addresses := range o.addresses() {
		_, port, _ := net.SplitHostPort(target)
		if port != strconv.Itoa(int(a.Port())) {
			continue
		}
		if slices.Contains(addresses, addr) || local && slices.ContainsFunc(addresses, isLocal) {
			return true
		}
	}
	return false
}

// addresses resolves the targets again when that was long ago. A name that cannot be resolved keeps its addresses.
func (o *ownAddresses) addresses() map[string][]netip.Addr {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.at.IsZero() && time.Since(o.at) < ownAddressesFor {
		return o.resolved
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveOwn)
	defer cancel()
	next := make(map[string][]netip.Addr, len(o.targets))
	for _, target := range o.targets {
		host, _, _ := net.SplitHostPort(target)
		if host == "" {
			next[target] = []netip.Addr{netip.IPv4Unspecified()}
			continue
		}
		found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			o.log.Warn("an address of this installation cannot be resolved; steps are kept from the addresses that it had",
				slog.String("address", target), slog.Any("error", err))
			found = o.resolved[target]
		}
		for i, a := range found {
			found[i] = a.WithZone("").Unmap()
		}
		next[target] = found
	}
	o.resolved, o.at = next, time.Now()
	return o.resolved
}

// isLocal reports whether an address leads to this machine.
func isLocal(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	own, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(own, func(n net.Addr) bool {
		p, err := netip.ParsePrefix(n.String())
		return err == nil && p.Addr().WithZone("").Unmap() == a
	})
}
