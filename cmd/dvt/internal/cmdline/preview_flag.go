package cmdline

import "github.com/spf13/cobra"

// AddPreview adds the flags that IsPreview reads.
func AddPreview(c *cobra.Command) {
	c.Flags().Bool("preview", false, "only show what would happen; send nothing")
	c.Flags().Bool("dry-run", false, "another name of --preview")
	_ = c.Flags().MarkHidden("dry-run") // the flag is there
}

// IsPreview reports whether the command must only show what it would do.
func IsPreview(c *cobra.Command) bool {
	for _, name := range []string{"preview", "dry-run"} {
		if yes, err := c.Flags().GetBool(name); err == nil && yes {
			return true
		}
	}
	return false
}
