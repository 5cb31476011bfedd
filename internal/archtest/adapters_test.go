package archtest_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// maxAdapterFiles bounds an adapter of the store, so that one finds a subject by the name of its file.
const maxAdapterFiles = 40

// oneAdapterOnly lists the files that the other adapter of the store does not have, with the reason.
var oneAdapterOnly = map[string]string{
	"postgres/append_call.go":   "an append is one call of a function of the database: its arguments and its answer",
	"postgres/append_plain.go":  "the functions for plain events: one, or one of each of many runs",
	"postgres/create_rows.go":   "new runs of many callers are written by column; SQLite's writer takes them one by one",
	"postgres/migrate_ahead.go": "work ahead of a migration, beside other servers; a file of SQLite has one process",
	"postgres/roles.go":         "rights of database roles, which SQLite does not have",
	"sqlite/facts.go":           "what the authority asks of the log, in statements for many rows",
	"sqlite/functions.go":       "functions that SQLite lacks and PostgreSQL has in its baseline",
	"sqlite/group.go":           "callers that wait for the writer share a commit; PostgreSQL has store/coalesce",
	"sqlite/reader.go":          "connections for reads, which the writer does not block",
	"sqlite/writer.go":          "the one connection for writes",
}

// The adapters are read side by side: the same subject is in a file of the same name.
func TestAdapters_MirrorEachOther(t *testing.T) {
	t.Parallel()
	files := map[string][]string{}
	for _, adapter := range []string{"postgres", "sqlite"} {
		files[adapter] = adapterFiles(t, adapter)
		if n := len(files[adapter]); n > maxAdapterFiles {
			t.Errorf("store/%s has %d files; join small files of one subject, at most %d", adapter, n, maxAdapterFiles)
		}
	}
	found := map[string]bool{}
	for adapter, other := range map[string]string{"postgres": "sqlite", "sqlite": "postgres"} {
		for _, name := range files[adapter] {
			file := adapter + "/" + name
			_, excepted := oneAdapterOnly[file]
			switch mirrored := slices.Contains(files[other], name); {
			case mirrored && excepted:
				t.Errorf("store/%s is listed as an exception, and store/%s has such a file: remove the exception", file, other)
			case !mirrored && !excepted:
				t.Errorf("store/%s has no %s: give the file the name of its subject there, or list it with a reason", other, name)
			}
			found[file] = true
		}
	}
	for _, file := range slices.Sorted(maps.Keys(oneAdapterOnly)) {
		if !found[file] {
			t.Errorf("the exceptions list store/%s, which does not exist", file)
		}
	}
}

// Methods that both adapters have in one file stand in the same order.
func TestAdapters_MethodsStandInTheSameOrder(t *testing.T) {
	t.Parallel()
	postgres, sqlite := adapterMethods(t, "postgres"), adapterMethods(t, "sqlite")
	for _, name := range slices.Sorted(maps.Keys(postgres)) {
		both := func(methods, others []string) (out []string) {
			for _, m := range methods {
				if slices.Contains(others, m) {
					out = append(out, m)
				}
			}
			return out
		}
		want, got := both(postgres[name], sqlite[name]), both(sqlite[name], postgres[name])
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("order of methods in %s (-store/postgres +store/sqlite):\n%s", name, diff)
		}
	}
	for name, methods := range postgres {
		for other, theirs := range sqlite {
			for _, m := range methods {
				if other != name && slices.Contains(theirs, m) && !slices.Contains(sqlite[name], m) {
					t.Errorf("%s is in store/postgres/%s and in store/sqlite/%s", m, name, other)
				}
			}
		}
	}
}

var portMethod = regexp.MustCompile(`(?m)^func \(\w+ \*?(Store|runTx)\) ([A-Z]\w*)\(`)

// adapterMethods are the exported methods of an adapter's store and transaction, by file, in their order.
func adapterMethods(t *testing.T, adapter string) map[string][]string {
	t.Helper()
	root, _ := repository(t)
	out := map[string][]string{}
	for _, name := range adapterFiles(t, adapter) {
		text, err := os.ReadFile(filepath.Join(root, "store", adapter, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range portMethod.FindAllStringSubmatch(string(text), -1) {
			out[name] = append(out[name], m[1]+"."+m[2])
		}
	}
	return out
}

// adapterFiles are the names of an adapter's Go files that are no tests.
func adapterFiles(t *testing.T, adapter string) (names []string) {
	t.Helper()
	_, files := repository(t)
	for _, f := range files {
		name, ok := strings.CutPrefix(f, "store/"+adapter+"/")
		if ok && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names
}
