package providers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/secret/providers"
)

func save(t *testing.T, doc string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "providers.yaml")
	if err := os.WriteFile(path, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const good = `
providers:
  - name: vault
    kind: vault
    address: https://vault.example.com:8200
    mount: kv
    path: dvt/{tenant}/{environment}/{key}
    auth: {method: approle, role: 5f1c, file: /run/dvt/secret-id}
    cacheTTL: 30s
    timeout: 2s
  - {name: aws, kind: aws, region: eu-central-1, path: "dvt/{tenant}/{environment}/{key}"}
  - {name: gcp, kind: gcp, project: dvt-prod, location: europe-west3}
  - {name: azure, kind: azure, address: https://dvt.vault.azure.net}
  - {name: local, kind: file, file: /etc/dvt/secrets.yaml}
`

func TestOpen_ReadsTheFileOfTheGuide(t *testing.T) {
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/run/aws/token")
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/dvt")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/run/gcp.json")
	path := save(t, good)
	if _, err := providers.Open(path, false, ""); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{path, "/etc/dvt/secrets.yaml", "/run/aws/token", "/run/dvt/secret-id",
		"/run/gcp.json"}, providers.Files(path)); diff != "" {
		t.Errorf("files that no step may read (-want +got):\n%s", diff)
	}
}

func TestOpen_NamesAllThatIsWrongAndNoSecret(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		doc  string
		want []string
	}{
		{"providers: canary", []string{"check its syntax"}},
		{"providers: [{name: a, kind: file, file: f, password: canary}]", []string{"line 1: field password not found"}},
		{`providers: [{name: A, kind: other, path: "x/{key}-{tenant}", timeout: 1h, cacheTTL: 1h}]`, []string{
			"providers[0].name", "providers[0].kind", "providers[0].path: write {tenant} once, between", "providers[0].timeout",
			"providers[0].cacheTTL"}},
		{"providers: [{name: a, kind: file}, {name: a, kind: vault, address: 'http://v.example.com', auth: {method: jwt}}]",
			[]string{"providers[0].file", "providers[1].name: another", "providers[1].address: write https",
				"providers[1].auth.role", "providers[1].auth.file"}},
		{"providers: [{name: a, kind: vault, address: 'https://u:canary@v', auth: {method: basic, file: f}}]",
			[]string{"providers[0].address", "providers[0].auth.method"}},
		{"providers: [{name: a, kind: aws, region: 'EU canary', address: 'http://10.0.0.1', auth: {file: canary}, project: p}]",
			[]string{"providers[0].region", "providers[0].address: write https", "providers[0].auth: leave it out",
				"providers[0].project: leave it out"}},
		{"providers: [{name: a, kind: gcp, location: 'x/../y', address: 'https://h/?key=canary'}]",
			[]string{"providers[0].project", "providers[0].location", "providers[0].address"}},
		{"providers: [{name: a, kind: azure, authority: 'ldap://canary', audience: x}]",
			[]string{"providers[0].address", "providers[0].authority", "providers[0].audience"}},
		{"providers: [{name: a, kind: aws, region: r, caFile: /none}, {name: b, kind: file, file: f, address: canary}]",
			[]string{"the file /none", "providers[1].address: leave it out"}},
	} {
		_, err := providers.Open(save(t, c.doc), false, "")
		if err == nil {
			t.Errorf("%s was accepted", c.doc)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error lacks %q:\n%v", c.doc, want, err)
			}
		}
		if strings.Contains(err.Error(), "canary") {
			t.Errorf("the error repeats a value: %v", err)
		}
	}
}

func TestOpen_DevHasAFileInItsData(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "secrets.yaml"), []byte("acme/dev/token: value-1234"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := providers.Open("", true, data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Resolve(t.Context(), secret.Scope{TenantID: "acme", EnvironmentID: "dev"},
		[]secret.Ref{{Provider: "file", Key: "token"}})
	if err != nil || got.Values[0].Reveal() != "value-1234" {
		t.Errorf("got %v, %v", got, err)
	}
}
