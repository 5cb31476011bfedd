package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The commands about settings and targets name all findings at once, for people and for programs, and never a secret.
func TestConfigAndPreflight_NameEveryFindingAndNoSecret(t *testing.T) {
	dir := isolateEnvironment(t)
	const secret = "hunter2-hunter2"
	file := filepath.Join(dir, "dvt.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const nobody = "127.0.0.1:1" // nothing listens there
	good := "store: postgres://dvt:" + secret + "@" + nobody + "/dvt\nredis: redis://:" + secret + "@" + nobody +
		"/0\ntemporal: " + nobody + "\nlisten: 127.0.0.1:0\nticket-keys: [k1:aHVudGVyMi1odW50ZXIyLWh1bnRlcjItaHVudGVyMi0=]\n" +
		"artifacts: file://" + dir + "\naccounts: []\n"
	for _, c := range []struct {
		name, settings string
		args           []string
		status         int
		wants          []string
	}{
		{"check names all at once", good + "lisen: x\nheartbeat: 1ms\n", []string{"config", "check"}, 1,
			[]string{"lisen is not a setting of dvt; did you mean listen?", "heartbeat must be at least 1s"}},
		{"check names what a process lacks", "temporal: " + nobody + "\n", []string{"config", "check", "--process", "server"},
			1, []string{"the setting store is missing", "the setting redis is missing"}},
		{"check names what the log and the accounts cannot be", good + "log-level: loud\nlog-format: xml\n",
			[]string{"config", "check"}, 1, []string{`log-level must be debug, info, warn or error, not "loud"`,
				"log-format must be json or text"}},
		{"check names an account that nobody can use", strings.Replace(good, "accounts: []",
			"accounts: [{id: a, tenant: b, tokenSha256: zz}]", 1), []string{"config", "check"}, 1,
			[]string{`accounts[0] "a": tokenSha256 must be the SHA-256 of the token in hex`}},
		{"explain a setting", good, []string{"config", "explain", "temporal"}, 0, []string{nobody, "file", "DVT_TEMPORAL"}},
		{"explain a secret", good, []string{"config", "explain", "ticket-keys"}, 0, []string{"set (file)"}},
		{"explain all", good, []string{"config", "explain"}, 0, []string{"listen", "127.0.0.1:0"}},
		{"explain no setting", good, []string{"config", "explain", "lisen"}, 2, nil},
		{"a target without servers", good, []string{"preflight", "--process", "server", "--timeout", "5s"}, 1,
			[]string{"PostgreSQL", "Redis", "Temporal", "MISSING"}},
		{"no process", good, []string{"preflight", "--process", "planet"}, 2, nil},
	} {
		write(c.settings)
		args := append(c.args, "--config", file)
		out, status, err := local(t, "", args...)
		if status != c.status {
			t.Errorf("%s: exit status %d, want %d:\n%s%v", c.name, status, c.status, out, err)
		}
		for _, want := range c.wants {
			if !strings.Contains(out, want) {
				t.Errorf("%s: the output lacks %q:\n%s", c.name, want, out)
			}
		}
		data, status, more := local(t, "", append(args, "-o", "json")...)
		var doc map[string]any
		if err := json.Unmarshal([]byte(data), &doc); c.status < 2 && (err != nil || status != c.status) {
			t.Errorf("%s: -o json: exit status %d, %v:\n%s", c.name, status, err, data)
		}
		if all := fmt.Sprint(out, err, data, more); strings.Contains(all, secret) || strings.Contains(all, "aHVudGVyMi1") {
			t.Errorf("%s: the output has a secret:\n%s", c.name, all)
		}
	}
}

// Nothing is known about a file that cannot be read, so check says that alone and calls no setting missing.
func TestConfigCheck_OfAnUnreadableFileNamesTheFileAlone(t *testing.T) {
	dir := isolateEnvironment(t)
	broken := filepath.Join(dir, "broken.yaml")
	if err := os.WriteFile(broken, []byte("store: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{broken: "cannot be read as YAML",
		filepath.Join(dir, "absent.yaml"): "cannot be read: no such file"} {
		out, status, err := local(t, "", "config", "check", "--config", file)
		if status != 1 || !strings.Contains(out, want) || strings.Contains(out, "is missing") {
			t.Errorf("config check --config %s: exit status %d, %v, want 1 and the file alone:\n%s", file, status, err, out)
		}
	}
}
