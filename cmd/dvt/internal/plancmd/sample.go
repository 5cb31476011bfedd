package plancmd

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/plan"
)

//go:embed samples
var samples embed.FS

// sample is a workflow for beginners. Its files are templates over these fields.
type sample struct {
	Type, ID, Tenant, Project, Environment string
	At                                     string // creation time, RFC 3339
	Receiver                               string // URL for the notifications of the plan

	receiver func() string // returns Receiver
}

// SampleTypes returns the kinds of samples, which differ in what their steps do.
func SampleTypes() (out []string) {
	files, _ := fs.Glob(samples, "samples/*/plan.yaml") // cannot fail: the pattern is valid
	for _, f := range files {
		out = append(out, path.Base(path.Dir(f)))
	}
	return out
}

func (m *sample) flags(c *cobra.Command) {
	m.At = time.Now().UTC().Format(time.RFC3339)
	c.Flags().StringVar(&m.Type, "type", "command", "what the steps do: "+strings.Join(SampleTypes(), ", "))
	// cannot fail: the flag exists
	_ = c.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(SampleTypes(), cobra.ShellCompDirectiveNoFileComp))
	c.Flags().StringVar(&m.Tenant, "tenant", "acme", "tenant in the plan's scope; the default is that of dvt dev")
	c.Flags().StringVar(&m.Project, "project", "shop", "project in the plan's scope")
	c.Flags().StringVar(&m.Environment, "environment", "dev", "environment in the plan's scope")
}

// files returns the files of the sample by name. Flags that make the plan invalid, such as a wrong id, are a usage
// error.
func (m *sample) files(queues plan.Queues) (map[string][]byte, error) {
	if !slices.Contains(SampleTypes(), m.Type) {
		return nil, cmdline.Usage(fmt.Errorf("--type must be one of %s", strings.Join(SampleTypes(), ", ")))
	}
	m.Receiver = m.receiver()
	templates := map[string]string{"README.md": "samples/README.md"}
	root := path.Join("samples", m.Type)
	if err := fs.WalkDir(samples, root, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			templates[strings.TrimPrefix(name, root+"/")] = name
		}
		return err
	}); err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for name, from := range templates {
		t, err := template.ParseFS(samples, from)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, m); err != nil {
			return nil, err
		}
		out[name] = b.Bytes()
	}
	doc, err := document.ToJSON("plan.yaml", out["plan.yaml"])
	if err == nil {
		_, err = plan.Parse(doc, queues)
	}
	var invalid *plan.InvalidError
	if errors.As(err, &invalid) {
		err = wrongFlags(invalid.Violations)
	}
	if err != nil {
		return nil, cmdline.Usage(err)
	}
	return out, nil
}

// flagOfPath maps the path of a violation to the flag that the value came from.
var flagOfPath = map[string]string{
	"metadata.planId": "--id, or the name of the directory", "scope.tenantId": "--tenant", "scope.projectId": "--project",
	"scope.environmentId": "--environment",
}

// wrongFlags returns an error that reports the violations of a sample's plan by the flags that caused them.
func wrongFlags(vs []plan.Violation) error {
	out := make([]string, len(vs))
	for i, v := range vs {
		out[i] = cmp.Or(flagOfPath[v.Path], v.Path) + ": " + v.Message
	}
	return errors.New(strings.Join(out, "\n  "))
}
