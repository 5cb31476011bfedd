package azure_test

import (
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/secret/azure"
	"github.com/dvt-engine/dvt/secret/secrettest"
)

const accessToken = "token-of-the-workload"

// authority gives tokens to workloads, as Entra ID documents it; caFile has its certificate.
var (
	authority *httptest.Server
	caFile    string
	refuse    atomic.Bool
)

func serveAuthority(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/tenant-1/v2.0/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]string{"token_endpoint": authority.URL + "/tenant-1/oauth2/v2.0/token",
			"authorization_endpoint": authority.URL + "/tenant-1/oauth2/v2.0/authorize",
			"issuer":                 authority.URL + "/tenant-1/v2.0"})
	case "/tenant-1/oauth2/v2.0/token":
		if refuse.Load() || r.FormValue("client_assertion") != "jwt-of-the-workload" ||
			r.FormValue("client_id") != "client-1" ||
			!slices.Contains(strings.Fields(r.FormValue("scope")), "https://vault.azure.net/.default") {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_client","error_description":"AADSTS700024: expired"}`)
			return
		}
		_, _ = io.WriteString(w, `{"access_token":"`+accessToken+`","expires_in":3600,"token_type":"Bearer"}`)
	default:
		http.NotFound(w, r)
	}
}

func TestMain(m *testing.M) {
	authority = httptest.NewTLSServer(http.HandlerFunc(serveAuthority))
	dir, err := os.MkdirTemp("", "azure")
	if err != nil {
		panic(err)
	}
	caFile = filepath.Join(dir, "ca.pem")
	token := filepath.Join(dir, "token")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate().Raw})
	for path, body := range map[string][]byte{caFile: certificate, token: []byte("jwt-of-the-workload")} {
		if err := os.WriteFile(path, body, 0o600); err != nil {
			panic(err)
		}
	}
	for name, value := range map[string]string{"AZURE_TENANT_ID": "tenant-1", "AZURE_CLIENT_ID": "client-1",
		"AZURE_FEDERATED_TOKEN_FILE": token} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	authority.Close()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// standIn answers Get Secret as Key Vault documents it: names without regard to case, ids of versions, bearer tokens
// with a challenge, and errors with a code.
type standIn struct {
	*httptest.Server

	mu        sync.Mutex
	secrets   map[string][]version
	forbidden map[string]bool
	throttled int
	token     string
}

type version struct{ id, value string }

func newStandIn(t *testing.T) *standIn {
	t.Helper()
	s := &standIn{secrets: map[string][]version{}, forbidden: map[string]bool{}, token: accessToken}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// nameOf is written apart from the package.
func nameOf(path string) string { return strings.ToLower(strings.ReplaceAll(path, "/", "--")) }

func (s *standIn) put(path string, fields map[string]string) string {
	text, whole := fields[plan.DefaultSecretField]
	if !whole || len(fields) > 1 {
		doc, _ := json.Marshal(fields)
		text = string(doc)
	}
	var b [16]byte
	_, _ = rand.Read(b[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	v := version{fmt.Sprintf("%x", b), text}
	s.secrets[nameOf(path)] = append(s.secrets[nameOf(path)], v)
	return v.id
}

func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": code, "message": message}})
}

func (s *standIn) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if r.Header.Get("Authorization") != "Bearer "+s.token {
		w.Header().Set("WWW-Authenticate", `Bearer authorization="`+authority.URL+
			`/tenant-1", resource="https://vault.azure.net"`)
		fail(w, http.StatusUnauthorized, "Unauthorized", "AKV10000: Request is missing a Bearer or PoP token.")
		return
	}
	if r.Method != http.MethodGet || parts[0] != "secrets" || len(parts) != 3 || r.URL.Query().Get("api-version") == "" {
		fail(w, http.StatusBadRequest, "BadParameter", "The request URI contains an invalid name")
		return
	}
	name := strings.ToLower(parts[1])
	versions := s.secrets[name]
	at := len(versions) - 1
	if parts[2] != "" {
		at = slices.IndexFunc(versions, func(v version) bool { return v.id == parts[2] })
	}
	switch {
	case s.throttled > 0:
		s.throttled--
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusTooManyRequests, "Throttled", "Request was not processed because too many requests were received.")
	case s.forbidden[name]:
		fail(w, http.StatusForbidden, "Forbidden", "Caller is not authorized to perform action on resource.")
	case at < 0:
		fail(w, http.StatusNotFound, "SecretNotFound", "A secret with (name/id) "+name+" was not found in this key vault.")
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"value": versions[at].value,
			"id": s.URL + "/secrets/" + name + "/" + versions[at].id, "attributes": map[string]any{"enabled": true}})
	}
}

func open(t *testing.T, address string) *azure.Provider {
	t.Helper()
	p, err := azure.New(azure.Config{Address: address, Authority: authority.URL, CAFile: caFile})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// contract: R331, R332
func TestConformance_OnTheStandIn(t *testing.T) {
	t.Parallel()
	secrettest.Run(t, func(t *testing.T) secrettest.World {
		t.Helper()
		s := newStandIn(t)
		network := secrettest.NewNetwork(t, s.URL)
		return secrettest.World{
			Provider: open(t, network.URL), Whole: true, Network: network, Put: s.put,
			Throttle: func() { s.mu.Lock(); defer s.mu.Unlock(); s.throttled = 1 },
			Forbid:   func(path string) { s.mu.Lock(); defer s.mu.Unlock(); s.forbidden[nameOf(path)] = true },
			Break:    s.Close,
		}
	})
}

func TestCheck_SaysThatTheIdentityIsRefused(t *testing.T) {
	s := newStandIn(t)
	if err := open(t, s.URL).Check(t.Context()); err != nil {
		t.Errorf("an identity that is accepted: %v", err)
	}
	s.token = "another"
	if err := open(t, s.URL).Check(t.Context()); !errors.Is(err, secret.ErrDenied) ||
		!strings.Contains(err.Error(), "identity") {
		t.Errorf("a token that the vault does not accept: %v, want ErrDenied", err)
	}
	refuse.Store(true)
	defer refuse.Store(false)
	if err := open(t, s.URL).Check(t.Context()); !errors.Is(err, secret.ErrDenied) {
		t.Errorf("a workload that the authority does not accept: %v, want ErrDenied", err)
	}
}

func TestIdentity_ThatIsManaged(t *testing.T) {
	s := newStandIn(t)
	s.token = "managed-token"
	s.put("key", map[string]string{"value": "value-1234"})
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-IDENTITY-HEADER") != "header-1" || r.FormValue("resource") != "https://vault.azure.net" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `{"access_token":"managed-token","expires_on":"4102444800","token_type":"Bearer",`+
			`"resource":"https://vault.azure.net"}`)
	}))
	t.Cleanup(endpoint.Close)
	for name, value := range map[string]string{"AZURE_TENANT_ID": "", "AZURE_CLIENT_ID": "",
		"AZURE_FEDERATED_TOKEN_FILE": "", "IDENTITY_ENDPOINT": endpoint.URL, "IDENTITY_HEADER": "header-1"} {
		t.Setenv(name, value)
	}
	got, err := open(t, s.URL).Read(t.Context(), "key", "")
	if err != nil || got.Fields["value"].Reveal() != "value-1234" {
		t.Errorf("a read with a managed identity: %v", err)
	}
}

// Names have no slashes and no case, so two paths must not meet in one name: it could be that of another tenant.
// contract: X02
func TestName_IsOfOnePathOnly(t *testing.T) {
	t.Parallel()
	paths := map[string]string{} // by name
	for _, path := range secrettest.Texts("aA-/", 7) {
		name, err := azure.Name(path)
		if err != nil {
			continue
		}
		if other, taken := paths[strings.ToLower(name)]; taken {
			t.Fatalf("%q and %q have the name %q", path, other, name)
		}
		paths[strings.ToLower(name)] = path
	}
	if len(paths) < 50 {
		t.Errorf("only %d paths have names", len(paths))
	}
	for path, want := range map[string]string{"dvt/acme/prod/db-1": "dvt--acme--prod--db-1", "Acme/key": "",
		"a--b/c": "", "a-/b": "", "-a": "", "a_b": "", "a.b": "", "a//b": "", strings.Repeat("a", 128): ""} {
		if got, _ := azure.Name(path); got != want {
			t.Errorf("the name of %q is %q, want %q", path, got, want)
		}
	}
}
