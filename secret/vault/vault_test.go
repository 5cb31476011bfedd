package vault_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/openbao/openbao/api/v2"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/secret/secrettest"
	"github.com/dvt-engine/dvt/secret/vault"
)

// server is a real OpenBao with a client that may do everything.
type server struct {
	*api.Client
	stop func()
}

// start starts an OpenBao, whose login by AppRole gives tokens of a policy that reads secrets.
func start(t *testing.T) server {
	t.Helper()
	client, stop := testserver.OpenBao(t)
	s := server{client, stop}
	s.must(t, client.Sys().EnableAuthWithOptions("approle", &api.EnableAuthOptions{Type: "approle"}))
	s.policy(t, "")
	s.write(t, "auth/approle/role/worker", map[string]any{"token_policies": "worker", "token_ttl": "3s"})
	return s
}

func (s server) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s server) write(t *testing.T, path string, data map[string]any) *api.Secret {
	t.Helper()
	out, err := s.Logical().Write(path, data)
	s.must(t, err)
	return out
}

// policy permits workers to read everything but one path.
func (s server) policy(t *testing.T, except string) {
	t.Helper()
	rules := `path "secret/data/*" { capabilities = ["read"] }
path "database/+/+/creds/*" { capabilities = ["read"] }
path "sys/leases/revoke" { capabilities = ["update"] }`
	if except != "" {
		rules += fmt.Sprintf("\npath %q { capabilities = [\"deny\"] }", "secret/data/"+except)
	}
	s.must(t, s.Sys().PutPolicy("worker", rules))
}

// database lets the server make roles of a PostgreSQL for t1 in dev, by the name reader.
func (s server) database(t *testing.T, dsn string) {
	t.Helper()
	s.must(t, s.Sys().Mount("database/t1/dev", &api.MountInput{Type: "database"}))
	s.write(t, "database/t1/dev/config/warehouse", map[string]any{"plugin_name": "postgresql-database-plugin",
		"connection_url": dsn, "allowed_roles": "reader"})
	s.write(t, "database/t1/dev/roles/reader", map[string]any{"db_name": "warehouse", "default_ttl": "1h",
		"creation_statements": `CREATE ROLE "{{name}}" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'`})
}

// approle returns the settings of a worker that logs in by AppRole.
func (s server) approle(t *testing.T) vault.Config {
	t.Helper()
	role, err := s.Logical().Read("auth/approle/role/worker/role-id")
	s.must(t, err)
	id := s.write(t, "auth/approle/role/worker/secret-id", nil)
	path := filepath.Join(t.TempDir(), "secret-id")
	s.must(t, os.WriteFile(path, []byte(id.Data["secret_id"].(string)+"\n"), 0o600))
	return vault.Config{Address: s.Address(), Method: vault.AppRole, Role: role.Data["role_id"].(string), File: path}
}

func (s server) put(t *testing.T, path string, fields map[string]string) string {
	t.Helper()
	data := map[string]any{}
	for name, v := range fields {
		data[name] = v
	}
	got, err := s.KVv2("secret").Put(t.Context(), path, data)
	s.must(t, err)
	return strconv.Itoa(got.VersionMetadata.Version)
}

func open(t *testing.T, cfg vault.Config) *vault.Provider {
	t.Helper()
	p, err := vault.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// contract: R331, R332
func TestConformance_OnOpenBao(t *testing.T) {
	t.Parallel()
	secrettest.Run(t, func(t *testing.T) secrettest.World {
		t.Helper()
		s := start(t)
		network := secrettest.NewNetwork(t, s.Address())
		cfg := s.approle(t)
		cfg.Address = network.URL
		return secrettest.World{
			Provider: open(t, cfg), Network: network,
			Put:    func(path string, fields map[string]string) string { return s.put(t, path, fields) },
			Forbid: func(path string) { s.policy(t, path) },
			Break:  s.stop,
		}
	})
}

func TestLogin_IsRenewedBeforeAndAfterItsEnd(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.put(t, "key", map[string]string{"value": "one"})
	p := open(t, s.approle(t))
	for _, wait := range []time.Duration{0, 2500 * time.Millisecond, 4 * time.Second} { // tokens live for 3 s
		time.Sleep(wait)
		if got, err := p.Read(t.Context(), "key", ""); err != nil || got.Fields["value"].Reveal() != "one" {
			t.Errorf("after %s: %v %v", wait, got, err)
		}
	}
	// Somebody revokes all tokens; the next read logs in again.
	s.must(t, s.Sys().RevokePrefix("auth/approle/login"))
	if _, err := p.Read(t.Context(), "key", ""); err != nil {
		t.Errorf("after the token was revoked: %v", err)
	}
}

func TestLogin_ThatIsRefusedSaysSo(t *testing.T) {
	t.Parallel()
	s := start(t)
	cfg := s.approle(t)
	s.must(t, os.WriteFile(cfg.File, []byte("another"), 0o600))
	_, err := open(t, cfg).Read(t.Context(), "key", "")
	if !errors.Is(err, secret.ErrDenied) {
		t.Errorf("a wrong secret id: %v, want ErrDenied", err)
	}
	cfg.File += ".none"
	if _, err := open(t, cfg).Read(t.Context(), "key", ""); err == nil {
		t.Error("a provider without its credential read a secret")
	}
	token := filepath.Join(t.TempDir(), "token")
	s.must(t, os.WriteFile(token, []byte(s.Token()), 0o600))
	p := open(t, vault.Config{Address: s.Address(), Method: vault.Token, File: token})
	if err := p.Check(t.Context()); err != nil {
		t.Errorf("a token from a file: %v", err)
	}
}
