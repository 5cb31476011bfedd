package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
)

// mostNames is how many principals the API names at most.
const mostNames = 10

func (s *session) policyWho() *cobra.Command {
	var project, environment string
	c := &cobra.Command{
		Use: "who ACTION [RUN]", Short: "Who may do that to a run or in a place: at most ten principals",
		Args: cmdline.RangeArgs(1, 2),
		Long: "Name principals of the tenant that may do ACTION to RUN, or else in the place of --project and " +
			"--environment, at most ten, one a\n" +
			"line. ACTION is a word such as CANCEL, retry-step or START; a wrong one is answered with all there are. Takes " +
			"the right to read\nthe policy there.",
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
			case mostNames:
				fmt.Fprintln(s.err, "There may be more: dvt policy show")
			}
			return nil
		},
	}
	c.Flags().StringVar(&project, "project", "", "of a place, instead of RUN")
	c.Flags().StringVar(&environment, "environment", "", "of a place, instead of RUN")
	return c
}
