// Command contract prints each acceptance check of docs/contract with the tests that prove it, then the checks without
// a test.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/dvt-engine/dvt/internal/archtest"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	err := list(out)
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func list(out io.Writer) error {
	root, err := archtest.Root()
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
	carriers := map[string][]string{}
	for _, t := range tests {
		for _, id := range t.IDs {
			carriers[id] = append(carriers[id], t.Name)
		}
	}
	var uncovered []archtest.Check
	for _, check := range contract.Checks {
		names := carriers[check.ID]
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
