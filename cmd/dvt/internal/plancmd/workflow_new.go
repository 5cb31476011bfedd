package plancmd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/plan"
)

// NewWorkflow returns the command that writes a sample workflow: a plan, its tests and a README. receiver returns
// the URL for its notifications.
func NewWorkflow(output *document.Format, receiver func() string) *cobra.Command {
	m := sample{receiver: receiver}
	c := &cobra.Command{
		Use: "new DIRECTORY", Short: "Write a sample workflow: a plan, its tests and a README",
		Args: cmdline.ExactArgs(1),
		Long: "Writes a directory that does not exist yet or is empty: plan.yaml, a valid plan that dvt dev runs " +
			"unchanged; tests/*.yaml,\n" +
			"scripts for dvt plan test, which all pass; README.md, the command lines that check and run the plan. The " +
			"command calls no server.",
	}
	c.PersistentPreRunE = func(*cobra.Command, []string) error { return nil } // calls no server
	c.RunE = func(c *cobra.Command, args []string) error {
		dir := args[0]
		whole, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		m.ID = cmp.Or(m.ID, filepath.Base(whole))
		files, err := m.files(plan.DefaultQueues())
		if err != nil {
			return err
		}
		if there, err := os.ReadDir(dir); len(there) > 0 {
			return cmdline.Usage(fmt.Errorf("%s is not empty: give another name", dir))
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cmdline.Usage(fmt.Errorf("%s cannot be a directory: %w", dir, errors.Unwrap(err)))
		}
		names := slices.Sorted(maps.Keys(files))
		for _, name := range names {
			file := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				return fmt.Errorf("%s cannot be written: %w", filepath.Dir(file), errors.Unwrap(err))
			}
			if err := writeNew(file, files[name]); err != nil {
				return err
			}
		}
		if output.IsData() {
			return output.Write(c.OutOrStdout(), map[string]any{"directory": whole, "planId": m.ID, "files": names})
		}
		for _, name := range names {
			fmt.Fprintln(c.OutOrStdout(), filepath.Join(dir, filepath.FromSlash(name)))
		}
		fmt.Fprintf(c.ErrOrStderr(), "start it with: dvt run start %s --watch\n", filepath.Join(dir, "plan.yaml"))
		return nil
	}
	c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	m.flags(c)
	c.Flags().StringVar(&m.ID, "id", "", "id of the plan; default: the name of the directory")
	return c
}
