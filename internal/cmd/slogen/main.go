// Command slogen writes the files that follow from the table in internal/slo: rules and dashboards under deploy/, and
// the tables of docs/operations.md. Its argument is the root of the repository.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dvt-engine/dvt/internal/slo"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: slogen ROOT")
		os.Exit(2)
	}
	if err := generate(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func generate(root string) error {
	rules, err := slo.Rules()
	if err != nil {
		return err
	}
	tests, err := slo.RuleTests()
	if err != nil {
		return err
	}
	files := map[string][]byte{slo.RulesFile: rules, slo.TestsFile: tests}
	for _, d := range slo.Dashboards() {
		if files[filepath.Join(slo.DashboardsDir, d.File)], err = d.JSON(); err != nil {
			return err
		}
	}
	page, err := os.ReadFile(filepath.Join(root, slo.Operations))
	if err != nil {
		return err
	}
	text, err := slo.Replace(string(page), slo.MetricsFrom, slo.MetricsTo, slo.MetricsTable())
	if err != nil {
		return err
	}
	if text, err = slo.Replace(text, slo.ObjectivesFrom, slo.ObjectivesTo, slo.ObjectivesTable()); err != nil {
		return err
	}
	files[slo.Operations] = []byte(text)
	// A dashboard that left the table must not stay.
	err = os.RemoveAll(filepath.Join(root, slo.DashboardsDir))
	for name, content := range files {
		path := filepath.Join(root, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644))
	}
	return err
}
