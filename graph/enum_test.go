package graph_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	gql "github.com/vektah/gqlparser/v2/ast"

	"github.com/dvt-engine/dvt"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
)

// A constant that is added in Go but not in the schema would break typed clients or become UNKNOWN.
// contract: T153
func TestEnums_EveryConstantIsInTheSchema(t *testing.T) {
	t.Parallel()
	schema, err := gqlparser.LoadSchema(&gql.Source{Input: dvt.Schema})
	if err != nil {
		t.Fatal(err)
	}
	for enum, from := range map[string]struct{ dir, typeName string }{
		"RunStatus":         {"run", "Status"},
		"RunSubstatus":      {"run", "Substatus"},
		"StepStatus":        {"run", "StepStatus"},
		"FailureCategory":   {"run", "Category"},
		"SignalType":        {"run", "SignalType"},
		"SignalApplication": {"run", "Application"},
		"SyncState":         {"live", "Sync"},
		"SyncReason":        {"live", "Reason"},
		"Role":              {"authz", "Role"},
		"TokenKind":         {"store", "TokenKind"},
	} {
		found := constants(t, from.dir, from.typeName)
		if len(found) < 2 {
			t.Errorf("found the constants %v of %s.%s, want at least two", found, from.dir, from.typeName)
		}
		for _, c := range found {
			if schema.Types[enum].EnumValues.ForName(c) == nil {
				t.Errorf("the enum %s of the schema lacks %s of %s.%s", enum, c, from.dir, from.typeName)
			}
		}
	}
}

// constants returns the values of the exported constants of a type. Unexported ones, such as labels of metrics, are not
// part of the API.
func constants(t *testing.T, dir, typeName string) []string {
	t.Helper()
	var out []string
	files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != typeName {
				return true
			}
			for i, v := range spec.Values {
				if !spec.Names[i].IsExported() {
					continue
				}
				if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					s, _ := strconv.Unquote(lit.Value)
					out = append(out, s)
				}
			}
			return true
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// A later version may have stored words that this schema does not have.
// contract: S15, T153
func TestEnums_UnknownWordsAreUNKNOWNWithTheRawWord(t *testing.T) {
	t.Parallel()
	f := newAnsweringFake()
	f.run = func(authz.Principal, string, *run.Seq) (control.RunView, error) {
		v := failedRun()
		v.State.Status = "ARCHIVED"
		failed := *v.State.Steps[1]
		failed.Status, failed.Substatus = "FROZEN", "NAPPING"
		failed.Attempts = slices.Clone(failed.Attempts)
		failed.Attempts[0].Status, failed.Attempts[0].Error = "FROZEN", &run.StepError{Category: "COSMIC"}
		v.State.Steps[1] = &failed
		return v, nil
	}
	f.receipt = func(string, string) (runs.SignalReceipt, error) { return receipt("TELEPORT"), nil }
	a := serve(t, f)
	got := a.query(`{ run(runId: "r1") { status statusRaw step(stepId: "build") { status statusRaw substatus attempts { status statusRaw error { category } } } }
		signal(runId: "r1", signalId: "s") { type typeRaw } }`, nil)
	want := `{"data":{"run":{"status":"UNKNOWN","statusRaw":"ARCHIVED","step":{"status":"UNKNOWN","statusRaw":"FROZEN","substatus":"UNKNOWN",` +
		`"attempts":[{"status":"UNKNOWN","statusRaw":"FROZEN","error":{"category":"UNKNOWN"}}]}},"signal":{"type":"UNKNOWN","typeRaw":"TELEPORT"}}}`
	if got != want || strings.Contains(a.logs.String(), "error") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
