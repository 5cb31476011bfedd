package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed plans/*.yaml
var samples embed.FS

// sampleTypes are the kinds of sample plans, by what their steps do.
func sampleTypes() (out []string) {
	files, _ := fs.Glob(samples, "plans/*.yaml") // the pattern is good
	for _, f := range files {
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(f, "plans/"), ".yaml"))
	}
	return out
}

func (p *planning) newCommand() *cobra.Command {
	var kind string
	c := &cobra.Command{
		Use: "new [FILE]", Short: "Write a plan to begin with: valid, with comments", Args: cobra.MaximumNArgs(1),
		Long: "Writes a plan in YAML that is valid and says what its parts are for, to standard output or to a file that is not there yet.",
		RunE: func(_ *cobra.Command, args []string) error {
			if !slices.Contains(sampleTypes(), kind) {
				return usage(fmt.Errorf("--type must be one of %s", strings.Join(sampleTypes(), ", ")))
			}
			doc, err := samples.ReadFile("plans/" + kind + ".yaml")
			if err != nil {
				return err
			}
			if len(args) == 0 || args[0] == "-" {
				_, err = p.out.Write(doc)
				return err
			}
			f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return usage(fmt.Errorf("%s is there already: give another name", args[0]))
			}
			if err != nil {
				return fmt.Errorf("%s cannot be written: %w", args[0], errors.Unwrap(err))
			}
			_, err = f.Write(doc)
			return errors.Join(err, f.Close())
		},
	}
	c.Flags().StringVar(&kind, "type", "command", "what its steps do: "+strings.Join(sampleTypes(), ", "))
	_ = c.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(sampleTypes(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return c
}
