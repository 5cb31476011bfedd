package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	shellBlock   = regexp.MustCompile("(?s)```sh\n(.*?)```")
	ownCommand   = regexp.MustCompile(`(?:^|[\s(])(?:bin/)?dvt (.*)$`)
	fillIn       = strings.NewReplacer("run start -", "run start plan.yaml", "NUMBER:HASH", "7:"+strings.Repeat("a", 64))
	fileArgument = regexp.MustCompile(`^(?:FILE|[a-z]+\.ya?ml)$`)
)

// Each command in the documentation must parse. The test runs it against an address without a server: the missing
// server must be its only error.
func TestDocs_CommandsParseAsPrinted(t *testing.T) {
	pages, err := filepath.Glob("../../docs/guides/*.md")
	if err != nil || len(pages) < 4 {
		t.Fatalf("found the pages %v, %v, want at least 4", pages, err)
	}
	runbooks, err := filepath.Glob("../../docs/runbooks/*.md")
	if err != nil || len(runbooks) < 12 {
		t.Fatalf("found the runbooks %v, %v, want 11 and their list", runbooks, err)
	}
	pages = append(pages, runbooks...)
	texts := map[string]string{}
	for _, page := range append(pages, "../../README.md", "../../docs/operations.md") {
		doc, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(page)] = string(doc)
	}
	t.Chdir(isolateEnvironment(t))
	ran := 0
	for page, doc := range texts {
		for _, block := range shellBlock.FindAllStringSubmatch(doc, -1) {
			for line := range strings.Lines(block[1]) {
				command, _, _ := strings.Cut(strings.TrimSpace(line), " #")
				found := ownCommand.FindStringSubmatch(command)
				if found == nil {
					continue
				}
				args := words("dvt " + fillIn.Replace(found[1]))
				c, _, err := root().Find(args)
				if err != nil {
					t.Errorf("%s: %s: %v", page, command, err)
					continue
				}
				if c.InheritedFlags().Lookup("context") == nil || c.HasParent() && c.Parent().Name() == "context" ||
					c.Flags().Lookup("temporal") != nil || c.Flags().Lookup("store") != nil ||
					c.CommandPath() == "dvt export verify" {
					continue // it calls no server
				}
				if c.Flags().Lookup("yes") != nil {
					args = append(args, "--yes")
				}
				for i, arg := range args {
					if i > 0 && fileArgument.MatchString(arg) {
						content := twoSteps
						switch c.Parent().Name() {
						case "policy":
							content = "grants: []"
						case "quota":
							content = "tenant: {}"
						case "retention":
							content = "stepLogs: 30"
						}
						if err := os.WriteFile(arg, []byte(content), 0o600); err != nil {
							t.Fatal(err)
						}
					}
				}
				if out, status, err := dvt(t, "http://127.0.0.1:1", "t", args...); status != 1 ||
					!strings.Contains(text(err), "no dvt answers") {
					t.Errorf("%s: %s: status %d, %v, want only the missing server\n%s", page, command, status, err, out)
				}
				ran++
			}
		}
	}
	if ran < 30 {
		t.Errorf("found %d commands, want at least 30", ran)
	}
}
