// Command chart works on the chart of dvt in deploy/helm/dvt with the engine of Helm itself:
//
//	chart table                        prints docs/helm-values.md, the table of values, from the schema and the defaults
//	chart template [-values FILE]...   prints the objects of an installation, as `helm template` does
//
// Its tests are the suite chart.
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// chartDir is the directory of the chart in the repository.
const chartDir = "deploy/helm/dvt"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: chart table | chart template [-values FILE]…")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	root := flags.String("root", ".", "root of the repository")
	var files []string
	flags.Func("values", "file of values; later ones win", func(f string) error {
		files = append(files, f)
		return nil
	})
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	c, err := loader.LoadDir(path.Join(*root, chartDir))
	if err != nil {
		return err
	}
	switch args[0] {
	case "table":
		text, err := table(c)
		if err == nil {
			_, err = fmt.Print(text)
		}
		return err
	case "template":
		values := map[string]any{}
		for _, f := range files {
			v, err := chartutil.ReadValuesFile(f)
			if err != nil {
				return err
			}
			values = chartutil.MergeTables(v, values)
		}
		documents, err := render(c, values, "1.34.0")
		for _, d := range documents {
			fmt.Printf("---\n%s\n", d)
		}
		return err
	}
	return fmt.Errorf("unknown command %s", args[0])
}

// render returns the documents of an installation called dvt, in the order of their templates. An unknown value, and a
// value that the schema refuses, is an error.
func render(c *chart.Chart, values map[string]any, kubernetes string) (documents []string, err error) {
	version, err := chartutil.ParseKubeVersion("v" + kubernetes)
	if err != nil {
		return nil, err
	}
	capabilities := *chartutil.DefaultCapabilities
	capabilities.KubeVersion = *version
	options := chartutil.ReleaseOptions{Name: "dvt", Namespace: "dvt", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c, values, options, &capabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Engine{Strict: true}.Render(c, all)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if strings.HasSuffix(name, ".txt") || strings.HasPrefix(path.Base(name), "_") {
			continue
		}
		for d := range strings.SplitSeq("\n"+rendered[name], "\n---\n") {
			if hasContent(d) {
				documents = append(documents, strings.TrimSpace(d))
			}
		}
	}
	return documents, nil
}

func hasContent(document string) bool {
	for line := range strings.Lines(document) {
		if line = strings.TrimSpace(line); line != "" && line != "---" && !strings.HasPrefix(line, "#") {
			return true
		}
	}
	return false
}
