package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/oauth2"

	"github.com/dvt-engine/dvt/authz"
)

const (
	fetchTimeout = 5 * time.Second
	fetchGap     = 2 * time.Second // least time between two fetches because of an unknown key
	failureGap   = 5 * time.Second // least time after a failed fetch
	maxBody      = 1 << 20         // bytes of an issuer's answer
	maxKeys      = 100
	minRSABits   = 2048
)

// keys caches the keys and endpoints that an issuer publishes. It is safe for concurrent use.
type keys struct {
	issuer string
	client *http.Client
	now    func() time.Time
	turn   chan struct{} // held during a fetch
	known  atomic.Pointer[published]
	last   attempt // guarded by turn
}

// attempt is the last attempt to fetch keys.
type attempt struct {
	began, ended time.Time
	err          error
}

// published is the result of one fetch. It is never changed.
type published struct {
	generation int64
	keys       []jose.JSONWebKey
	endpoint   oauth2.Endpoint
	inHeader   bool // the client sends its secret in the header, not in the body
}

func newKeys(issuer string, client *http.Client, now func() time.Time) *keys {
	k := &keys{issuer: issuer, client: client, now: now, turn: make(chan struct{}, 1)}
	k.known.Store(&published{})
	return k
}

// generation grows when the keys change.
func (k *keys) generation() int64 { return k.known.Load().generation }

// byID returns the keys that may have made a signature: those with the id, or all if the id is empty. If there is none
// and mayAsk is true, it fetches the keys first. The errors are errNoKey and authz.ErrUnavailable.
func (k *keys) byID(ctx context.Context, id string, mayAsk bool) ([]jose.JSONWebKey, error) {
	found := k.known.Load().byID(id)
	if len(found) > 0 {
		return found, nil
	}
	if !mayAsk {
		return nil, errNoKey
	}
	if err := k.refresh(ctx, k.now()); err != nil {
		return nil, err
	}
	if found = k.known.Load().byID(id); len(found) == 0 {
		return nil, errNoKey
	}
	return found, nil
}

func (p *published) byID(id string) []jose.JSONWebKey {
	if id == "" {
		return p.keys
	}
	var out []jose.JSONWebKey
	for _, key := range p.keys {
		if key.KeyID == id {
			out = append(out, key)
		}
	}
	return out
}

// refresh fetches the keys unless another caller began to do so at or after since, or did so within the last fetchGap
// (failureGap after a failure). All waiting callers share one fetch. The error is authz.ErrUnavailable.
func (k *keys) refresh(ctx context.Context, since time.Time) error {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", authz.ErrUnavailable, ctx.Err())
	}
	gap := fetchGap
	if k.last.err != nil {
		gap = failureGap
	}
	if !k.last.began.IsZero() && (!k.last.began.Before(since) || since.Sub(k.last.ended) < gap) {
		return k.last.err
	}
	began := k.now()
	// The fetch must not end with the request that started it, because other callers wait for it too.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	err := k.fetch(bounded)
	if err != nil {
		err = fmt.Errorf("%w: %w", authz.ErrUnavailable, err)
	}
	k.last = attempt{began: began, ended: k.now(), err: err}
	return err
}

// fetch discovers the issuer and reads its keys.
func (k *keys) fetch(ctx context.Context) error {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, k.client), k.issuer)
	if err != nil {
		return fmt.Errorf("oidc: discovery of %s: %.200s", k.issuer, err.Error()) // the error may contain a whole page
	}
	var more struct {
		Keys    string   `json:"jwks_uri"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := found.Claims(&more); err != nil {
		return fmt.Errorf("oidc: discovery of %s: %w", k.issuer, err)
	}
	next := &published{endpoint: found.Endpoint(), inHeader: len(more.Methods) == 0 ||
		slices.Contains(more.Methods, "client_secret_basic")}
	for _, address := range []string{more.Keys, next.endpoint.AuthURL, next.endpoint.TokenURL} {
		if u, err := url.Parse(address); err != nil || u.Scheme != "https" && (u.Scheme != "http" ||
			!strings.HasPrefix(k.issuer, "http://")) {
			return fmt.Errorf("oidc: %s names the address %q, which is not https", k.issuer, address)
		}
	}
	if next.keys, err = k.read(ctx, more.Keys); err != nil {
		return err
	}
	before := k.known.Load()
	next.generation = before.generation
	if !sameKeys(before.keys, next.keys) {
		next.generation++
	}
	k.known.Store(next)
	return nil
}

func (k *keys) read(ctx context.Context, address string) ([]jose.JSONWebKey, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	res, err := k.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("oidc: keys of %s: %w", k.issuer, err)
	}
	defer res.Body.Close()
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(res.Body).Decode(&set); err != nil || res.StatusCode != http.StatusOK || set.Keys == nil {
		return nil, fmt.Errorf("oidc: keys of %s: status %d (%w)", k.issuer, res.StatusCode, errors.Join(err))
	}
	var out []jose.JSONWebKey
	for _, doc := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(doc) == nil && isUsable(key) {
			out = append(out, key)
		}
	}
	return out, nil
}

// isUsable reports whether a key is public, strong enough and made for signatures.
func isUsable(key jose.JSONWebKey) bool {
	if key.Use != "" && key.Use != "sig" || !key.Valid() {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return public.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

func sameKeys(a, b []jose.JSONWebKey) bool {
	return slices.EqualFunc(a, b, func(x, y jose.JSONWebKey) bool {
		left, err1 := x.MarshalJSON()
		right, err2 := y.MarshalJSON()
		return err1 == nil && err2 == nil && string(left) == string(right)
	})
}

// newClient returns a client that follows no redirects and reads at most maxBody of an answer, because the issuer may
// be hostile.
func newClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = http.DefaultTransport
	}
	return &http.Client{
		Transport: limitedTransport{transport}, Timeout: 2 * fetchTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// limitedTransport cuts answers off after maxBody.
type limitedTransport struct{ http.RoundTripper }

func (s limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := s.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxBody), res.Body}
	return res, nil
}
