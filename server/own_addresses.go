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

	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/internal/machine"

	"github.com/dvt-engine/dvt/store/postgres"
)

const (
	ownAddressesFor = 30 * time.Second // how long resolved addresses are used
	resolveOwn      = 2 * time.Second  // time limit for resolving all targets, which happens concurrently
)

// ownAddresses are the configured addresses of the parts of this installation. Programs of steps may never connect to
// them, regardless of other rules. It is safe for concurrent use.
type ownAddresses struct {
	targets []string // host:port; an empty host is this machine
	engine  string   // of targets: Temporal
	log     *slog.Logger

	refresh sync.Mutex // held by the one caller that resolves

	mu       sync.Mutex
	resolved map[string][]netip.Addr // by target; the last successful result; each map is immutable
	at       time.Time
}

func newOwnAddresses(c *config.Config, log *slog.Logger) *ownAddresses {
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
	if add(c.Temporal[strings.LastIndexByte(c.Temporal, '/')+1:], "7233"); len(o.targets) > 0 {
		o.engine = o.targets[0]
	}
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
	if c.Dev {
		add(c.Listen, "")
		if c.TemporalUIPort != 0 {
			add(net.JoinHostPort("127.0.0.1", strconv.Itoa(c.TemporalUIPort)), "")
		}
	}
	return o
}

// contains reports whether an address belongs to the installation. When a part listens on this machine, every address
// of the machine counts. So does every port on which this process or a descendant listens. On another machine that runs
// Temporal, every port counts, because Temporal serves its API on several.
func (o *ownAddresses) contains(a netip.AddrPort) bool {
	addr := a.Addr().WithZone("").Unmap()
	local := isLocal(addr)
	if local && machine.ListensHere(a.Port()) {
		return true
	}
	for target, addresses := range o.addresses() {
		if target == o.engine && !local && slices.Contains(addresses, addr) {
			return true
		}
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

// addresses returns the resolved targets, and resolves them again after ownAddressesFor. One caller resolves, and the
// others use the previous addresses meanwhile: a slow name server must not stop the connections of all steps. Only the
// first resolution makes all callers wait. A name that cannot be resolved keeps its previous addresses.
func (o *ownAddresses) addresses() map[string][]netip.Addr {
	before, at := o.current()
	if !at.IsZero() && time.Since(at) < ownAddressesFor {
		return before
	}
	if at.IsZero() {
		o.refresh.Lock()
	} else if !o.refresh.TryLock() {
		return before
	}
	defer o.refresh.Unlock()
	if again, now := o.current(); now != at { // another caller has resolved meanwhile
		return again
	}
	next := o.resolve(before)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.resolved, o.at = next, time.Now()
	return next
}

func (o *ownAddresses) current() (map[string][]netip.Addr, time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.resolved, o.at
}

// resolve resolves all targets concurrently. A target that cannot be resolved gets its addresses from before.
func (o *ownAddresses) resolve(before map[string][]netip.Addr) map[string][]netip.Addr {
	ctx, cancel := context.WithTimeout(context.Background(), resolveOwn)
	defer cancel()
	results := make([][]netip.Addr, len(o.targets))
	var all sync.WaitGroup
	for i, target := range o.targets {
		host, _, _ := net.SplitHostPort(target)
		if host == "" {
			results[i] = []netip.Addr{netip.IPv4Unspecified()}
			continue
		}
		all.Go(func() {
			found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
			if err != nil {
				o.log.Warn("an address of this installation cannot be resolved; steps stay blocked from its last known addresses",
					slog.String("address", target), slog.Any("error", err))
				results[i] = before[target]
				return
			}
			for k, a := range found {
				found[k] = a.WithZone("").Unmap()
			}
			results[i] = found
		})
	}
	all.Wait()
	next := make(map[string][]netip.Addr, len(o.targets))
	for i, target := range o.targets {
		next[target] = results[i]
	}
	return next
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
