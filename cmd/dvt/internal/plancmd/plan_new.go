package plancmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
)

func (p *planCommands) newCommand() *cobra.Command {
	m := sample{ID: "my-plan", receiver: p.receiver}
	c := &cobra.Command{
		Use: "new [FILE]", Short: "Write a valid sample plan with comments", Args: cobra.MaximumNArgs(1),
		Long: "Writes a valid plan in YAML with comments that explain its parts, to standard output or to a file that " +
			"does not exist yet.\n" +
			"dvt workflow new writes the same plan with tests and a README, as a directory.",
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

// writeNew writes a new file. It does not overwrite an existing one; that is a usage error.
func writeNew(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return cmdline.Usage(fmt.Errorf("%s exists already: give another name", name))
	}
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", name, errors.Unwrap(err))
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
