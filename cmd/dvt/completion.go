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

// shells are the supported shells: the command that turns completion on now, the one that turns it on for good, and the
// script.
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
	c := &cobra.Command{Use: "completion", Short: "Print scripts that let a shell complete the command lines of dvt"}
	for _, s := range shells {
		var bare bool
		sub := &cobra.Command{
			Use: s.name, Short: "Print the script for " + s.name, Args: cmdline.ExactArgs(0),
			ValidArgsFunction: cobra.NoFileCompletions,
			Long: "Print the script for " + s.name + ". Turn completion on in the current shell with\n\n  " + s.now +
				"\n\nand in every new one with\n\n  " + s.always,
			RunE: func(c *cobra.Command, _ []string) error {
				return s.script(c.Root(), c.OutOrStdout(), bare)
			},
		}
		sub.Flags().BoolVar(&bare, "no-descriptions", false, "only names, without descriptions")
		c.AddCommand(sub)
	}
	return c
}

// bashCompletion writes a script of our own instead of that of cobra. It works without the package bash-completion, and
// it treats @ as a part of a word.
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
