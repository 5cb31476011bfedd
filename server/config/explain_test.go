package config_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/dvt-engine/dvt/server/config"
)

var update = flag.Bool("update", false, "write settings.tsv from the table of settings in docs/operations.md")

var (
	rowOfSetting = regexp.MustCompile("^\\| (`[a-z-]+`(?:, `[a-z-]+`)*) \\|")
	keyOfSetting = regexp.MustCompile("`([a-z-]+)`")
	link         = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// settingsOfGuide returns the lines of settings.tsv that the operations guide says.
func settingsOfGuide(t *testing.T) string {
	t.Helper()
	guide, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(guide), "\n## Settings\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var out []string
	for line := range strings.Lines(section) {
		names := rowOfSetting.FindStringSubmatch(line)
		if names == nil {
			continue
		}
		cells := strings.Split(strings.ReplaceAll(strings.Trim(strings.TrimSpace(line), "|"), `\|`, "\x01"), "|")
		for i, cell := range cells {
			plain := strings.ReplaceAll(strings.ReplaceAll(link.ReplaceAllString(cell, "$1"), "`", ""), "\x01", "|")
			cells[i] = strings.TrimSpace(plain)
		}
		for _, key := range keyOfSetting.FindAllStringSubmatch(names[1], -1) {
			out = append(out, strings.Join(append([]string{key[1]}, cells[1:]...), "\t"))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n") + "\n"
}

func TestExplain_SaysWhatTheOperationsGuideSays(t *testing.T) {
	want := settingsOfGuide(t)
	if *update {
		if err := os.WriteFile("settings.tsv", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile("settings.tsv")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("settings.tsv is not the table of the guide; run go test ./server/config -run Explain -update:\n%s", diff)
	}
	all, err := config.Explain(flagsWith(t, ""), false)
	if err != nil {
		t.Fatal(err)
	}
	effects := []config.Effect{config.AtStart, config.OfFile, config.AtSignal}
	for _, e := range all {
		if e.Meaning == "" || !slices.Contains(effects, e.Effect) {
			t.Errorf("the guide says nothing about the setting %s, or when it takes effect: %+v", e.Key, e)
		}
	}
}

// flagsWith returns flags that name a file with this content.
func flagsWith(t *testing.T, content string) *pflag.FlagSet {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dvt.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	f := pflag.NewFlagSet("dvt", pflag.ContinueOnError)
	config.Flags(f, "listen", "heartbeat", "log-level")
	f.String("config", path, "")
	return f
}

func TestExplain_NamesTheSourceAndHidesSecrets(t *testing.T) {
	t.Setenv("DVT_HEARTBEAT", "7s")
	t.Setenv("DVT_SIGN_IN_KEY", "hunter2-of-the-environment")
	f := flagsWith(t, `
store: postgres://dvt:hunter2@db/dvt?sslmode=verify-full&password=hunter2
redis: "redis://:hunter2%zz@host"
ticket-keys: ["k1:hunter2"]
accounts: [{id: ada, tokenSha256: hunter2}]
heartbeat: 5s
duties: [api, deliver]
quotas: {tiers: {small: {activeRuns: 3}}}
`)
	if err := f.Set("listen", "127.0.0.1:9"); err != nil {
		t.Fatal(err)
	}
	all, err := config.Explain(f, false)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][2]string{}
	for _, e := range all {
		got[e.Key] = [2]string{e.Value, string(e.Source)}
		if strings.Contains(e.Value, "hunter2") {
			t.Errorf("%s is shown as %q, with the secret", e.Key, e.Value)
		}
	}
	for key, want := range map[string][2]string{
		"listen": {"127.0.0.1:9", "flag"}, "heartbeat": {"7s", "environment"}, "duties": {`["api","deliver"]`, "file"},
		"ticket-keys": {"set", "file"}, "sign-in-key": {"set", "environment"}, "worker-token": {"", "default"},
		"accounts": {"set", "file"}, "redis": {"set", "file"}, "write-budget": {"3s", "default"},
		"store":  {"postgres://dvt:xxxxx@db/dvt?password=xxxxx&sslmode=verify-full", "file"},
		"quotas": {`{"tiers":{"small":{"activeRuns":3}}}`, "file"},
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want the value and source %q", key, got[key], want)
		}
	}
}

func TestLoad_AnUnknownKeyNamesTheNearestOne(t *testing.T) {
	t.Setenv("DVT_HEARTBEET", "1s")
	_, err := config.Load(flagsWith(t, "listne: 127.0.0.1:1\ntemporal-namspace: x\nzebra: 1\nheartbeat: 1ms\n"), false)
	for _, want := range []string{"listne is not a setting of dvt; did you mean listen?",
		"temporal-namspace is not a setting of dvt; did you mean temporal-namespace?", "zebra is not a setting of dvt\n",
		"DVT_HEARTBEET is not a setting of dvt; did you mean DVT_HEARTBEAT?", "heartbeat must be at least 1s"} {
		if err == nil || !strings.Contains(err.Error()+"\n", want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
}

func TestReloader_SaysWhichSettingsTookEffect(t *testing.T) {
	t.Setenv("DVT_TICKET_KEYS", "k1:aHVudGVyMi1zZWNyZXQtaHVudGVyMi1zZWNyZXQtMzI=")
	f := flagsWith(t, "listen: 127.0.0.1:1\nlog-level: info\nheartbeat: 5s\nquotas: {tiers: {small: {activeRuns: 3}}}\n")
	if err := f.Set("listen", "127.0.0.1:9"); err != nil {
		t.Fatal(err)
	}
	r, err := config.NewReloader(f, false)
	if err != nil {
		t.Fatal(err)
	}
	config.ForgetEnvironment()
	path, _ := f.GetString("config")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("listen: 127.0.0.1:2\nlog-level: debug\nheartbeat: 6s\n")
	c, changed, err := r.Reload()
	want := config.Reload{Took: []string{"log-level"}, Restart: []string{"heartbeat", "quotas"},
		Hidden: []string{"listen"}}
	if diff := cmp.Diff(want, changed); err != nil || diff != "" {
		t.Errorf("what changed (-want +got), and the error %v:\n%s", err, diff)
	}
	if c.LogLevel != "debug" || c.Listen != "127.0.0.1:9" || len(c.TicketKeys) != 1 {
		t.Errorf("log-level %s, listen %s and %d ticket keys, want debug, that of the flag, and the key that was in the "+
			"environment at the start", c.LogLevel, c.Listen, len(c.TicketKeys))
	}
	write("log-level: debug\nheartbeet: 6s\n")
	if _, _, err := r.Reload(); err == nil || !strings.Contains(err.Error(), "did you mean heartbeat?") {
		t.Errorf("an invalid file: the error is %v, want the unknown key", err)
	}
	write("log-level: debug\nheartbeat: 6s\nlisten: 127.0.0.1:2\n")
	if _, changed, err := r.Reload(); err != nil || !cmp.Equal(changed, config.Reload{}) {
		t.Errorf("after the file is as before: %+v, %v, want no change", changed, err)
	}
}
