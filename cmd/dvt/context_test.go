package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// bearer is a server that says what token came, and refuses all.
func bearer(t *testing.T) (address string, last *string) {
	t.Helper()
	last = new(string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*last = strings.TrimSpace(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"errors":[{"message":"no","extensions":{"code":"FORBIDDEN"}}]}`))
	}))
	t.Cleanup(s.Close)
	return s.URL, last
}

// says runs a command and compares its status, and what it or its error says.
func says(t *testing.T, status int, text string, args ...string) string {
	t.Helper()
	out, got, err := local(t, "", args...)
	if err != nil {
		out += err.Error()
	}
	if got != status || !strings.Contains(out, text) {
		t.Errorf("dvt %s: %d, want %d and %q\n%s", strings.Join(args, " "), got, status, text, out)
	}
	return out
}

// alone makes an environment without contexts and without what the tester has set.
func alone(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"DVT_CONFIG", "DVT_SERVER", "DVT_TOKEN", "DVT_DATA"} {
		t.Setenv(name, "")
	}
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "xdg"))
	return dir
}

func TestContext_MakeUseForget(t *testing.T) {
	dir := alone(t)
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("secret-of-prod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	says(t, 0, "There is no context yet: dvt context set", "context", "list")
	says(t, 4, "dvt context list", "context", "use", "prod")
	says(t, 0, "*", "context", "set", "prod", "--server", "https://dvt.example.com", "--token-file", token)
	says(t, 0, "$OTHER_TOKEN", "context", "set", "test", "--server", "http://test:8080", "--token-env", "OTHER_TOKEN")
	list := says(t, 0, "https://dvt.example.com", "context", "list")
	if strings.Contains(list, "secret-of-prod") || !strings.Contains(list, token) {
		t.Error(list)
	}
	says(t, 0, `"current": true`, "context", "show", "-o", "json")
	says(t, 0, "tokenEnv: OTHER_TOKEN", "context", "show", "test", "-o", "yaml")
	says(t, 0, "test", "context", "use", "test")
	says(t, 0, "test\thttp://test:8080", "__complete", "context", "use", "")
	says(t, 0, "no context any more", "context", "delete", "test")
	says(t, 4, "", "context", "show")
	file := filepath.Join(dir, "xdg", "dvt", "config.yaml")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if doc, err := os.ReadFile(file); err != nil || strings.Contains(string(doc), "secret") {
		t.Errorf("%v\n%s", err, doc)
	}
	for _, wrong := range [][]string{
		{"--server", "dvt.example.com"}, {"--server", "https://me:pw@dvt.example.com"},
		{"--server", "https://a", "--token-file", token, "--token-env", "A"},
		{"--server", "https://a", "--token-file", token + "-none"},
	} {
		says(t, 2, "", append([]string{"context", "set", "wrong"}, wrong...)...)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	says(t, 2, "chmod 600", "context", "list")
	if err := os.WriteFile(file, []byte("contexts: {}\ntokens: {}\n"), 0o600); err != nil || os.Chmod(file, 0o600) != nil {
		t.Fatal(err)
	}
	says(t, 2, "holds no contexts", "context", "list")
}

// Who one is: a flag wins over the environment, that over the context, and the token of
// a context goes to no other server.
func TestContext_WhatWins(t *testing.T) {
	dir := alone(t)
	t.Setenv("DVT_CONFIG", filepath.Join(dir, "mine.yaml"))
	prod, gotProd := bearer(t)
	other, gotOther := bearer(t)
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("of-prod"), 0o600); err != nil {
		t.Fatal(err)
	}
	says(t, 0, "", "context", "set", "prod", "--server", prod, "--token-file", token)
	says(t, 0, "", "context", "set", "other", "--server", other, "--token-env", "OTHER_TOKEN")
	ask := func(got *string, want string, args ...string) {
		t.Helper()
		*gotProd, *gotOther = "", ""
		out := says(t, 3, "FORBIDDEN", append([]string{"whoami"}, args...)...)
		if *got != want || want != "" && strings.Contains(out, want) {
			t.Errorf("%v: %q came, want %q\n%s", args, *got, want, out)
		}
	}
	ask(gotProd, "of-prod")
	ask(gotProd, "of-flag", "--token", "of-flag")
	ask(gotOther, "", "--server", other) // not of-prod
	says(t, 2, "OTHER_TOKEN", "whoami", "--context", "other")
	says(t, 4, "no context", "whoami", "--context", "none")
	says(t, 2, "not both", "whoami", "--context", "other", "--server", prod)
	t.Setenv("OTHER_TOKEN", "of-other")
	ask(gotOther, "of-other", "--context", "other")
	t.Setenv("DVT_TOKEN", "of-env")
	ask(gotProd, "of-env")
	ask(gotOther, "of-other", "--context", "other")
	t.Setenv("DVT_SERVER", other)
	ask(gotOther, "of-env")
	ask(gotProd, "of-prod", "--context", "prod")
	if err := os.Chmod(token, 0o640); err != nil {
		t.Fatal(err)
	}
	says(t, 2, "chmod 600", "whoami", "--context", "prod")
}

func TestWhoami_SaysWhoAndWhere(t *testing.T) {
	address, _ := serve(t)
	out, status, err := dvt(t, address, "dev-engineer", "whoami")
	if status != 0 || !strings.Contains(out, "of the tenant acme, at "+address) || !strings.Contains(out, "ENGINEER") {
		t.Errorf("%d, %v\n%s", status, err, out)
	}
	if out, status, err = dvt(t, address, "nobody", "whoami"); status != 3 {
		t.Errorf("%d, %v\n%s", status, err, out)
	}
}
