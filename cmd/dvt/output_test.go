package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
)

// walk calls f with c, if it is a command that runs, and with each such command below it.
func walk(c *cobra.Command, f func(*cobra.Command)) {
	if c.Runnable() && (!c.HasSubCommands() || c.HasExample()) {
		f(c)
	}
	for _, child := range c.Commands() {
		walk(child, f)
	}
}

// repeatable are the commands that answer the same when they are run twice, with their arguments.
var repeatable = map[string]string{
	"run list": "", "bulk list": "", "run show": "r1", "run diff": "r1 0", "policy who": "PAUSE r1", "manual list": "",
	"dead-letters list": "--all",
	"audit verify":      "", "token list": "", "policy show": "", "policy history": "", "quota show": "",
	"quota history": "",
	"queue list":    "",
	"erasure list":  "",
	"retention get": "", "retention history": "", "hold list": "", "secrets who-read": "",
	"break-glass status": "", "run compare": "r1 r1", "run artifacts": "r1", "run open": "r1",
	"service status": "", "service workers": "", "whoami": "", "workflow replay": recorded + "v1/linear.json",
}

// testedElsewhere are the commands with -o that change something or need another server. They print through the same
// function, and their own tests check that.
var testedElsewhere = strings.Fields(`bulk-signal bulk-rerun bulk-show bulk-watch run-nodes run-plan run-start run-rerun run-logs run-events run-watch run-approve run-pause run-resume run-retry run-skip run-update-params run-override run-set-target
	run-alert run-cancel run-stop manual-complete dead-letters-redrive audit-export workflow-capture token-create token-revoke policy-set
	bulk-stop quota-set service-mode service-drain service-undrain tenant-freeze tenant-unfreeze workflow-debug workflow-new plan-validate plan-test plan-new version health doctor
	alerts-list alerts-show alerts-watch alerts-ack alerts-silence alerts-silences
	destinations-list destinations-show destinations-test destinations-enable destinations-disable destinations-replay destinations-dead-letters destinations-redrive
	incidents-list incidents-show incidents-ack incidents-note incidents-severity incidents-close tenant-recovery
	break-glass-take break-glass-end run-search run-tag run-note run-share run-step tenant-share-links
	context-list context-show context-set context-use context-delete store-verify store-rebuild store-repair store-export store-import store-epoch-bump dr-status dr-promote trace-export
	erasure-confirm erasure-cancel erasure-verify subject-erase tenant-purge store-erase store-replay-erasures
	tenant-export subject-export export-verify migrate preflight smoke config-check config-explain
	retention-preview retention-set hold-place hold-lift secrets-check secrets-export secrets-revoke
	temporal-setup temporal-status temporal-unused dbt-why`)

func TestCommands_HaveHelpAndPrintTheSameAsJSONAndYAML(t *testing.T) {
	address, _ := serve(t)
	isolateEnvironment(t)
	known := map[string]bool{}
	for _, name := range testedElsewhere {
		known[name] = true
	}
	walk(root(), func(c *cobra.Command) {
		name := strings.TrimPrefix(c.CommandPath(), "dvt ")
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("the short help of %s is %q, want a text without a full stop", name, c.Short)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: --%s has no help", name, f.Name)
			}
		})
		args, here := repeatable[name]
		if c.Flag("output") == nil || !here {
			if dashed := strings.ReplaceAll(name, " ", "-"); c.Flag("output") != nil && !known[dashed] {
				t.Errorf("no test checks the output of %s: add it to repeatable or testedElsewhere", name)
			}
			return
		}
		ask := func(format string) string {
			words := append(strings.Fields(name), strings.Fields(args)...)
			for _, token := range []string{"dev-admin", "dev-sre"} {
				out, status, _ := dvt(t, address, token, append(words, "-o", format)...)
				// The run of the fixture has no audit row that created it, which verify reports with the status 1.
				if status == 0 || name == "audit verify" && status == 1 {
					return out
				}
			}
			out, status, err := dvt(t, address, "dev-engineer", append(words, "-o", format)...)
			if status != 0 {
				t.Errorf("%s -o %s: status %d, %v, want 0", name, format, status, err)
			}
			return out
		}
		var j, y any
		doc := ask("json")
		if err := json.Unmarshal([]byte(doc), &j); err != nil {
			t.Errorf("%s: %v in\n%s", name, err, doc)
		}
		text := ask("yaml")
		if err := yaml.Unmarshal([]byte(text), &y); err != nil {
			t.Errorf("%s: %v in\n%s", name, err, text)
		}
		again, err := json.Marshal(y)
		if err != nil {
			t.Fatal(err)
		}
		y = nil
		if err := json.Unmarshal(again, &y); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(j, y); diff != "" {
			t.Errorf("%s: JSON and YAML differ (-json +yaml):\n%s", name, diff)
		}
	})
	if out, status, err := dvt(t, address, "dev-viewer", "run", "list", "-o", "xml"); status != 2 ||
		!strings.Contains(err.Error(), "table, wide, json or yaml") {
		t.Errorf("-o xml: status %d, %v, want 2 and the formats\n%s", status, err, out)
	}
}

func TestWrite_YAMLHasTheValuesOfJSON(t *testing.T) {
	t.Parallel()
	f := document.YAML
	var b bytes.Buffer
	in := map[string]any{"seq": int64(1)<<53 - 1, "ms": 1.5, "text": "yes", "odd": "a\x7f: #\n", "none": nil,
		"list": []string{}, "arrow": "a -> <b>"}
	for range 2 {
		if err := f.Write(&b, in); err != nil {
			t.Fatal(err)
		}
	}
	d := yaml.NewDecoder(&b)
	for range 2 {
		var out map[string]any
		if err := d.Decode(&out); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"seq": 1<<53 - 1, "ms": 1.5, "text": "yes", "odd": "a\x7f: #\n", "none": nil, "list": []any{},
			"arrow": "a -> <b>"}
		if diff := cmp.Diff(want, out); diff != "" {
			t.Errorf("the YAML document differs (-want +got):\n%s", diff)
		}
	}
}
