package secrettest

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Fault is what goes wrong between a provider and its system.
type Fault string

// Faults of a network and of proxies in it.
const (
	None       Fault = ""
	Silent     Fault = "silent"     // requests are accepted and never answered
	Huge       Fault = "huge"       // an answer of 4 MiB
	Malformed  Fault = "malformed"  // an answer that is no JSON and contains a secret
	Redirected Fault = "redirected" // to another host, which gets what the client sends on
	Limited    Fault = "limited"    // status 429, with a pause of one second, once
	Broken     Fault = "broken"     // status 500, whose text contains a secret
)

// Network is a proxy before a system. It changes nothing of requests and answers until Set.
type Network struct {
	URL string

	mu      sync.Mutex
	fault   Fault
	strayed int // requests that followed a redirect
}

// NewNetwork returns a proxy of the system at an address, which ends with the test.
func NewNetwork(t testing.TB, address string) *Network {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	n := &Network{}
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.strayed++
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(stranger.Close)
	ended := make(chan struct{})
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host
		r.Out.Host = r.In.Host // signatures contain it
	}, ErrorLog: log.New(io.Discard, "", 0)}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n.next() {
		case Silent:
			select {
			case <-r.Context().Done():
			case <-ended:
			}
		case Huge:
			_, _ = io.WriteString(w, `{"value":"`+strings.Repeat("x", 4<<20)+`"}`)
		case Malformed:
			_, _ = io.WriteString(w, `{"value": `+canary)
		case Redirected:
			http.Redirect(w, r, stranger.URL+r.URL.Path, http.StatusTemporaryRedirect)
		case Limited:
			w.Header().Set("Retry-After", "1")
			http.Error(w, canary, http.StatusTooManyRequests)
		case Broken:
			http.Error(w, canary, http.StatusInternalServerError)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(front.Close)
	t.Cleanup(func() { close(ended) })
	n.URL = front.URL
	return n
}

// Set lets a fault begin, or end with None.
func (n *Network) Set(f Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault = f
}

func (n *Network) next() Fault {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.fault
	if f == Limited {
		n.fault = None
	}
	return f
}

// Strayed returns how many requests followed a redirect to another host.
func (n *Network) Strayed() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.strayed
}
