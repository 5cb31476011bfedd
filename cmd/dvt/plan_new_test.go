package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/plancmd"
)

func TestPlanNew_EverySampleIsValid(t *testing.T) {
	t.Parallel()
	if len(plancmd.SampleTypes()) < 4 {
		t.Errorf("the samples are %v, want at least 4", plancmd.SampleTypes())
	}
	for _, kind := range plancmd.SampleTypes() {
		doc, status, err := local(t, "", "plan", "new", "--type", kind)
		if status != 0 || strings.Count(doc, "#") < 8 {
			t.Fatalf("%s: status %d, %v, want a plan with comments\n%s", kind, status, err, doc)
		}
		if out, status, err := local(t, doc, "plan", "validate", "-"); status != 0 {
			t.Errorf("validate %s: status %d, %v, want 0\n%s", kind, status, err, out)
		}
	}
	file := filepath.Join(t.TempDir(), "plan.yaml")
	if _, status, err := local(t, "", "plan", "new", file); status != 0 {
		t.Errorf("%d, %v", status, err)
	}
	if doc, err := os.ReadFile(file); err != nil || !strings.Contains(string(doc), "argv") {
		t.Errorf("%v\n%s", err, doc)
	}
	if _, status, err := local(t, "", "plan", "new", file); status != 2 || !strings.Contains(err.Error(),
		"exists already") {
		t.Errorf("an existing file: status %d, %v, want 2", status, err)
	}
	if _, status, err := local(t, "", "plan", "new", "--type", "perl"); status != 2 ||
		!strings.Contains(err.Error(), "command, dbt") {
		t.Errorf("%d, %v", status, err)
	}
}

// Each violation has a line and a column, in YAML and in JSON. A missing value has those of its parent.
// contract: L01
func TestPlanValidate_LocatesEachViolation(t *testing.T) {
	t.Parallel()
	wrong := strings.ReplaceAll(twoSteps, "[load]", "[lode]")
	wrong = strings.Replace(wrong, "timeout: 1m, ", "", 1)
	for _, c := range []struct {
		doc  string
		want []string
	}{
		{wrong, []string{"standard input:6:5: ", " steps[0].timeout", "standard input:7:49: DANGLING steps[1].dependsOn[0]"}},
		{"{\n  \"schemaVersion\": \"v1.2\",\n\t\"steps\": [{\"stepId\": 1}]\n}\n", []string{"input:1:1: MISSING metadata",
			"input:3:13: "}},
		{"a: [\n", []string{"neither JSON nor YAML", "line "}},
	} {
		_, status, err := local(t, c.doc, "plan", "validate", "-")
		if status != 2 {
			t.Fatalf("status %d, %v, want 2", status, err)
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("want %q in\n%v", want, err)
			}
		}
	}
	var doc struct {
		Valid      bool
		Violations []struct {
			Path string
			Line int
		}
	}
	out, status, _ := local(t, wrong, "plan", "validate", "-", "-o", "json")
	if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.Valid || len(doc.Violations) != 2 ||
		doc.Violations[0].Line == 0 || status != 2 {
		t.Errorf("%d, %v\n%s", status, err, out)
	}
}
