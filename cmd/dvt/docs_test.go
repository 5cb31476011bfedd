package main

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
)

// words returns the arguments of dvt in a command line. It understands quotes and stops at a pipe, a redirection or &&.
func words(text string) (out []string) {
	if _, after, piped := strings.Cut(text, "| dvt "); piped {
		text = "dvt " + after
	}
	if _, after, given := strings.Cut(text, "<(dvt "); given {
		text = "dvt " + strings.TrimSuffix(after, ")")
	}
	for _, m := range regexp.MustCompile(`"([^"]*)"|(\S+)`).FindAllStringSubmatch(text, -1) {
		if slices.Contains([]string{"|", ">", "&&"}, m[0]) {
			break
		}
		out = append(out, cmp.Or(m[1], m[2]))
	}
	return out[1:]
}

func TestExamples_EveryCommandHasOnesThatParse(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	walk(root(), func(c *cobra.Command) {
		known[c.CommandPath()] = true
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for text := range strings.Lines(c.Example) {
			found, rest, err := root().Find(words(strings.TrimSpace(text)))
			if err != nil || found.CommandPath() != c.CommandPath() {
				t.Errorf("%s: %s is an example of %s, %v", c.CommandPath(), text, found.CommandPath(), err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%s: %v", text, err)
			} else if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	})
	for path := range cmdline.Examples {
		if !known[path] {
			t.Errorf("there are examples of %s, which is not a command", path)
		}
	}
}

const guidePage = "../../docs/cli.md"

// docs/cli.md is generated from the help texts. With -update the test writes it.
func TestDocs_PageIsCurrent(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(guidePage)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "<!-- commands: from cmd/dvt, by: go test ./cmd/dvt -run Docs -update -->\n"
	text, got, ok := strings.Cut(string(page), mark)
	if !ok {
		t.Fatalf("%s has no line %q", guidePage, mark)
	}
	want := reference()
	if got == want {
		return
	}
	if !*update {
		t.Fatalf("%s is not current: go test ./cmd/dvt -run Docs -update (-want +got)\n%s", guidePage, gocmp.Diff(want, got))
	}
	if err := os.WriteFile(guidePage, []byte(text+mark+want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// reference returns the description of every command in Markdown, in the order of their names.
func reference() string {
	var b strings.Builder
	group := ""
	walk(root(), func(c *cobra.Command) {
		if top := strings.Fields(c.CommandPath())[1]; top != group {
			group = top
			fmt.Fprintf(&b, "\n## dvt %s\n", top)
			for g := c.Parent(); g.HasParent(); g = g.Parent() {
				if !g.Parent().HasParent() {
					fmt.Fprintf(&b, "\n%s.\n", g.Short)
					if g.Long != "" {
						fmt.Fprintf(&b, "\n%s\n", g.Long)
					}
					flags(&b, "Each of them takes:", g.PersistentFlags())
				}
			}
		}
		if strings.Count(c.CommandPath(), " ") > 1 {
			fmt.Fprintf(&b, "\n### %s\n", c.CommandPath())
		}
		long := cmp.Or(c.Long, c.Short+".")
		if strings.Contains(long, "\n  ") { // keep the indentation
			long = c.Short + ".\n\n```text\n" + long + "\n```"
		}
		fmt.Fprintf(&b, "\n```\n%s\n```\n\n%s\n", c.UseLine(), long)
		flags(&b, "", c.LocalNonPersistentFlags())
		if !c.HasParent() || !c.Parent().HasParent() {
			flags(&b, "", c.PersistentFlags())
		}
		fmt.Fprintf(&b, "\n```sh\n%s\n```\n", cmdline.Examples[c.CommandPath()])
	})
	return b.String()
}

func flags(b *strings.Builder, title string, set *pflag.FlagSet) {
	var rows strings.Builder
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		usual := ""
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" {
			usual = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", name, usual, strings.ReplaceAll(f.Usage, "|", `\|`))
	})
	if rows.Len() > 0 {
		if title != "" {
			fmt.Fprintf(b, "\n%s\n", title)
		}
		fmt.Fprintf(b, "\n| Flag | Default | |\n|---|---|---|\n%s", rows.String())
	}
}
