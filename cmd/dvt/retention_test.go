package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/client"
)

// contract: T180
func TestRetention_IsPreviewedSetAndHeld(t *testing.T) {
	address, _ := serve(t)
	isolateEnvironment(t)
	ask := func(who string, want int, words string, args ...string) string {
		t.Helper()
		out, status, err := dvt(t, address, who, args...)
		if err != nil {
			out += err.Error()
		}
		if status != want || !strings.Contains(out, words) {
			t.Errorf("dvt %s as %s: status %d, want %d, and %q in:\n%s", strings.Join(args, " "), who, status, want, words, out)
		}
		return out
	}
	file := filepath.Join(t.TempDir(), "retention.yaml")
	if err := os.WriteFile(file, []byte("archiveRuns: 30\nstepLogs: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ask("dev-admin", 0, "no policy of its own", "retention", "get")
	ask("dev-admin", 0, "", "retention", "preview", file)
	ask("dev-operator", 3, "", "retention", "set", file, "--expected-version", "0", "--reason", "not mine")
	ask("dev-admin", 2, "--reason", "retention", "set", file, "--expected-version", "0")
	ask("dev-admin", 0, "", "retention", "set", file, "--expected-version", "0", "--reason",
		"a month is enough")
	ask("dev-admin", 0, "version 1", "retention", "get")
	ask("dev-admin", 0, "a month is enough", "retention", "history")

	ask("dev-operator", 3, "", "hold", "place", "--plan", "nightly", "--reason", "not mine")
	ask("dev-admin", 2, "", "hold", "place", "--reason", "holds nothing")
	var hold client.LegalHoldRow
	doc := ask("dev-admin", 0, "nightly", "hold", "place", "--plan", "nightly", "--reason", "case 12", "-o", "json")
	if err := json.Unmarshal([]byte(doc), &hold); err != nil || hold.Id == "" {
		t.Fatalf("%v in %s", err, doc)
	}
	ask("dev-admin", 0, "case 12", "hold", "list")
	ask("dev-mallory", 4, "", "hold", "lift", hold.Id, "--reason", "a stranger")
	ask("dev-admin", 0, hold.Id, "hold", "lift", hold.Id, "--reason", "case 12 is closed")
	ask("dev-admin", 0, "No hold is open", "hold", "list")
	ask("dev-admin", 0, "case 12 is closed", "hold", "list", "--all", "-o", "yaml")
}
