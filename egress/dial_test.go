package egress_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/egress"
)

func TestDialContext_JudgesTCPAndUDP(t *testing.T) {
	t.Parallel()
	tcp, calls := serve(t)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	addresses := map[string]string{"tcp": "127.0.0.1:" + tcp, "udp": udp.LocalAddr().String()}
	public := newGuard(t, egress.Settings{})
	denied := newGuard(t, egress.Settings{AllowPrivate: true,
		Rules: map[string]egress.Rules{egress.Everyone: {Deny: []string{"127.0.0.0/8"}}}})
	var none *egress.Guard
	owned := newGuard(t, egress.Settings{Own: func(netip.AddrPort) bool { return true }})
	for network, address := range addresses {
		for name, g := range map[string]*egress.Guard{"public": public, "no guard": nil, "denied": denied.WithPrivate(),
			"own": owned.WithPrivate()} {
			if conn, err := g.DialContext(t.Context(), network, address); !errors.Is(err, egress.ErrRefused) {
				t.Errorf("%s over %s: %v and %v, want ErrRefused", name, network, conn, err)
			}
		}
		for name, g := range map[string]*egress.Guard{"public": public.WithPrivate(), "no guard": none.WithPrivate()} {
			conn, err := g.DialContext(t.Context(), network, address)
			if err != nil {
				t.Errorf("%s with private addresses over %s: %v", name, network, err)
				continue
			}
			conn.Close()
		}
	}
	if public.Private() || calls.Load() != 0 {
		t.Errorf("WithPrivate changed the guard: private %t", public.Private())
	}
	_, err = public.WithPrivate().DialContext(t.Context(), "udp", "169.254.169.254:53")
	if !errors.Is(err, egress.ErrRefused) {
		t.Errorf("metadata with private addresses: %v, want ErrRefused", err)
	}
}

func TestTransport_KeepsConnectionsOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	var connections atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	g := newGuard(t, egress.Settings{AllowPrivate: true})
	for idle, want := range map[time.Duration]int64{0: 3, time.Minute: 1} {
		connections.Store(0)
		client := &http.Client{Transport: g.Transport(egress.Timeouts{Dial: time.Second, Idle: idle})}
		for range 3 {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			res, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
		}
		client.CloseIdleConnections()
		if n := connections.Load(); n != want {
			t.Errorf("3 calls with idle connections for %s took %d connections, want %d", idle, n, want)
		}
	}
}
