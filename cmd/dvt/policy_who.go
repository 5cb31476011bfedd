package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
)

// mostNames is how many principals the API names at most.
const mostNames = 10

func (s *session) policyWho() *cobra.Command {
	return &cobra.Command{
		Use: "who ACTION RUN", Short: "Who may do that to a run: at most ten principals", Args: exact(2),
		Long: "Name principals of the tenant that may do ACTION to RUN, at most ten, one a line. ACTION is a word such as CANCEL, retry-step\n" +
			"or APPROVE; a wrong one is answered with all there are. Takes the right to read the policy there.",
		RunE: func(c *cobra.Command, args []string) error {
			action, err := wordOf("ACTION", args[0], client.AllAction)
			if err != nil {
				return err
			}
			out, err := client.WhoCould(c.Context(), s.client, string(action), args[1])
			if err != nil {
				return failure(err)
			}
			if s.output.data() {
				return s.print(out.WhoCould)
			}
			for _, name := range out.WhoCould {
				fmt.Fprintln(s.out, oneLine(name))
			}
			switch len(out.WhoCould) {
			case 0:
				fmt.Fprintf(s.err, "Nobody may %s this run.\n", action)
			case mostNames:
				fmt.Fprintln(s.err, "There may be more: dvt policy show")
			}
			return nil
		},
	}
}
