package main

import (
	_ "embed"
	"io"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
)

//go:embed completion.bash
var bashScript string

// shells are those that dvt has completion for, and how each is told of it.
var shells = []struct {
	name, now, always string
	script            func(root *cobra.Command, out io.Writer, bare bool) error
}{
	{"bash", "source <(dvt completion bash)", "dvt completion bash > " +
		"~/.local/share/bash-completion/completions/dvt\n(or, without the package bash-completion, the line above " +
		"in ~/.bashrc)", bashCompletion},
	{"zsh", "source <(dvt completion zsh)", `dvt completion zsh > "${fpath[1]}/_dvt"` +
		"\n(once, if completion is not on: echo \"autoload -U compinit; compinit\" >> ~/.zshrc)",
		func(root *cobra.Command, out io.Writer, bare bool) error {
			if bare {
				return root.GenZshCompletionNoDesc(out)
			}
			return root.GenZshCompletion(out)
		}},
	{"fish", "dvt completion fish | source", "dvt completion fish > ~/.config/fish/completions/dvt.fish",
		func(root *cobra.Command, out io.Writer, bare bool) error {
			return root.GenFishCompletion(out, !bare)
		}},
}

func completionCommand() *cobra.Command {
	c := &cobra.Command{Use: "completion", Short: "Scripts that let a shell complete the command lines of dvt"}
	for _, s := range shells {
		var bare bool
		sub := &cobra.Command{
			Use: s.name, Short: "Print the script for " + s.name, Args: cmdline.ExactArgs(0),
			ValidArgsFunction: cobra.NoFileCompletions,
			Long: "Print the script for " + s.name + ". In a shell that is open it is turned on by\n\n  " + s.now +
				"\n\nand in every new one by\n\n  " + s.always,
			RunE: func(c *cobra.Command, _ []string) error {
				return s.script(c.Root(), c.OutOrStdout(), bare)
			},
		}
		sub.Flags().BoolVar(&bare, "no-descriptions", false, "names alone, without what they are")
		c.AddCommand(sub)
	}
	return c
}

// bashCompletion writes a script that needs no package, and knows that @ is a part of a word.
func bashCompletion(_ *cobra.Command, out io.Writer, bare bool) error {
	request := cobra.ShellCompRequestCmd
	if bare {
		request = cobra.ShellCompNoDescRequestCmd
	}
	t, err := template.New("bash").Parse(bashScript)
	if err != nil {
		return err
	}
	return t.Execute(out, map[string]any{
		"Request": request, "NoSpace": int(cobra.ShellCompDirectiveNoSpace),
		"NoFileComp": int(cobra.ShellCompDirectiveNoFileComp), "FilterDirs": int(cobra.ShellCompDirectiveFilterDirs),
	})
}
