package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/server/config"

	"github.com/spf13/pflag"

	"github.com/dvt-engine/dvt/server"
)

func loadSettings(t *testing.T, doc string) (config.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dvt.yaml")
	must(t, os.WriteFile(path, []byte(doc), 0o600))
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.String("config", path, "")
	return config.Load(f, false)
}

const corpIssuer = "oidc: [{name: corp, issuer: https://id.example, clientId: dvt, tenant: acme}]\n"

// contract: O6
func TestLoad_ChecksOIDCSettings(t *testing.T) {
	c, err := loadSettings(t, corpIssuer+"public-url: https://dvt.example/\nlisten: 0.0.0.0:8080\nsign-in-key: "+
		strings.Repeat("k", 32)+"\n")
	must(t, err)
	if i := c.Issuers[0]; i.Audience != "dvt" || i.PrincipalClaim != "sub" || i.Label != "corp" ||
		c.PublicURL != "https://dvt.example" {
		t.Errorf("the issuer is %+v and the public URL %s, want the defaults of corp and no slash at the end", i, c.PublicURL)
	}
	for doc, want := range map[string]string{
		"oidc: [{name: corp, issuer: https://id.example, tenant: acme}]":                             "audience is missing",
		"oidc: [{name: corp, issuer: http://id.example, clientId: dvt, tenant: acme}]":               "https",
		"oidc: [{name: corp, issuer: 'https://id.example?x=1', clientId: dvt, tenant: acme}]":        "https",
		"oidc: [{name: corp, issuer: https://id.example, clientId: dvt}]":                            "either tenant or tenantClaim",
		"oidc: [{name: corp, issuer: https://id.example, clientId: dvt, tenant: a, tenantClaim: t}]": "either tenant or tenantClaim",
		"oidc: [{name: Corp!, issuer: https://id.example, clientId: dvt, tenant: a}]":                "name must be",
		"oidc: [{name: a, issuer: https://i.example, clientId: d, tenant: a}, {name: b, issuer: https://i.example, " +
			"clientId: d, tenant: a}]": "same name or issuer",
		"oidc: [{name: a, issuer: https://a.example, clientId: d, tenant: t}, {name: b, issuer: https://b.example, " +
			"clientId: d, tenantClaim: o}]": `"a" and "b" may speak for one tenant`,
		"oidc: [{name: a, issuer: https://a.example, clientId: d, tenant: t, prefix: x}, {name: b, issuer: " +
			"https://b.example, clientId: d, tenant: t, prefix: xy}]": "neither begin with the other",
		"oidc: [{name: corp, issuer: https://id.example, clientId: dvt, tenant: acme, secret: x}]": "secret",
		"accounts: [{id: ada, tenant: acme, oidc: true}]":                                          "no oidc is set",
		"public-url: http://dvt.example":                                                           "public-url",
		"public-url: https://dvt.example/path":                                                     "public-url",
		"sign-in-key: short":                                                                       "sign-in-key",
		"trusted-proxies: [10.0.0.0/99]":                                                           "trusted-proxies",
		"clock-skew: 1h":                                                                           "clock-skew",
	} {
		if _, err := loadSettings(t, doc); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one with %q", doc, err, want)
		}
	}
}

// Steps must not read the files of secrets, and a file that every user can read is reported.
func TestHiddenFiles_IncludeTheKeyOfHeadsAndTheSecretsOfIssuers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, secret := filepath.Join(dir, "heads.key"), filepath.Join(dir, "client.secret")
	for _, path := range []string{key, secret} {
		must(t, os.WriteFile(path, []byte("x"), 0o600))
		must(t, os.Chmod(path, 0o644)) // whatever the umask is
	}
	hook, destinations := filepath.Join(dir, "hook.secret"), filepath.Join(dir, "destinations.yaml")
	must(t, os.WriteFile(hook, []byte("x"), 0o600))
	must(t, os.Chmod(hook, 0o644))
	must(t, os.WriteFile(destinations, fmt.Appendf(nil,
		"destinations: [{name: a, kind: webhook, url: 'https://a.example', secrets: [{file: %q}]}]", hook), 0o600))
	c := config.Config{AuditHeadsKey: key, Destinations: destinations, Issuers: []config.Issuer{{Name: "open"},
		{Name: "corp", ClientSecretFile: secret}}}
	var log bytes.Buffer
	c.WarnOfReadableFiles(slog.New(slog.NewTextHandler(&log, nil)), "")
	for _, path := range []string{key, secret, hook} {
		if !slices.Contains(c.HiddenFiles(), path) {
			t.Errorf("the hidden files are %q, want %s among them", c.HiddenFiles(), path)
		}
		if !strings.Contains(log.String(), path) {
			t.Errorf("the log does not warn of %s, which every user can read:\n%s", path, log.String())
		}
	}
}

// A server that other machines can reach does not start without accounts or OIDC.
// contract: O6
func TestRun_RefusesToServeWithoutAuthentication(t *testing.T) {
	const parts = "store: sqlite:/nowhere/dvt.db\nredis: redis://127.0.0.1:1/0\ntemporal: 127.0.0.1:1\n"
	for doc, refused := range map[string]bool{
		"listen: 0.0.0.0:8080\n": true, "listen: ':8080'\n": true, "listen: '[::]:8080'\n": true,
		"listen: dvt.example:8080\n": true,
		"listen: 127.0.0.1:0\n":      false, "listen: '[::1]:0'\n": false, "listen: localhost:0\n": false,
		"listen: 0.0.0.0:8080\naccounts: [{id: a, tenant: t, tokenSha256: " + tokenHash("x") + "}]\n": false,
	} {
		c, err := loadSettings(t, parts+doc)
		must(t, err)
		if err := server.Run(t.Context(), c, slog.New(slog.DiscardHandler)); errors.Is(err,
			config.ErrNoAuthentication) != refused || err == nil {
			t.Errorf("%q: the error is %v, want ErrNoAuthentication: %t", doc, err, refused)
		}
	}
	c, err := loadSettings(t, parts+corpIssuer+"listen: 0.0.0.0:8080\n")
	must(t, err)
	err = server.Run(t.Context(), c, slog.New(slog.DiscardHandler))
	for _, missing := range []string{"sign-in-key", "public-url"} {
		if err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("OIDC without %s: the error is %v, want one that names it", missing, err)
		}
	}
}

// contract: O6
func TestClientAddress_OnlyTrustedProxiesAreBelieved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ remote, forwarded, want string }{
		{"203.0.113.9:5", "198.51.100.1", "203.0.113.9"},
		{"10.0.0.1:5", "198.51.100.1", "198.51.100.1"},
		{"10.0.0.1:5", "1.1.1.1, 198.51.100.1", "198.51.100.1"},
		{"10.0.0.1:5", "1.1.1.1, 198.51.100.1, 10.9.9.9", "198.51.100.1"},
		{"10.0.0.1:5", "", "10.0.0.1"},
		{"10.0.0.1:5", "nonsense", "10.0.0.1"},
		{"10.0.0.1:5", "1.1.1.1, nonsense", "10.0.0.1"},
		{"10.0.0.1:5", "10.0.0.7", "10.0.0.7"},
		{"[::ffff:10.0.0.1]:5", "2001:db8::1", "2001:db8::1"},
		{"[2001:db8::5]:5", "1.1.1.1", "2001:db8::5"},
	} {
		if got := server.ClientAddress("10.0.0.0/8", c.remote, c.forwarded); got != c.want {
			t.Errorf("a connection from %s with X-Forwarded-For %q has the client address %s, want %s", c.remote, c.forwarded,
				got, c.want)
		}
	}
}
