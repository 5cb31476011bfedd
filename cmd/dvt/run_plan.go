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
	"github.com/dvt-engine/dvt/run"
)

// maskedValue replaces, in a plan document of the API, the value of a member whose name looks like that of a secret.
const maskedValue = `"***"`

func (s *session) planOfCommand() *cobra.Command {
	return &cobra.Command{
		Use: "plan RUN", Short: "Print the plan of a run as a document that dvt run start takes",
		Args: cmdline.ExactArgs(1),
		Long: "Print the plan of a run as a document that dvt run start takes: YAML, or JSON with -o json. Values of " +
			"members whose names\n" +
			"look like those of secrets are ***. The document does not contain changes that signals made for this run; see " +
			"dvt run events.",
		RunE: func(c *cobra.Command, args []string) error {
			out, err := client.ReadPlan(c.Context(), s.client, args[0])
			switch {
			case err != nil:
				return cmdline.Failure(err)
			case out.Run == nil:
				return cmdline.NotFound("run")
			case out.Run.PlanDocument == nil:
				return &cmdline.Error{
					Status: notFound, Code: string(run.CodeNotFound), Err: fmt.Errorf(
						"no worker has fetched the plan of run %s yet, or its scope is not that of the run", args[0])}
			}
			doc := *out.Run.PlanDocument
			if bytes.Contains(doc, []byte(maskedValue)) {
				fmt.Fprintln(s.err, "values that look secret are ***: replace them before you start the plan again")
			}
			if s.output == document.JSON {
				return s.print(doc)
			}
			return printYAML(s.out, doc)
		},
	}
}

// printYAML prints a JSON document as YAML and keeps the order of its members.
func printYAML(out io.Writer, doc json.RawMessage) error {
	var node yaml.Node
	if err := yaml.Unmarshal(doc, &node); err != nil {
		return fmt.Errorf("the document cannot be read: %w", err)
	}
	blockStyle(&node)
	enc := yaml.NewEncoder(out)
	enc.SetIndent(2)
	if err := enc.Encode(&node); err != nil {
		return err
	}
	return enc.Close()
}

// blockStyle removes the style of JSON from a node: braces become lines, and quotes that YAML does not need disappear.
func blockStyle(n *yaml.Node) {
	n.Style = 0
	for _, child := range n.Content {
		blockStyle(child)
	}
}
