package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
)

func (p *planning) newCommand() *cobra.Command {
	m := sample{ID: "my-plan"}
	c := &cobra.Command{
		Use: "new [FILE]", Short: "Write a plan to begin with: valid, with comments", Args: cobra.MaximumNArgs(1),
		Long: "Writes a plan in YAML that is valid and says what its parts are for, to standard output or to a file that " +
			"is not there yet.\n" +
			"dvt workflow new writes the same with tests of it and a README, as a directory.",
		RunE: func(_ *cobra.Command, args []string) error {
			files, err := m.files(p.queues)
			if err != nil {
				return err
			}
			if len(args) == 0 || args[0] == "-" {
				_, err = p.out.Write(files["plan.yaml"])
				return err
			}
			return writeNew(args[0], files["plan.yaml"])
		},
	}
	m.flags(c)
	return c
}

// writeNew makes a file that is not there yet.
func writeNew(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return cmdline.Usage(fmt.Errorf("%s is there already: give another name", name))
	}
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", name, errors.Unwrap(err))
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
