package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/plancmd"
)

// contract: Z06
func TestWorkflowNew_WritesAValidPlanAndTestsThatPass(t *testing.T) {
	t.Parallel()
	for _, kind := range plancmd.SampleTypes() {
		dir := filepath.Join(t.TempDir(), "nightly-"+kind)
		out, status, err := local(t, "", "workflow", "new", dir, "--type", kind, "--project", "yes", "--environment", "prod")
		if status != 0 || !strings.Contains(out, "dvt run start "+dir) {
			t.Fatalf("%s: %d, %v\n%s", kind, status, err, out)
		}
		plan := filepath.Join(dir, "plan.yaml")
		if out, status, err := local(t, "", "plan", "validate", plan); status != 0 || !strings.Contains(out, "nightly-"+
			kind) {
			t.Errorf("%s: %d, %v\n%s", kind, status, err, out)
		}
		tests, _ := filepath.Glob(filepath.Join(dir, "tests", "*.yaml")) // the pattern is good
		if len(tests) < 2 {
			t.Errorf("%s: %v", kind, tests)
		}
		for _, script := range tests {
			if out, status, err := local(t, "", "plan", "test", plan, "--script", script); status != 0 {
				t.Errorf("%s: %d, %v\n%s", script, status, err, out)
			}
		}
		if doc, err := os.ReadFile(plan); err != nil || !strings.Contains(string(doc), `projectId: "yes"`) ||
			!strings.Contains(string(doc), `environmentId: "prod"`) {
			t.Errorf("%s: %v\n%s", kind, err, doc)
		}
		readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
		if err != nil || !strings.HasPrefix(string(readme), "# nightly-"+kind+"\n") ||
			strings.Contains(string(readme), "{{") {
			t.Errorf("%s: %v\n%s", kind, err, readme)
		}
		for text := range strings.Lines(string(readme)) {
			command := strings.TrimSpace(text)
			if !strings.HasPrefix(command, "dvt ") {
				continue
			}
			if found, rest, err := root().Find(words(command)); err != nil || found.ParseFlags(rest) != nil ||
				found.ValidateArgs(found.Flags().Args()) != nil {
				t.Errorf("%s: the command %q in the README does not parse", kind, command)
			}
		}
	}
}

func TestWorkflowNew_OverwritesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mine := filepath.Join(dir, "plan.yaml")
	if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{dir}, "is not empty"},
		{[]string{mine}, "cannot be a directory"},
		{[]string{filepath.Join(dir, "b"), "--type", "perl"}, "command, dbt"},
		{[]string{filepath.Join(dir, "b"), "--id", "no id"}, `--id, or the name of the directory: "no id" is not an id`},
		{[]string{filepath.Join(dir, "my flow"), "--tenant", ""}, "\n  --tenant: "},
		{nil, "usage"},
	} {
		if out, status, err := local(t, "", append([]string{"workflow", "new"}, c.args...)...); status != 2 ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %d, %v\n%s", c.args, status, err, out)
		}
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) != 1 {
		t.Errorf("the directory has %v, %v, want only the file of the test", there, err)
	}
	var doc struct {
		PlanID string
		Files  []string
	}
	out, status, err := local(t, "", "workflow", "new", filepath.Join(dir, "b"), "--id", "c", "-o", "json")
	if jerr := json.Unmarshal([]byte(out), &doc); jerr != nil || status != 0 || doc.PlanID != "c" || len(doc.Files) != 5 {
		t.Errorf("%d, %v, %v\n%s", status, err, jerr, out)
	}
}
