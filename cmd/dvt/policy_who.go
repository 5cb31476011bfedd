package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
)

// maxNames is the greatest number of principals that the API returns.
const maxNames = 10

func (s *session) policyWho() *cobra.Command {
	var project, environment string
	c := &cobra.Command{
		Use: "who ACTION [RUN]", Short: "List who may do an action to a run or in an environment: at most ten principals",
		Args: cmdline.RangeArgs(1, 2),
		Long: "Print principals of the tenant that may do ACTION to RUN, or in --project and --environment, at most ten, " +
			"one per line.\n" +
			"ACTION is a word such as CANCEL, retry-step or START; the error for a wrong one lists them all. You need the " +
			"right to read\nthe policy there.",
		RunE: func(c *cobra.Command, args []string) error {
			action, err := cmdline.Word("ACTION", args[0], client.AllAction)
			if err != nil {
				return err
			}
			where, runID := "in "+project+"/"+environment, (*string)(nil)
			if len(args) > 1 {
				where, runID = "to this run", &args[1]
			}
			out, err := client.WhoCould(c.Context(), s.client, string(action), runID, orNil(project), orNil(environment))
			if err != nil {
				return cmdline.Failure(err)
			}
			if s.output.IsData() {
				return s.print(out.WhoCould)
			}
			for _, name := range out.WhoCould {
				fmt.Fprintln(s.out, console.OneLine(name))
			}
			switch len(out.WhoCould) {
			case 0:
				fmt.Fprintf(s.err, "Nobody may do %s %s.\n", action, where)
			case maxNames:
				fmt.Fprintln(s.err, "There may be more: dvt policy show")
			}
			return nil
		},
	}
	c.Flags().StringVar(&project, "project", "", "project, instead of RUN")
	c.Flags().StringVar(&environment, "environment", "", "environment, instead of RUN")
	return c
}
