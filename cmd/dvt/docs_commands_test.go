package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")
	ownCommand = regexp.MustCompile(`(?:^|[\s(])(?:bin/)?dvt (.*)$`)
	filledIn   = strings.NewReplacer("run start -", "run start plan.yaml", "NUMBER:HASH", "7:"+strings.Repeat("a", 64))
	fileGiven  = regexp.MustCompile(`^(?:FILE|[a-z]+\.ya?ml)$`)
)

// Each command that the documents print goes out as it is printed: where no server answers, that is all that stops it.
func TestDocs_CommandsAreTakenAsPrinted(t *testing.T) {
	pages, err := filepath.Glob("../../docs/guides/*.md")
	if err != nil || len(pages) < 4 {
		t.Fatalf("%v, %v", pages, err)
	}
	texts := map[string]string{}
	for _, page := range append(pages, "../../README.md", "../../docs/operations.md") {
		doc, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(page)] = string(doc)
	}
	t.Chdir(alone(t))
	ran := 0
	for page, doc := range texts {
		for _, block := range shellBlock.FindAllStringSubmatch(doc, -1) {
			for line := range strings.Lines(block[1]) {
				command, _, _ := strings.Cut(strings.TrimSpace(line), " #")
				found := ownCommand.FindStringSubmatch(command)
				if found == nil {
					continue
				}
				args := words("dvt " + filledIn.Replace(found[1]))
				c, _, err := root().Find(args)
				if err != nil {
					t.Errorf("%s: %s: %v", page, command, err)
					continue
				}
				if c.InheritedFlags().Lookup("context") == nil || c.HasParent() && c.Parent().Name() == "context" {
					continue // it asks no server
				}
				if c.Flags().Lookup("yes") != nil {
					args = append(args, "--yes")
				}
				for i, arg := range args {
					if i > 0 && fileGiven.MatchString(arg) {
						content := twoSteps
						if c.Parent().Name() == "policy" {
							content = "grants: []"
						}
						if err := os.WriteFile(arg, []byte(content), 0o600); err != nil {
							t.Fatal(err)
						}
					}
				}
				if out, status, err := dvt(t, "http://127.0.0.1:1", "t", args...); status != 1 ||
					!strings.Contains(text(err), "no dvt answers") {
					t.Errorf("%s: %s: status %d, %v\n%s", page, command, status, err, out)
				}
				ran++
			}
		}
	}
	if ran < 30 {
		t.Errorf("only %d commands", ran)
	}
}
