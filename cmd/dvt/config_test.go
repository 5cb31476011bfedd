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
