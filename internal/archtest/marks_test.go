package archtest_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/internal/archtest"
)

func TestMarks_SayWhatTheRepositoryBearsOut(t *testing.T) {
	t.Parallel()
	root, files := repository(t)
	marks, err := archtest.LoadMarks(root)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := archtest.Tests(root, files)
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	for _, test := range tests {
		for _, id := range test.IDs {
			tested[id] = true
		}
	}
	for _, wrong := range archtest.CheckMarks(root, marks, names(t), tested) {
		t.Errorf("%s: %s", archtest.MarksFile, wrong)
	}
	if diff := cmp.Diff(archtest.StatusPage(marks), text(t, archtest.StatusFile)); diff != "" {
		t.Errorf("%s is not current: go run ./internal/cmd/contract status (-want +got):\n%s", archtest.StatusFile, diff)
	}
}

func names(t *testing.T) archtest.Names {
	t.Helper()
	root, files := repository(t)
	n, err := archtest.LoadNames(root, files)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNames_FindsOneOfEachKind(t *testing.T) {
	t.Parallel()
	n := names(t)
	for _, item := range []string{
		"type Run", "field Run.forecast", "field SignalInput.pause", "query runs", "mutation startRun",
		"subscription runUpdates", "setting stop-within", "command dvt run start", "metric projector_lag_seconds",
		"address /engine/health", "code FORBIDDEN", "event StepStarted", "step COMMAND",
	} {
		kind, name, ok := n.Split(item)
		if !ok || !n.Has(kind, name) {
			t.Errorf("%s exists and was not found", item)
		}
	}
	if n.Has("field", "Run.first") {
		t.Error("an argument was taken for a field")
	}
}

// missing is an item of a list of what is not there yet: "* `field Run.cost`: …".
var (
	missing = regexp.MustCompile("(?m)^\\* ((?:`[a-z]+ [^`]+`(?:, )?)+)")
	lacking = regexp.MustCompile(`(?m)^Not there yet:\n\n((?:[* ] .*\n)+)`)
)

// A page that denies what exists sends its readers away. Each list below the line "Not there yet:" has items such as
// `field Run.cost`.
func TestDocs_WhatIsNotThereYetDoesNotExist(t *testing.T) {
	t.Parallel()
	_, files := repository(t)
	n, items := names(t), 0
	for _, file := range files {
		if !strings.HasSuffix(file, ".md") {
			continue
		}
		page := text(t, file)
		if strings.HasPrefix(file, "docs/") && regexp.MustCompile(`\*\*Not yet`).MatchString(page) {
			t.Errorf("%s has a paragraph that begins with Not yet: write a list below the line \"Not there yet:\", "+
				"with items such as `field Run.cost`", file)
		}
		for _, list := range lacking.FindAllStringSubmatch(page, -1) {
			for _, line := range missing.FindAllStringSubmatch(list[1], -1) {
				for _, item := range strings.Split(line[1], ", ") {
					items++
					kind, name, ok := n.Split(strings.Trim(item, "`"))
					if !ok {
						t.Errorf("%s: %s has no kind that can be looked up", file, item)
					} else if n.Has(kind, name) {
						t.Errorf("%s says that %s is not there yet, and it exists", file, item)
					}
				}
			}
		}
	}
	if items < 5 {
		t.Errorf("%d items were read: the lists were not found", items)
	}
}
