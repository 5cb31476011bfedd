package vault_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/openbao/openbao/api/v2"

	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/secret/vault"
)

// issuer signs tokens of workloads and serves its key set.
type issuer struct {
	*httptest.Server
	mu    sync.Mutex
	key   *ecdsa.PrivateKey
	keyID string
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.rotate(t, "key-1")
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: crypto.PublicKey(&i.key.PublicKey),
			KeyID: i.keyID, Algorithm: string(jose.ES256), Use: "sig"}}})
	}))
	t.Cleanup(i.Close)
	return i
}

// rotate replaces the key of the issuer.
func (i *issuer) rotate(t *testing.T, id string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key, i.keyID = key, id
}

// token returns a signed token that lives for ten minutes, with more claims.
func (i *issuer) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	all := map[string]any{"iss": "https://issuer.example", "iat": time.Now().Unix(),
		"exp": time.Now().Add(10 * time.Minute).Unix()}
	for name, v := range claims {
		all[name] = v
	}
	body, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: i.keyID}},
		(&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func saveToken(t *testing.T, path, token string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// contract: R331
func TestLogin_ByJWT(t *testing.T) {
	t.Parallel()
	s, i := start(t), newIssuer(t)
	s.must(t, s.Sys().EnableAuthWithOptions("workloads", &api.EnableAuthOptions{Type: "jwt"}))
	s.write(t, "auth/workloads/config", map[string]any{"jwks_url": i.URL, "bound_issuer": "https://issuer.example"})
	s.write(t, "auth/workloads/role/worker", map[string]any{"role_type": "jwt", "user_claim": "sub",
		"bound_audiences": "openbao", "bound_subject": "worker-1", "token_policies": "worker", "token_ttl": "2s"})
	s.put(t, "key", map[string]string{"value": "value-1234"})
	file := filepath.Join(t.TempDir(), "jwt")
	p := open(t, vault.Config{Address: s.Address(), Method: vault.JWT, AuthMount: "workloads", Role: "worker", File: file})
	good := map[string]any{"sub": "worker-1", "aud": "openbao"}
	saveToken(t, file, i.token(t, good))
	wantValue(t, p, "the first token")
	// The issuer gets another key, the workload another token, and the login ends: the file is read again.
	i.rotate(t, "key-2")
	saveToken(t, file, i.token(t, good))
	s.must(t, s.Sys().RevokePrefix("auth/workloads/login"))
	wantValue(t, p, "a token of the next key")

	stranger := newIssuer(t)
	for what, token := range map[string]string{
		"another subject":  i.token(t, map[string]any{"sub": "worker-2", "aud": "openbao"}),
		"another audience": i.token(t, map[string]any{"sub": "worker-1", "aud": "other"}),
		"an expired token": i.token(t, map[string]any{"sub": "worker-1", "aud": "openbao",
			"exp": time.Now().Add(-time.Hour).Unix()}),
		"another issuer": stranger.token(t, good), "no token": "canary-no-jwt"} {
		bad := filepath.Join(t.TempDir(), "jwt")
		saveToken(t, bad, token)
		_, err := open(t, vault.Config{Address: s.Address(), Method: vault.JWT, AuthMount: "workloads", Role: "worker",
			File: bad}).Read(t.Context(), "key", "")
		if !errors.Is(err, secret.ErrDenied) || strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v, want ErrDenied", what, err)
		}
	}
}

func wantValue(t *testing.T, p *vault.Provider, what string) {
	t.Helper()
	got, err := p.Read(t.Context(), "key", "")
	if err != nil || got.Fields["value"].Reveal() != "value-1234" {
		t.Errorf("with %s: %v", what, err)
	}
}

// reviewer answers the TokenReview API of Kubernetes, as its reference documents it.
type reviewer struct {
	*httptest.Server
	mu   sync.Mutex
	pods map[string]string // the account of each token, namespace:name
}

func newReviewer(t *testing.T) *reviewer {
	t.Helper()
	r := &reviewer{pods: map[string]string{}}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var in struct {
			Spec struct {
				Token     string
				Audiences []string
			}
		}
		if req.URL.Path != "/apis/authentication.k8s.io/v1/tokenreviews" || req.Method != http.MethodPost ||
			req.Header.Get("Authorization") != "Bearer reviewer-token" || json.NewDecoder(req.Body).Decode(&in) != nil {
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "status": "Failure", "code": 403})
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		status := map[string]any{"authenticated": false, "error": "token not found"}
		if account, known := r.pods[in.Spec.Token]; known {
			status = map[string]any{"authenticated": true, "audiences": in.Spec.Audiences, "user": map[string]any{
				"username": "system:serviceaccount:" + account, "uid": "11111111-2222-3333-4444-555555555555",
				"groups": []string{"system:serviceaccounts", "system:authenticated"}}}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
			"status": status})
	}))
	t.Cleanup(r.Close)
	return r
}

// pod returns the token of a pod, and lets the reviewer know it.
func (r *reviewer) pod(t *testing.T, i *issuer, namespace, name string) string {
	t.Helper()
	token := i.token(t, map[string]any{"iss": "https://kubernetes.default.svc.cluster.local",
		"sub": "system:serviceaccount:" + namespace + ":" + name, "aud": []string{"https://kubernetes.default.svc"},
		"kubernetes.io": map[string]any{"namespace": namespace, "serviceaccount": map[string]any{"name": name,
			"uid": "11111111-2222-3333-4444-555555555555"}}})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[token] = namespace + ":" + name
	return token
}

// contract: R331
func TestLogin_ByKubernetes(t *testing.T) {
	t.Parallel()
	s, i, r := start(t), newIssuer(t), newReviewer(t)
	s.must(t, s.Sys().EnableAuthWithOptions("kubernetes", &api.EnableAuthOptions{Type: "kubernetes"}))
	s.write(t, "auth/kubernetes/config", map[string]any{"kubernetes_host": r.URL, "token_reviewer_jwt": "reviewer-token",
		"disable_local_ca_jwt": true, "kubernetes_ca_cert": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: r.Certificate().Raw}))})
	s.write(t, "auth/kubernetes/role/worker", map[string]any{"bound_service_account_names": "dvt-worker",
		"bound_service_account_namespaces": "prod", "token_policies": "worker", "token_ttl": "2s"})
	s.put(t, "key", map[string]string{"value": "value-1234"})
	file := filepath.Join(t.TempDir(), "token")
	saveToken(t, file, r.pod(t, i, "prod", "dvt-worker"))
	p := open(t, vault.Config{Address: s.Address(), Method: vault.Kubernetes, Role: "worker", File: file})
	wantValue(t, p, "the token of the pod")
	unknown := i.token(t, map[string]any{"sub": "system:serviceaccount:prod:dvt-worker",
		"kubernetes.io": map[string]any{"namespace": "prod", "serviceaccount": map[string]any{"name": "dvt-worker",
			"uid": "11111111-2222-3333-4444-555555555555"}}})
	for what, token := range map[string]string{"another account": r.pod(t, i, "prod", "other"),
		"another namespace": r.pod(t, i, "dev", "dvt-worker"), "a token that the cluster does not know": unknown} {
		bad := filepath.Join(t.TempDir(), "token")
		saveToken(t, bad, token)
		_, err := open(t, vault.Config{Address: s.Address(), Method: vault.Kubernetes, Role: "worker", File: bad}).Read(
			t.Context(), "key", "")
		if err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v, want a refusal", what, err)
		} else {
			t.Logf("%s: %v", what, err)
		}
	}
}
