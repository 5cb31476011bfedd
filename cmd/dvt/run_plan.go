package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
)

// masked stands in a plan document for the value of a member whose name looks like a secret's.
const masked = `"***"`

func (s *session) planOfCommand() *cobra.Command {
	return &cobra.Command{
		Use: "plan RUN", Short: "Print the plan that a run runs, as a document that dvt run start takes",
		Args: cmdline.ExactArgs(1),
		Long: "Print the plan that a run runs, as a document that dvt run start takes: YAML, or with -o json JSON. The " +
			"values of members that\n" +
			"look like a secret by their names are ***. What signals changed of it for this run is not in it: dvt run events " +
			"shows that.",
		RunE: func(c *cobra.Command, args []string) error {
			out, err := client.ReadPlan(c.Context(), s.client, args[0])
			switch {
			case err != nil:
				return cmdline.Failure(err)
			case out.Run == nil:
				return cmdline.NotFound("run")
			case out.Run.PlanDocument == nil:
				return &cmdline.Error{
					Status: 4, Err: fmt.Errorf(
						"NOT_FOUND: no worker has fetched the plan of run %s yet, or it is of another place than the run", args[0])}
			}
			doc := *out.Run.PlanDocument
			if bytes.Contains(doc, []byte(masked)) {
				fmt.Fprintln(s.err, "values that look secret are ***: put yours there before you start it again")
			}
			if s.output == document.JSON {
				return s.print(doc)
			}
			return printYAML(s.out, doc)
		},
	}
}

// printYAML prints a JSON document as YAML, its members in the order that they have.
func printYAML(out io.Writer, doc json.RawMessage) error {
	var node yaml.Node
	if err := yaml.Unmarshal(doc, &node); err != nil {
		return fmt.Errorf("the document cannot be read: %w", err)
	}
	unfold(&node)
	enc := yaml.NewEncoder(out)
	enc.SetIndent(2)
	if err := enc.Encode(&node); err != nil {
		return err
	}
	return enc.Close()
}

// unfold makes lines of what JSON has between braces, and takes off quotes that YAML does not need.
func unfold(n *yaml.Node) {
	n.Style = 0
	for _, child := range n.Content {
		unfold(child)
	}
}
