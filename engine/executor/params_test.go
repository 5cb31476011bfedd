package executor_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
)

// contract: T197
func TestCommand_FindsItsParametersInAFile(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Command, sh(
		`cat "$DVT_PARAMS_FILE"; echo; case "$DVT_PARAMS_FILE" in "$DVT_WORKSPACE"/*) ;; *) exit 4;; esac`))
	j.params = json.RawMessage(`{"day":"mon","n":12345678901234567890}`)
	r := worker(t, j, executor.Config{})
	if end := execute(t, t.Context(), r); end.Completed == nil || j.log() != "output: "+string(j.params)+"\n" {
		t.Errorf("failure %+v, log %q; want the parameters", end.Failed, j.log())
	}
	left, err := filepath.Glob(filepath.Join(r.WorkspaceRoot, "*", ".dvt", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("the step left the files %v behind, error %v", left, err)
	}
	// 200 KiB exceed the limit of an argument and of a variable, but not of a file.
	j = newJournal(t, plan.Command, sh(`wc -c < "$DVT_PARAMS_FILE"`))
	j.params = json.RawMessage(fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 200<<10)))
	if end := execute(t, t.Context(), worker(t, j, executor.Config{})); end.Completed == nil ||
		strings.TrimSpace(j.log()) != fmt.Sprintf("output: %d", len(j.params)) {
		t.Errorf("failure %+v, log %.100q; want the size of the parameters", end.Failed, j.log())
	}
	j = newJournal(t, plan.Command, sh(`echo "${DVT_PARAMS_FILE-none}"`))
	if execute(t, t.Context(), worker(t, j, executor.Config{})); j.log() != "output: none\n" {
		t.Errorf("log %q, want no file without parameters", j.log())
	}
}

// fakeDBT returns a program in place of dbt that prints its --vars and fails.
func fakeDBT(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dbt")
	script := "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = --vars ] && echo \"vars $2\" >&2; shift; done\nexit 2\n"
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// contract: T197
func TestDBT_GetsItsParametersAsVars(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ params, vars, want string }{
		"both":      {`{"day":"mon","n":1}`, `{"n":2}`, `vars {"day":"mon","n":2}`},
		"params":    {`{"day":"mon"}`, ``, `vars {"day":"mon"}`},
		"vars":      {``, `{"n":2}`, `vars {"n":2}`},
		"no object": {`[1]`, `{"n":2}`, `vars {"n":2}`},
		"neither":   {``, ``, ``},
		"too large": {`{"text":"` + strings.Repeat("x", 128<<10) + `"}`, ``, `dbt takes at most 131071`},
	} {
		j := newJournal(t, plan.DBTRun, plan.DBTInputs{ProjectDir: ".", Vars: json.RawMessage(c.vars)})
		j.params = json.RawMessage(c.params)
		end := execute(t, t.Context(), worker(t, j, executor.Config{DBTPath: fakeDBT(t)}))
		if end.Failed == nil || end.Failed.Retryable || !strings.Contains(j.log()+end.Failed.ErrorMessage, c.want) ||
			c.want == "" && strings.Contains(j.log(), "vars") {
			t.Errorf("%s: failure %+v, log %.200q; want %s", name, end.Failed, j.log(), c.want)
		}
	}
}

// UPDATE_TARGET sets vars that a profile reads. The real dbt then writes into the schema that they name. When nothing
// reads them the step fails before dbt writes to the old one.
// contract: T197, R262
func TestDBT_WritesIntoTheTargetOfItsVars(t *testing.T) {
	t.Parallel()
	bin := dbtBin(t)
	project := filepath.Join(t.TempDir(), "root")
	if err := os.CopyFS(filepath.Join(project, "shop"),
		os.DirFS(filepath.Join(repository(t), "examples", "shop"))); err != nil {
		t.Fatal(err)
	}
	profile := filepath.Join(project, "shop", "profiles.yml")
	doc, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	j := newJournal(t, plan.DBTRun, struct{}{})
	r := worker(t, j, executor.Config{DBTPath: filepath.Join(bin, "dbt")})
	r.ProjectRoot = project
	in := plan.DBTInputs{ProjectDir: "shop", Select: "staging",
		Vars: json.RawMessage(fmt.Sprintf(`{"shop_dir":%q,"dvt_target_schema":"restored"}`, t.TempDir()))}
	unread, _ := dbtStep(t, r, j, plan.DBTRun, in)
	wantFailed(t, unread, executor.CodeDBTUsage, false)
	if unread.Failed != nil && !strings.Contains(unread.Failed.ErrorMessage, "no file of the project reads the var "+
		"dvt_target_schema") {
		t.Errorf("a target that the profile does not read fails with %q, want the reason", unread.Failed.ErrorMessage)
	}
	doc = []byte(strings.Replace(string(doc), "      threads: 2",
		"      threads: 2\n      schema: \"{{ var('dvt_target_schema', 'main') }}\"", 1))
	if err := os.WriteFile(profile, doc, 0o600); err != nil {
		t.Fatal(err)
	}
	end, _ := dbtStep(t, r, j, plan.DBTRun, in)
	if end.Completed == nil {
		t.Fatalf("dbt failed with %+v; log:\n%s", end.Failed, j.log())
	}
	if log := j.log(); !strings.Contains(log, "restored.stg_orders") {
		t.Errorf("dbt did not write into the schema restored; log:\n%s", log)
	}
}
