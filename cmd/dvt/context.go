package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/contexts"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
)

// contextCommands are the commands on the file of contexts. They call no server.
type contextCommands struct{ output document.Format }

func contextCommand() *cobra.Command {
	x := &contextCommands{}
	c := &cobra.Command{
		Use: "context", Short: "Name the servers that you use, and where your token for each is",
		Long: "A context is the address of a server, and the file or the environment variable that holds your " +
			"token for it.\n" +
			"Contexts are kept in DVT_CONFIG, or else in dvt/config.yaml under XDG_CONFIG_HOME or ~/.config, with the " +
			"mode 0600.\n" +
			"The file never holds a token. The flags --server, --token and --context win over DVT_SERVER and DVT_TOKEN, " +
			"and those\n" +
			"win over the context in use.",
	}
	document.AddFlag(c, &x.output)
	c.AddCommand(x.list(), x.show(), x.set(), x.use(), x.remove())
	return c
}

// contextRow is a context in the output for programs.
type contextRow struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	contexts.Profile
}

func rowOf(f contexts.File, name string) contextRow {
	return contextRow{Name: name, Current: name == f.Current, Profile: f.Contexts[name]}
}

func (x *contextCommands) print(out io.Writer, rows ...contextRow) error {
	t := &console.Table{Display: console.NewDisplay(out, console.ColourAuto), Whole: x.output == document.Wide,
		Head: []string{"IN USE", "NAME", "SERVER",
			"TOKEN"}}
	for _, r := range rows {
		mark := ""
		if r.Current {
			mark = "*"
		}
		t.Row(mark, r.Name, r.Server, r.Where())
	}
	return t.Print()
}

func (x *contextCommands) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List your contexts", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := contexts.Read()
			if err != nil {
				return err
			}
			rows := []contextRow{}
			for _, name := range slices.Sorted(maps.Keys(f.Contexts)) {
				rows = append(rows, rowOf(f, name))
			}
			if x.output.IsData() {
				return x.output.Write(c.OutOrStdout(), rows)
			}
			if len(rows) == 0 {
				fmt.Fprintln(c.ErrOrStderr(), "There is no context yet: dvt context set NAME --server ADDRESS --token-file FILE")
				return nil
			}
			return x.print(c.OutOrStdout(), rows...)
		},
	}
}

func (x *contextCommands) show() *cobra.Command {
	return &cobra.Command{
		Use: "show [NAME]", Short: "Show a context; default: the one in use", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: contextNames,
		RunE: func(c *cobra.Command, args []string) error {
			f, err := contexts.Read()
			if err != nil {
				return err
			}
			name := strings.Join(append(args, f.Current)[:1], "")
			if _, err := f.Find(name); err != nil {
				return err
			}
			if x.output.IsData() {
				return x.output.Write(c.OutOrStdout(), rowOf(f, name))
			}
			return x.print(c.OutOrStdout(), rowOf(f, name))
		},
	}
}

func (x *contextCommands) set() *cobra.Command {
	var p contexts.Profile
	c := &cobra.Command{
		Use: "set NAME", Short: "Create or replace a context; the first one is in use at once", Args: cmdline.ExactArgs(1),
		ValidArgsFunction: contextNames,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if p.TokenFile != "" {
				if p.TokenFile, err = filepath.Abs(p.TokenFile); err != nil {
					return err
				}
			}
			if err := p.Check(); err != nil {
				return err
			}
			return x.change(c, args[0], func(f *contexts.File) error {
				f.Contexts[args[0]] = p
				if f.Current == "" {
					f.Current = args[0]
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&p.Server, "server", "", "address of dvt")
	c.Flags().StringVar(&p.TokenFile, "token-file", "", "file that holds the token, with the mode 0600")
	c.Flags().StringVar(&p.TokenEnv, "token-env", "", "name of the environment variable that holds the token")
	_ = c.MarkFlagRequired("server") // cannot fail: the flag exists
	return c
}

func (x *contextCommands) use() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Use a context from now on", Args: cmdline.ExactArgs(1), ValidArgsFunction: contextNames,
		RunE: func(c *cobra.Command, args []string) error {
			return x.change(c, args[0], func(f *contexts.File) error {
				_, err := f.Find(args[0])
				f.Current = args[0]
				return err
			})
		},
	}
}

func (x *contextCommands) remove() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Delete a context; the file of its token stays", Args: cmdline.ExactArgs(1),
		ValidArgsFunction: contextNames,
		RunE: func(c *cobra.Command, args []string) error {
			return x.change(c, args[0], func(f *contexts.File) error {
				if _, err := f.Find(args[0]); err != nil {
					return err
				}
				delete(f.Contexts, args[0])
				if f.Current == args[0] {
					f.Current = ""
				}
				return nil
			})
		},
	}
}

// change reads the file, calls do to change it, writes it and prints the named context.
func (x *contextCommands) change(c *cobra.Command, name string, do func(*contexts.File) error) error {
	f, err := contexts.Read()
	if err != nil {
		return err
	}
	if err := do(&f); err != nil {
		return err
	}
	if err := f.Write(); err != nil {
		return fmt.Errorf("the file of contexts cannot be written: %w", err)
	}
	_, there := f.Contexts[name]
	switch {
	case !there && x.output.IsData():
		return x.output.Write(c.OutOrStdout(), map[string]string{"deleted": name})
	case !there:
		_, err = fmt.Fprintf(c.OutOrStdout(), "the context %s was deleted\n", name)
		return err
	case x.output.IsData():
		return x.output.Write(c.OutOrStdout(), rowOf(f, name))
	}
	return x.print(c.OutOrStdout(), rowOf(f, name))
}

// contextNames completes the names of contexts for a shell.
func contextNames(_ *cobra.Command, args []string, _ string) (out []cobra.Completion, d cobra.ShellCompDirective) {
	if f, err := contexts.Read(); err == nil && len(args) == 0 {
		for _, name := range slices.Sorted(maps.Keys(f.Contexts)) {
			out = append(out, cobra.CompletionWithDesc(name, f.Contexts[name].Server))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func whoamiCommand() *cobra.Command {
	s := &session{}
	c := s.command("whoami", "Show who you are to the server, and what you may do where")
	c.Args = cmdline.ExactArgs(0)
	c.RunE = func(c *cobra.Command, _ []string) error {
		out, err := client.WhoAmI(c.Context(), s.client)
		if err != nil {
			return cmdline.Failure(err)
		}
		v := out.Viewer
		if s.output.IsData() {
			return s.print(v)
		}
		fmt.Fprintf(s.out, "%s of the tenant %s, at %s\n", v.Principal, v.TenantId, s.server)
		t := s.table("ROLE", "PROJECT", "ENVIRONMENT", "UNTIL")
		for _, g := range v.Grants {
			until := s.when(g.ExpiresAt)
			if g.BreakGlass {
				until += " (break-glass)"
			}
			t.Row(g.Role, g.ProjectId, g.EnvironmentId, until)
		}
		return t.Print()
	}
	return c
}
