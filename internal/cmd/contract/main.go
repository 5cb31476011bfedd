// Command contract prints each acceptance check of docs/contract with the tests that prove it, then the checks without
// a test. `contract status` writes docs/contract/status.md from docs/contract/marks.txt.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/dvt-engine/dvt/internal/archtest"
	"github.com/dvt-engine/dvt/internal/checkout"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 0:
		err = list(out)
	case len(args) == 1 && args[0] == "status":
		err = writeStatus()
	default:
		err = errors.New("usage: contract [status]")
	}
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func writeStatus() error {
	root, err := checkout.Root()
	if err != nil {
		return err
	}
	marks, err := archtest.LoadMarks(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, archtest.StatusFile), []byte(archtest.StatusPage(marks)), 0o644)
}

func list(out io.Writer) error {
	root, err := checkout.Root()
	if err != nil {
		return err
	}
	contract, err := archtest.LoadContract(root)
	if err != nil {
		return err
	}
	files, err := archtest.Files(root)
	if err != nil {
		return err
	}
	tests, err := archtest.Tests(root, files)
	if err != nil {
		return err
	}
	testsOf := map[string][]string{} // names of tests by the id of a check
	for _, t := range tests {
		for _, id := range t.IDs {
			testsOf[id] = append(testsOf[id], t.Name)
		}
	}
	var uncovered []archtest.Check
	for _, check := range contract.Checks {
		names := testsOf[check.ID]
		if len(names) == 0 {
			uncovered = append(uncovered, check)
			continue
		}
		fmt.Fprintf(out, "%-5s %s\n", check.ID, check.Title)
		for _, name := range names {
			fmt.Fprintf(out, "      %s\n", name)
		}
	}
	fmt.Fprintln(out, "\nNo test proves these yet:")
	for _, check := range uncovered {
		fmt.Fprintf(out, "%-5s %s\n", check.ID, check.Title)
	}
	fmt.Fprintf(out, "\n%d of %d checks have tests, %d have none yet.\n",
		len(contract.Checks)-len(uncovered), len(contract.Checks), len(uncovered))
	return nil
}
