package gcp_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/secret/gcp"
	"github.com/dvt-engine/dvt/secret/secrettest"
)

const (
	instanceToken  = "token-of-the-instance"
	federatedToken = "token-of-the-federation"
)

// The metadata server of an instance, which gives the token of its account.
func TestMain(m *testing.M) {
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata-Flavor") != "Google" ||
			!strings.HasPrefix(r.URL.Path, "/computeMetadata/v1/instance/service-accounts/default/token") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Metadata-Flavor", "Google")
		_, _ = io.WriteString(w, `{"access_token":"`+instanceToken+`","expires_in":3600,"token_type":"Bearer"}`)
	}))
	for name, value := range map[string]string{"GCE_METADATA_HOST": strings.TrimPrefix(metadata.URL, "http://"),
		"GOOGLE_APPLICATION_CREDENTIALS": "", "HOME": "/nonexistent"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	metadata.Close()
	os.Exit(code)
}

// standIn answers AccessSecretVersion as Secret Manager's REST API documents it: numbers of versions, base64 with a
// checksum, and errors with a status.
type standIn struct {
	*httptest.Server
	parent string // the path of secrets

	mu        sync.Mutex
	secrets   map[string][][]byte // by id; nil: destroyed
	forbidden map[string]bool
	throttled int
	damaged   bool
	token     string
}

func newStandIn(t *testing.T, parent string) *standIn {
	t.Helper()
	s := &standIn{parent: parent, secrets: map[string][][]byte{}, forbidden: map[string]bool{}, token: instanceToken}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// put returns the number of the version. The id of a secret is written apart from the package.
func (s *standIn) put(path string, body []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := strings.ReplaceAll(path, "/", "__")
	s.secrets[id] = append(s.secrets[id], body)
	return fmt.Sprint(len(s.secrets[id]))
}

func (s *standIn) putFields(path string, fields map[string]string) string {
	text, whole := fields[plan.DefaultSecretField]
	if !whole || len(fields) > 1 {
		doc, _ := json.Marshal(fields)
		text = string(doc)
	}
	return s.put(path, []byte(text))
}

func fail(w http.ResponseWriter, code int, status, message string) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": code, "message": message,
		"status": status}})
}

func (s *standIn) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest, ours := strings.CutPrefix(r.URL.Path, s.parent)
	rest, access := strings.CutSuffix(rest, ":access")
	id, version, named := strings.Cut(rest, "/versions/")
	number := 0
	_, err := fmt.Sscanf(version, "%d", &number)
	if version == "latest" {
		number, err = len(s.secrets[id]), nil
	}
	switch {
	case r.Method != http.MethodGet || !ours || !access || !named || strings.Contains(id, "/"):
		http.Error(w, "<html>The requested URL was not found", http.StatusNotFound)
	case r.Header.Get("Authorization") != "Bearer "+s.token:
		fail(w, http.StatusUnauthorized, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
	case s.throttled > 0:
		s.throttled--
		fail(w, http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Access requests'")
	case s.forbidden[id]:
		fail(w, http.StatusForbidden, "PERMISSION_DENIED", "Permission 'secretmanager.versions.access' denied")
	case err != nil || number < 1 || number > len(s.secrets[id]):
		fail(w, http.StatusNotFound, "NOT_FOUND", "Secret ["+r.URL.Path+"] not found or has no versions.")
	case s.secrets[id][number-1] == nil:
		fail(w, http.StatusBadRequest, "FAILED_PRECONDITION", "Secret Version is in DESTROYED state.")
	default:
		body := s.secrets[id][number-1]
		sum := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
		if s.damaged {
			sum++
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"name": rest, "payload": map[string]string{
			"data": base64.StdEncoding.EncodeToString(body), "dataCrc32c": fmt.Sprint(sum)}})
	}
}

func open(t *testing.T, cfg gcp.Config) *gcp.Provider {
	t.Helper()
	p, err := gcp.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const parent = "/v1/projects/dvt-prod/secrets/"

// contract: R331, R332
func TestConformance_OnTheStandIn(t *testing.T) {
	t.Parallel()
	secrettest.Run(t, func(t *testing.T) secrettest.World {
		t.Helper()
		s := newStandIn(t, parent)
		network := secrettest.NewNetwork(t, s.URL)
		return secrettest.World{
			Provider: open(t, gcp.Config{Project: "dvt-prod", Endpoint: network.URL}), Whole: true, Network: network,
			Put: s.putFields, PutBytes: func(path string, value []byte) { s.put(path, value) },
			Throttle: func() { s.mu.Lock(); defer s.mu.Unlock(); s.throttled = 1 },
			Forbid: func(path string) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.forbidden[strings.ReplaceAll(path, "/", "__")] = true
			},
			Break: s.Close,
		}
	})
}

func TestRead_RefusesADamagedAndADestroyedValue(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, "/v1/projects/1/locations/europe-west3/secrets/")
	p := open(t, gcp.Config{Project: "1", Location: "europe-west3", Endpoint: s.URL})
	s.put("key", []byte("value-1234"))
	s.put("key", nil)
	if _, err := p.Read(t.Context(), "key", ""); !errors.Is(err, secret.ErrNotFound) ||
		!strings.Contains(err.Error(), "destroyed") {
		t.Errorf("a destroyed version: %v, want ErrNotFound", err)
	}
	if got, err := p.Read(t.Context(), "key", "1"); err != nil || got.Fields["value"].Reveal() != "value-1234" {
		t.Errorf("a version of a regional secret: %v", err)
	}
	s.mu.Lock()
	s.damaged = true
	s.mu.Unlock()
	if _, err := p.Read(t.Context(), "key", "1"); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a damaged value: %v", err)
	}
}

func TestCheck_SaysThatTheIdentityIsRefused(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, parent)
	p := open(t, gcp.Config{Project: "dvt-prod", Endpoint: s.URL})
	if err := p.Check(t.Context()); err != nil {
		t.Errorf("an identity that is accepted: %v", err)
	}
	s.mu.Lock()
	s.token = "another"
	s.mu.Unlock()
	if err := p.Check(t.Context()); !errors.Is(err, secret.ErrDenied) || !strings.Contains(err.Error(), "identity") {
		t.Errorf("a token that is not accepted: %v, want ErrDenied", err)
	}
}

// A workload outside of Google exchanges the token of its own issuer, which a file names.
func TestIdentity_OfAFederatedWorkload(t *testing.T) {
	s := newStandIn(t, parent)
	s.token = federatedToken
	s.put("key", []byte("value-1234"))
	refuse := false
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if refuse || r.FormValue("subject_token") != "jwt-of-the-workload" || r.FormValue("audience") != "//iam/pool" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
			return
		}
		_, _ = io.WriteString(w, `{"access_token":"`+federatedToken+`","issued_token_type":`+
			`"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":3600}`)
	}))
	t.Cleanup(sts.Close)
	dir := t.TempDir()
	doc, err := json.Marshal(map[string]any{"type": "external_account", "audience": "//iam/pool",
		"subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "token_url": sts.URL,
		"credential_source": map[string]string{"file": filepath.Join(dir, "token")}})
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{"token": "jwt-of-the-workload", "credentials.json": string(doc)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(dir, "credentials.json"))
	p := open(t, gcp.Config{Project: "dvt-prod", Endpoint: s.URL})
	if got, err := p.Read(t.Context(), "key", ""); err != nil || got.Fields["value"].Reveal() != "value-1234" {
		t.Errorf("a read by a federated workload: %v", err)
	}
	refuse = true
	if err := open(t, gcp.Config{Project: "dvt-prod", Endpoint: s.URL}).Check(t.Context()); err == nil {
		t.Error("a workload whose token was refused is said to be accepted")
	} else {
		t.Log(err)
	}
}

// Ids have no slashes, so two paths must not meet in one id: it could be that of another tenant.
// contract: X02
func TestName_IsOfOnePathOnly(t *testing.T) {
	t.Parallel()
	paths := map[string]string{} // by name
	for _, path := range secrettest.Texts("a_-/", 7) {
		name, err := gcp.Name(path)
		if err != nil {
			continue
		}
		if other, taken := paths[name]; taken {
			t.Fatalf("%q and %q have the name %q", path, other, name)
		}
		paths[name] = path
	}
	if len(paths) < 50 {
		t.Errorf("only %d paths have names", len(paths))
	}
	for path, want := range map[string]string{"dvt/acme/prod/db/warehouse": "dvt__acme__prod__db__warehouse",
		"a_b/C-d": "a_b__C-d", "a__b/c": "", "a_/b": "", "_a": "", "a.b": "", "a//b": "", strings.Repeat("a", 256): ""} {
		if got, _ := gcp.Name(path); got != want {
			t.Errorf("the id of %q is %q, want %q", path, got, want)
		}
	}
}
