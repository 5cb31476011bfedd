package archtest_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/internal/archtest"
	"github.com/dvt-engine/dvt/internal/checkout"
	"github.com/dvt-engine/dvt/run"
)

var update = flag.Bool("update", false, "write the table of codes into docs/operations.md")

const operations = "docs/operations.md"

func text(t *testing.T, name string) string {
	t.Helper()
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := archtest.ReadText(root, name)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// section is what stands between two lines of a page that begin so.
func section(t *testing.T, page, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "\n"+from)
	body, _, end := strings.Cut(rest, "\n"+to)
	if !ok || !end {
		t.Fatalf("%s has no part between %q and %q", operations, from, to)
	}
	return body
}

func TestOperations_CodesAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	want.WriteString("\n\n| Code | HTTP | Try again | Meaning | What to do |\n|---|---|---|---|---|\n")
	for _, c := range run.CodeTable() {
		status, retry := "–", "no"
		if c.HTTPStatus != 0 {
			status = fmt.Sprint(c.HTTPStatus)
		}
		if c.Retry {
			retry = "yes"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s | %s |\n", c.Code, status, retry, c.Meaning, c.WhatToDo)
	}
	page := text(t, operations)
	const from, to = "<!-- codes: from run.CodeTable, by: go test ./internal/archtest -run Operations -update -->",
		"<!-- end of codes -->"
	got := section(t, page, from, to) + "\n"
	if got == want.String() {
		return
	}
	if !*update {
		t.Fatalf("%s differs from run.CodeTable: go test ./internal/archtest -run Operations -update (-want +got):\n%s",
			operations, cmp.Diff(want.String(), got))
	}
	root, _ := repository(t)
	page = strings.Replace(page, from+got, from+want.String(), 1)
	if err := os.WriteFile(filepath.Join(root, operations), []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestOperations_ListsEverySetting(t *testing.T) {
	t.Parallel()
	var config string
	_, files := repository(t)
	for _, name := range files {
		if strings.HasPrefix(name, "server/config") && strings.HasSuffix(name, ".go") &&
			!strings.HasSuffix(name, "_test.go") {
			config += text(t, name)
		}
	}
	var want []string
	for _, m := range regexp.MustCompile("`koanf:\"([a-z-]+)\"`").FindAllStringSubmatch(config, -1) {
		want = append(want, m[1])
	}
	_, known, _ := strings.Cut(config, "strings.Fields(`")
	known, _, _ = strings.Cut(known, "`")
	want = slices.DeleteFunc(append(want, strings.Fields(known)...), func(key string) bool { return key == "-" })
	var got []string
	for _, m := range tableName.FindAllStringSubmatch(section(t, text(t, operations), "## Settings\n", "## Accounts\n"),
		-1) {
		got = append(got, m[1])
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(slices.Compact(want), got); diff != "" || len(got) == 0 {
		t.Errorf("settings of server/config*.go and of %s (-want +got):\n%s", operations, diff)
	}
}

func TestOperations_ListsEveryCloseCode(t *testing.T) {
	t.Parallel()
	codes := func(text, pattern string) (out []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			out = append(out, m[1])
		}
		return out
	}
	want := codes(text(t, "graph/ws/ws.go"), `(?m)^//\t(\d{4})  `)
	got := codes(text(t, operations), `(?m)^\| (\d{4}) \|`)
	if diff := cmp.Diff(want, got); diff != "" || len(got) == 0 {
		t.Errorf("close codes of graph/ws and of %s (-want +got):\n%s", operations, diff)
	}
}

// Every package of the import table that a user of the architecture meets stands on its page.
func TestArchitecture_NamesEveryPackage(t *testing.T) {
	t.Parallel()
	page := text(t, "docs/architecture.md")
	for dir := range imports {
		if dir != "." && !strings.Contains("/"+dir, "/internal/") && !strings.Contains(page, "`"+dir+"`") {
			t.Errorf("docs/architecture.md does not name %s", dir)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)

// A link from one page of the repository to another leads somewhere.
func TestDocs_LinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	root, files := repository(t)
	for _, name := range files {
		if filepath.Ext(name) != ".md" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(text(t, name), -1) {
			if strings.Contains(m[1], ":") || strings.HasPrefix(m[1], "docs/images/") {
				continue // another site; pictures are made by hand
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			}
		}
	}
}
