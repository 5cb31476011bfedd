package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
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

// runParams are the flags that give the parameters of a new run.
type runParams struct {
	file string
	each []string // NAME=VALUE
}

// flags adds the flags to c. more is added to the help of --params.
func (p *runParams) flags(c *cobra.Command, more string) {
	c.Flags().StringVar(&p.file, "params", "",
		"file with the parameters of the run (JSON or YAML; - reads standard input)"+more)
	c.Flags().StringArrayVar(&p.each, "param", nil,
		"a parameter as NAME=VALUE; can be repeated; it replaces that of --params. VALUE is JSON, or else text")
}

// document returns the parameters as a JSON object, or nil when none are given.
func (p *runParams) document(stdin io.Reader) (*json.RawMessage, error) {
	if p.file == "" && len(p.each) == 0 {
		return nil, nil //nolint:nilnil // no parameters are given, and that is no error
	}
	all := map[string]json.RawMessage{}
	if p.file != "" {
		doc, err := readObject(p.file, stdin)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(doc, &all); err != nil {
			return nil, err
		}
	}
	for _, given := range p.each {
		name, value, ok := strings.Cut(given, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--param must be NAME=VALUE, not %q", given)
		}
		all[name] = json.RawMessage(value)
		if !json.Valid(all[name]) {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			all[name] = text
		}
	}
	doc, err := json.Marshal(all)
	raw := json.RawMessage(doc)
	return &raw, err
}

// readObject reads a document, JSON or YAML, that must be an object with a value for each name, and returns it as JSON.
func readObject(name string, stdin io.Reader) (json.RawMessage, error) {
	doc, err := document.Read(name, stdin)
	if err == nil && !bytes.HasPrefix(bytes.TrimSpace(doc), []byte("{")) {
		err = fmt.Errorf(`%s must contain a value for each name, such as {"threads": 4}`, document.Name(name))
	}
	return doc, err
}

// plainJSON returns a JSON text with <, > and & as themselves: the API escapes them, which people cannot read in a
// command of a shell. A text that is not JSON stays.
func plainJSON(doc string) string {
	d := json.NewDecoder(strings.NewReader(doc))
	d.UseNumber()
	var v any
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if d.Decode(&v) != nil || e.Encode(v) != nil {
		return doc
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// pairsInWords returns the members of an object as NAME=VALUE pairs, those of first before the others, which are sorted
// by name. Text has no quotes.
func pairsInWords(all map[string]json.RawMessage, first ...string) string {
	names := slices.DeleteFunc(slices.Clone(first), func(name string) bool { return all[name] == nil })
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(first, name) {
			names = append(names, name)
		}
	}
	pairs := make([]string, len(names))
	for i, name := range names {
		value := plainJSON(string(all[name]))
		if text := ""; json.Unmarshal(all[name], &text) == nil {
			value = text
		}
		pairs[i] = console.OneLine(name + "=" + value)
	}
	return strings.Join(pairs, ", ")
}

// namesOfParams returns the sorted names of parameters, without their values, which may be secret.
func namesOfParams(doc json.RawMessage) string {
	var all map[string]json.RawMessage
	if json.Unmarshal(doc, &all) != nil || len(all) == 0 {
		return "none"
	}
	return console.OneLine(strings.Join(slices.Sorted(maps.Keys(all)), ", "))
}

// paramsInWords returns the parameters of a run as the NAME=VALUE pairs of --param, sorted by name.
func paramsInWords(doc json.RawMessage) string {
	var all map[string]json.RawMessage
	if json.Unmarshal(doc, &all) != nil {
		return console.OneLine(string(doc)) // parameters need not be an object
	}
	return pairsInWords(all)
}
