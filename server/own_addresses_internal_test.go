package server

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/dvt-engine/dvt/server/config"
)

func TestOwnAddresses_ContainTheServicesOfTheInstallation(t *testing.T) {
	t.Parallel()
	o := newOwnAddresses(&config.Config{
		Temporal: "192.0.2.7:7233", Server: "https://192.0.2.8", Store: "postgres://dvt@192.0.2.9:5433/dvt",
		Redis: "rediss://192.0.2.10/0",
	}, slog.New(slog.DiscardHandler))
	for address, want := range map[string]bool{
		"192.0.2.7:7233": true, "192.0.2.7:8233": true, "[::ffff:192.0.2.7]:7243": true,
		"192.0.2.8:443": true, "192.0.2.8:8443": false, "192.0.2.9:5433": true, "192.0.2.9:5432": false,
		"192.0.2.10:6379": true, "192.0.2.11:7233": false,
	} {
		if got := o.contains(netip.MustParseAddrPort(address)); got != want {
			t.Errorf("contains(%s) is %t, want %t", address, got, want)
		}
	}
	local := newOwnAddresses(&config.Config{Temporal: "127.0.0.1:7233"}, slog.New(slog.DiscardHandler))
	for address, want := range map[string]bool{"127.0.0.1:7233": true, "127.0.0.2:7233": true, "127.0.0.1:9": false} {
		if got := local.contains(netip.MustParseAddrPort(address)); got != want {
			t.Errorf("with Temporal on this machine contains(%s) is %t, want %t", address, got, want)
		}
	}
}
