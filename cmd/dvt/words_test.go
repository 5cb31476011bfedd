package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
)

func TestWords_WrongArgumentsAreNamedInPlainWords(t *testing.T) {
	t.Parallel()
	address, _ := serve(t)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]struct {
		status int
		says   string
	}{
		"run events r1 --type StepFialed": {2,
			`no event has the type "StepFialed"; did you mean StepFailed?`},
		"run override r1 s1 " + empty + " --yes --reason x": {2, "must contain a value for each name"},
		"run update-params r1 " + empty + " --yes":          {2, "must contain a value for each name"},
		"run start " + empty + " --param x":                 {2, "is not a plan"},
		"service mode foo":                                  {2, "MODE must be one of NORMAL, READ_ONLY, DRAINED"},
		"run show 88":                                       {4, "a short id of a run needs 4 or more characters"},
	} {
		out, status, err := dvt(t, address, "dev-admin", strings.Fields(args)...)
		if status != want.status || err == nil || !strings.Contains(err.Error(), want.says) ||
			strings.Contains(err.Error(), "json:") {
			t.Errorf("dvt %s: status %d, %v, want %d and %q\n%s", args, status, err, want.status, want.says, out)
		}
	}
}

func TestHelp_RefusesUnknownCommandsAndGroupsTheOthers(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct {
		status int
		says   string
	}{
		"help": {0, "\nRuns:\n"}, "help run list": {0, "--environment"}, "help dev": {0, "dvt dev"},
		"help bogus": {2, `there is no command "bogus"`}, "help run lst": {2, "did you mean list?"},
	} {
		out, status, err := local(t, "", strings.Fields(args)...)
		if said := out + text(err); status != want.status || !strings.Contains(said, want.says) {
			t.Errorf("dvt %s: status %d, want %d and %q\n%s", args, status, want.status, want.says, said)
		}
	}
}

func TestHelp_FitsIntoEightyColumns(t *testing.T) {
	t.Parallel()
	all := root()
	all.InitDefaultHelpCmd()
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		var b bytes.Buffer
		c.SetOut(&b)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		part := ""
		for line := range strings.Lines(b.String()) {
			if line = strings.TrimRight(line, "\n"); strings.HasSuffix(line, ":") && line[0] != ' ' {
				part = line
			}
			if part != "Usage:" && part != "Examples:" && utf8.RuneCountInString(line) > 80 {
				t.Errorf("%s --help: want at most 80 columns in\n%s", c.CommandPath(), line)
			}
		}
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	visit(all)
}

func TestPolicyWho_TakesAShortRunID(t *testing.T) {
	t.Parallel()
	address := serveRuns(t, 3)
	if out, status, err := dvt(t, address, "dev-admin", "policy", "who", "cancel", "00000002"); status != 0 {
		t.Errorf("status %d, %v, want principals\n%s", status, err, out)
	}
}

func TestErrors_AreDocumentsForPrograms(t *testing.T) {
	t.Parallel()
	address, _ := serve(t)
	for _, format := range []string{"json", "yaml"} {
		c := root()
		var said strings.Builder
		c.SetErr(&said)
		c.SetArgs([]string{"run", "show", "r2", "-o", format, "--server", address, "--token", "dev-viewer"})
		ran, err := c.ExecuteContextC(t.Context())
		if status := report(ran, err, nil); status != 4 {
			t.Errorf("-o %s: status %d, want 4", format, status)
		}
		if format == "yaml" {
			if !strings.Contains(said.String(), "exitStatus: 4") {
				t.Errorf("-o yaml: the error is %q, want a document", said.String())
			}
			continue
		}
		var doc cmdline.FailureDocument
		if err := json.Unmarshal([]byte(said.String()), &doc); err != nil || doc.Error.ExitStatus != 4 {
			t.Errorf("-o json: %v, the error is %q, want a document with the exit status 4", err, said.String())
		}
	}
	// Standard error has the document only, also where a name stands for the run and the code is not that of the API.
	for args, code := range map[string]string{"run show @failed": "NOT_FOUND", "run skip r1 s1": "FORBIDDEN",
		"bulk rerun --text nothing --from start --reason r --yes": "NOT_FOUND",
		"bulk signal pause --text r1 --reason r --yes":            "FORBIDDEN",
		"run stop r1 --reason r --preview":                        "FORBIDDEN",
		"run logs r1 s1 --attempt 3":                              "NOT_FOUND"} {
		c := root()
		var said strings.Builder
		c.SetErr(&said)
		c.SetOut(io.Discard)
		c.SetArgs(append(strings.Fields(args), "-o", "json", "--server", address, "--token", "dev-viewer"))
		ran, err := c.ExecuteContextC(t.Context())
		report(ran, err, nil)
		var doc cmdline.FailureDocument
		if err := json.Unmarshal([]byte(said.String()), &doc); err != nil || doc.Error.Code != code ||
			strings.Contains(doc.Error.Message, code) {
			t.Errorf("%s -o json: %v, the error is %q, want a document with the code %s", args, err, said.String(), code)
		}
	}
	doc := cmdline.DescribeFailure(cmdline.Failure(&client.Error{Code: "FORBIDDEN", Message: "No.",
		Denial: client.Denial{WhoCould: []string{"ana"}}}))
	if e := doc.Error; e.Code != "FORBIDDEN" || e.Message != "No." || len(e.WhoCould) != 1 || e.ExitStatus != 3 {
		t.Errorf("the document is %+v, want FORBIDDEN with who could", doc)
	}
}

// Every command that takes -o prints one document for a wrong command line, also where -o stands behind the mistake.
func TestUsageErrors_AreOneDocumentForPrograms(t *testing.T) {
	isolateEnvironment(t)
	checked := 0
	lines := [][]string{{"rnu", "-o", "json"}, {"retry", "r1", "--output=json"}, {"run", "retyr", "-ojson"}}
	walk(root(), func(c *cobra.Command) {
		if c.Flag("output") != nil {
			path := strings.Fields(c.CommandPath())[1:]
			lines = append(lines, append(slices.Clone(path), "--no-such-flag", "-o", "json"),
				append(slices.Clone(path), "-o", "json", "a", "b", "c", "d", "e", "f", "g"))
		}
	})
	for _, args := range lines {
		c := root()
		var out, said strings.Builder
		c.SetOut(&out)
		c.SetErr(&said)
		c.SetArgs(args)
		ran, err := c.ExecuteContextC(t.Context())
		if err == nil || cmdline.ExitStatus(err) == 4 || cmdline.ExitStatus(err) == 1 {
			continue // the command takes any number of arguments
		}
		status := report(ran, err, args)
		d := json.NewDecoder(strings.NewReader(said.String()))
		var doc cmdline.FailureDocument
		if err := d.Decode(&doc); err != nil || d.More() || doc.Error.ExitStatus != 2 || status != 2 ||
			doc.Error.Message == "" || out.Len() > 0 {
			t.Errorf("dvt %s: status %d, %v; want one document with the status 2 and nothing else\n%s%s",
				strings.Join(args, " "), status, err, out.String(), said.String())
		}
		checked++
	}
	if checked < 150 {
		t.Errorf("%d command lines were checked, want at least 150", checked)
	}
}

func TestRunStart_SendsParameters(t *testing.T) {
	t.Parallel()
	params := filepath.Join(t.TempDir(), "params.yaml")
	if err := os.WriteFile(params, []byte("day: monday\nrows: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := runParams{file: params, each: []string{"rows=4", "name=a=b", `list=["x"]`, "empty="}}
	doc, err := p.document(strings.NewReader(""))
	if err != nil || string(*doc) != `{"day":"monday","empty":"","list":["x"],"name":"a=b","rows":4}` {
		t.Errorf("the parameters are %s (%v), want those of the file with those of --param over them", *doc, err)
	}
	if doc, err := (&runParams{}).document(nil); doc != nil || err != nil {
		t.Errorf("without flags the parameters are %v (%v), want none", doc, err)
	}
	if _, err := (&runParams{each: []string{"=1"}}).document(nil); err == nil {
		t.Error("--param =1 is accepted, want an error")
	}
}
