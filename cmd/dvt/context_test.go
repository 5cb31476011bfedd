package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// serveBearer starts a server that refuses every request and records the last token.
func serveBearer(t *testing.T) (address string, last *string) {
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

// runAndExpect runs a command and compares its exit status and its output or error with a text. It returns the output
// and error.
func runAndExpect(t *testing.T, status int, text string, args ...string) string {
	t.Helper()
	out, got, err := local(t, "", args...)
	if err != nil {
		out += err.Error()
	}
	if got != status || !strings.Contains(out, text) {
		t.Errorf("dvt %s: status %d, want %d and %q\n%s", strings.Join(args, " "), got, status, text, out)
	}
	return out
}

// isolateEnvironment hides the contexts and environment variables of the person who runs the tests.
func isolateEnvironment(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"DVT_CONFIG", "DVT_SERVER", "DVT_TOKEN", "DVT_DATA"} {
		t.Setenv(name, "")
	}
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "xdg"))
	return dir
}

func TestContext_SetUseAndDelete(t *testing.T) {
	dir := isolateEnvironment(t)
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("secret-of-prod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runAndExpect(t, 0, "There is no context yet: dvt context set", "context", "list")
	runAndExpect(t, 4, "dvt context list", "context", "use", "prod")
	runAndExpect(t, 0, "*", "context", "set", "prod", "--server", "https://dvt.example.com", "--token-file", token)
	runAndExpect(t, 0, "$OTHER_TOKEN", "context", "set", "test", "--server", "http://test:8080", "--token-env",
		"OTHER_TOKEN")
	list := runAndExpect(t, 0, "https://dvt.example.com", "context", "list")
	if strings.Contains(list, "secret-of-prod") || !strings.Contains(list, token) {
		t.Errorf("the list must show the path of the token file and not the token:\n%s", list)
	}
	runAndExpect(t, 0, `"current": true`, "context", "show", "-o", "json")
	runAndExpect(t, 0, "tokenEnv: OTHER_TOKEN", "context", "show", "test", "-o", "yaml")
	runAndExpect(t, 0, "test", "context", "use", "test")
	runAndExpect(t, 0, "test\thttp://test:8080", "__complete", "context", "use", "")
	runAndExpect(t, 0, "the context test was deleted", "context", "delete", "test")
	runAndExpect(t, 4, "", "context", "show")
	file := filepath.Join(dir, "xdg", "dvt", "config.yaml")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of contexts: %v, %v, want mode 0600", info, err)
	}
	if doc, err := os.ReadFile(file); err != nil || strings.Contains(string(doc), "secret") {
		t.Errorf("the file of contexts must hold no token: %v\n%s", err, doc)
	}
	for _, wrong := range [][]string{
		{"--server", "dvt.example.com"}, {"--server", "https://me:pw@dvt.example.com"},
		{"--server", "https://a", "--token-file", token, "--token-env", "A"},
		{"--server", "https://a", "--token-file", token + "-none"},
	} {
		runAndExpect(t, 2, "", append([]string{"context", "set", "wrong"}, wrong...)...)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	runAndExpect(t, 2, "chmod 600", "context", "list")
	if err := os.WriteFile(file, []byte("contexts: {}\ntokens: {}\n"), 0o600); err != nil || os.Chmod(file, 0o600) != nil {
		t.Fatal(err)
	}
	runAndExpect(t, 2, "holds no contexts", "context", "list")
}

// A flag wins over the environment, the environment wins over the context, and the token of a context goes to no other
// server.
func TestContext_FlagsWinOverEnvironmentOverContext(t *testing.T) {
	dir := isolateEnvironment(t)
	t.Setenv("DVT_CONFIG", filepath.Join(dir, "mine.yaml"))
	prod, gotProd := serveBearer(t)
	other, gotOther := serveBearer(t)
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("of-prod"), 0o600); err != nil {
		t.Fatal(err)
	}
	runAndExpect(t, 0, "", "context", "set", "prod", "--server", prod, "--token-file", token)
	runAndExpect(t, 0, "", "context", "set", "other", "--server", other, "--token-env", "OTHER_TOKEN")
	ask := func(got *string, want string, args ...string) {
		t.Helper()
		*gotProd, *gotOther = "", ""
		out := runAndExpect(t, 3, "FORBIDDEN", append([]string{"whoami"}, args...)...)
		if *got != want || want != "" && strings.Contains(out, want) {
			t.Errorf("whoami %v sent the token %q, want %q\n%s", args, *got, want, out)
		}
	}
	ask(gotProd, "of-prod")
	ask(gotProd, "of-flag", "--token", "of-flag")
	ask(gotOther, "", "--server", other) // the token of the context prod belongs to another server
	runAndExpect(t, 2, "OTHER_TOKEN", "whoami", "--context", "other")
	runAndExpect(t, 4, "no context", "whoami", "--context", "none")
	runAndExpect(t, 2, "not both", "whoami", "--context", "other", "--server", prod)
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
	runAndExpect(t, 2, "chmod 600", "whoami", "--context", "prod")
}

func TestWhoami_PrintsPrincipalAndGrants(t *testing.T) {
	address, _ := serve(t)
	out, status, err := dvt(t, address, "dev-engineer", "whoami")
	if status != 0 || !strings.Contains(out, "of the tenant acme, at "+address) || !strings.Contains(out, "ENGINEER") {
		t.Errorf("status %d, %v, want 0, tenant and role\n%s", status, err, out)
	}
	if out, status, err = dvt(t, address, "nobody", "whoami"); status != 3 {
		t.Errorf("an unknown token: status %d, %v, want 3\n%s", status, err, out)
	}
}
