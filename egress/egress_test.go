package egress_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/egress"
)

var timeouts = egress.Timeouts{Dial: 5 * time.Second, Answer: 10 * time.Second}

func newGuard(t *testing.T, s egress.Settings) *egress.Guard {
	t.Helper()
	g, err := egress.New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// get calls an address for a tenant and returns the status or the error of the transport.
func get(t *testing.T, g *egress.Guard, tenant, url string, change ...func(*http.Request)) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(egress.WithTenant(t.Context(), tenant), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(r)
	}
	res, err := g.Transport(timeouts).RoundTrip(r)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// resolver returns a resolver that answers the nth query with the addresses of answer; an empty answer means that the
// name does not exist. asked counts the queries.
func resolver(t *testing.T, answer func(name string, n int) []string) (r *net.Resolver, asked *atomic.Int64) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	t.Cleanup(func() { _ = conn.Close(); done.Wait() })
	asked = &atomic.Int64{}
	done.Go(func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			query := buf[:n]
			var labels []string
			at := 12
			for at < n && query[at] != 0 {
				labels = append(labels, string(query[at+1:at+1+int(query[at])]))
				at += 1 + int(query[at])
			}
			isA := query[at+2] == 1
			count := 0
			if isA {
				count = int(asked.Add(1))
			}
			addresses := answer(strings.Join(labels, "."), count)
			reply := append(bytes.Clone(query[:2]), 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
			reply = append(reply, query[12:at+5]...)
			if len(addresses) == 0 {
				reply[3] |= 3 // the name does not exist
			}
			for _, a := range addresses {
				if isA {
					reply[7]++
					reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
					reply = append(reply, net.ParseIP(a).To4()...)
				}
			}
			_, _ = conn.WriteTo(reply, from)
		}
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}, asked
}

func serve(t *testing.T) (port string, calls *atomic.Int64) {
	t.Helper()
	calls = &atomic.Int64{}
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	t.Cleanup(srv.Close)
	_, port, _ = net.SplitHostPort(srv.Listener.Addr().String())
	return port, calls
}

// contract: T225
func TestTransport_JudgesEachAddressWhenItIsDialled(t *testing.T) {
	t.Parallel()
	port, calls := serve(t)
	r, _ := resolver(t, func(name string, n int) []string {
		switch {
		case name == "inner.example.com":
			return []string{"127.0.0.1"}
		case name == "rebinds.example.com" && n == 1:
			return []string{"127.0.0.2"} // permitted by the rules below
		case name == "rebinds.example.com":
			return []string{"127.0.0.1"}
		case name == "two.example.com":
			return []string{"10.255.255.1", "127.0.0.1"}
		}
		return nil
	})
	g := egress.WithResolver(newGuard(t, egress.Settings{}), r)
	var texts []string
	for _, name := range []string{"inner.example.com", "two.example.com", "missing.example.com", "127.0.0.1",
		"localhost"} {
		_, err := get(t, g, "acme", "http://"+name+":"+port)
		if !errors.Is(err, egress.ErrRefused) {
			t.Errorf("%s: error %v, want ErrRefused", name, err)
			continue
		}
		texts = append(texts, err.Error())
	}
	for _, text := range texts {
		if text != egress.ErrRefused.Error() {
			t.Errorf("a refusal says %q, want the fixed sentence %q", text, egress.ErrRefused)
		}
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("%d calls reached the inner server, want 0", n)
	}
}

// No setting permits a call to the installation itself.
func TestTransport_RefusesTheInstallation(t *testing.T) {
	t.Parallel()
	own, calls := serve(t)
	other, _ := serve(t)
	g, err := egress.New(egress.Settings{
		AllowPrivate: true, Rules: map[string]egress.Rules{egress.Everyone: {Allow: []string{"127.0.0.0/8"}}},
		Own: func(a netip.AddrPort) bool { return strconv.Itoa(int(a.Port())) == own },
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: g.Transport(egress.Timeouts{})}
	if _, err := c.Get("http://127.0.0.1:" + own); !errors.Is(err, egress.ErrRefused) || calls.Load() > 0 {
		t.Errorf("a call to the installation: %v after %d calls, want ErrRefused and none", err, calls.Load())
	}
	res, err := c.Get("http://127.0.0.1:" + other)
	if err != nil {
		t.Fatalf("a call beside the installation: %v", err)
	}
	_ = res.Body.Close()
}

func TestTransport_ASecondAnswerOfTheResolverIsJudgedToo(t *testing.T) {
	t.Parallel()
	port, calls := serve(t) // listens on 127.0.0.1
	r, asked := resolver(t, func(_ string, n int) []string {
		if n <= 1 {
			return []string{"127.0.0.1"}
		}
		return []string{"10.0.0.1"}
	})
	g := egress.WithResolver(
		newGuard(t, egress.Settings{Rules: map[string]egress.Rules{"acme": {Allow: []string{"127.0.0.1"}}}}), r)
	if status, err := get(t, g, "acme", "http://rebinds.example.com:"+port); err != nil || status != http.StatusOK {
		t.Fatalf("first call: status %d, error %v; want 200", status, err)
	}
	if _, err := get(t, g, "acme", "http://rebinds.example.com:"+port); !errors.Is(err, egress.ErrRefused) {
		t.Errorf("second call: error %v, want ErrRefused", err)
	}
	if asked.Load() < 2 || calls.Load() != 1 {
		t.Errorf("%d queries and %d calls, want at least 2 queries and 1 call", asked.Load(), calls.Load())
	}
}

func TestTransport_ADeniedNameIsNeverResolved(t *testing.T) {
	t.Parallel()
	r, asked := resolver(t, func(string, int) []string { return []string{"127.0.0.1"} })
	for name, s := range map[string]egress.Settings{
		"denied":          {Rules: map[string]egress.Rules{"*": {Deny: []string{"*.example.com"}}}},
		"not on the list": {Rules: map[string]egress.Rules{"acme": {Allow: []string{"hooks.example.org"}}}},
		"denied, private allowed": {AllowPrivate: true, Rules: map[string]egress.Rules{
			"acme": {Deny: []string{"secret.example.com"}}}},
	} {
		if _, err := get(t, egress.WithResolver(newGuard(t, s), r), "acme", "http://SECRET.example.com.:1"); !errors.Is(err,
			egress.ErrRefused) {
			t.Errorf("%s: error %v, want ErrRefused", name, err)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the resolver was asked %d times, want 0", n)
	}
}

// A connection of one tenant must not carry the request of another, whose rules refuse the address.
func TestTransport_NoConnectionIsSharedBetweenTenants(t *testing.T) {
	t.Parallel()
	port, calls := serve(t)
	g := newGuard(t, egress.Settings{AllowPrivate: true,
		Rules: map[string]egress.Rules{"globex": {Deny: []string{"127.0.0.0/8"}}}})
	next := g.Transport(timeouts)
	for tenant, want := range map[string]error{"acme": nil, "globex": egress.ErrRefused} {
		r, _ := http.NewRequestWithContext(egress.WithTenant(t.Context(), tenant), http.MethodGet, "http://127.0.0.1:"+port,
			http.NoBody)
		res, err := next.RoundTrip(r)
		if err == nil {
			_ = res.Body.Close()
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", tenant, err, want)
		}
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

func TestTransport_TheHostHeaderIsJudged(t *testing.T) {
	t.Parallel()
	port, calls := serve(t)
	g := newGuard(t, egress.Settings{AllowPrivate: true,
		Rules: map[string]egress.Rules{"acme": {Deny: []string{"bank.example.com"}}}})
	for host, want := range map[string]error{"bank.example.com": egress.ErrRefused,
		"BANK.example.com:443": egress.ErrRefused, "ｂank.example.com": egress.ErrRefused, "shop.example.com": nil} {
		if _, err := get(t, g, "acme", "http://127.0.0.1:"+port, func(r *http.Request) { r.Host = host }); !errors.Is(err,
			want) {
			t.Errorf("Host %s: error %v, want %v", host, err, want)
		}
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

func TestReason_HoldsNoAddress(t *testing.T) {
	t.Parallel()
	closed, _ := net.Listen("tcp", "127.0.0.1:0")
	refused := closed.Addr().String()
	_ = closed.Close()
	r, _ := resolver(t, func(string, int) []string { return nil })
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = nil
	plain, _ := serve(t)
	g := egress.WithResolver(newGuard(t, egress.Settings{AllowPrivate: true}), r)
	for url, want := range map[string]string{
		"http://" + refused:             "the connection was refused",
		"http://missing.example.com:1":  "the name could not be resolved",
		secure.URL:                      "the certificate is not valid for this host",
		"https://127.0.0.1:" + plain:    "the TLS handshake failed",
		"http://169.254.169.254/latest": egress.ErrRefused.Error(),
	} {
		_, err := get(t, g, "acme", url)
		if err == nil {
			t.Errorf("%s: no error", url)
			continue
		}
		if got := egress.Reason(err); got != want {
			t.Errorf("%s: reason %q, want %q (error %v)", url, got, want, err)
		}
	}
	for _, err := range []error{
		&net.OpError{Op: "dial", Err: errors.New("10.1.2.3")}, &net.DNSError{Err: "x", Name: "db.inner", Server: "10.0.0.53"},
		errors.New("10.1.2.3"),
		tls.AlertError(40), fmt.Errorf("read 10.1.2.3: %w", context.DeadlineExceeded),
	} {
		if got := egress.Reason(err); strings.ContainsAny(got, "0123456789") || strings.Contains(got, "inner") {
			t.Errorf("reason %q of %v holds an address", got, err)
		}
	}
}

func TestGuard_TheLogHoldsTheDetails(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	g, err := egress.New(egress.Settings{}, slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = get(t, g, "acme", "http://127.0.0.1:81/path-secret")
	for _, want := range []string{"tenantId=acme", "host=127.0.0.1", "address=127.0.0.1:81"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %s: %s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "path-secret") {
		t.Errorf("the log holds the path: %s", out.String())
	}
}
