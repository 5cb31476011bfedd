package installcmd

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/preflight"
)

// Config returns the command config.
func Config() *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "Check and explain the settings of a process",
		Long: "These commands read the settings as dvt server and dvt worker do: a file, the environment and flags. They " +
			"open no connection.",
	}
	c.AddCommand(configCheck(), configExplain())
	return c
}

// checkedConfig is the answer of config check.
type checkedConfig struct {
	Process    preflight.Process `json:"process"`
	Violations []string          `json:"violations"`
}

func configCheck() *cobra.Command {
	var process string
	var output document.Format
	c := &cobra.Command{
		Use: "check", Short: "Name everything that is wrong with the settings",
		Long: "Names every violation at once: unknown keys with the most similar one, invalid values, and settings that the " +
			"process needs.\n" +
			"It reads the settings and the files of client secrets of OIDC, and no other file; dvt preflight tries the rest.\n" +
			"Exit status 0: none; 1: some.",
		Args: cobra.NoArgs,
	}
	settings := processSettings(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := config.Load(settings, false)
		answer := checkedConfig{Process: preflight.Process(process), Violations: eachError(err)}
		if process == "" {
			answer.Process = preflight.ProcessOf(&cfg)
		} else if err := knownProcess(process); err != nil {
			return err
		}
		if _, unreadable := errors.AsType[*config.FileError](err); unreadable {
			return showViolations(c.OutOrStdout(), output, answer) // the file was not read, so no setting is known to be missing
		}
		for _, f := range preflight.CheckSettings(cfg, answer.Process) {
			answer.Violations = append(answer.Violations, strings.TrimSuffix(f.Found+": "+f.Remedy, ": "))
		}
		return showViolations(c.OutOrStdout(), output, answer)
	}
	processFlag(c, &process)
	document.AddFlag(c, &output)
	return c
}

func showViolations(out io.Writer, output document.Format, a checkedConfig) error {
	if output.IsData() {
		if err := output.Write(out, a); err != nil {
			return err
		}
	} else {
		for _, v := range a.Violations {
			fmt.Fprintln(out, v)
		}
	}
	switch n := len(a.Violations); {
	case n == 1:
		return &cmdline.Error{Status: 1, Err: errors.New("the settings have 1 violation")}
	case n > 1:
		return &cmdline.Error{Status: 1, Err: fmt.Errorf("the settings have %d violations", n)}
	case !output.IsData():
		fmt.Fprintf(out, "The settings of a %s are valid.\n", a.Process)
	}
	return nil
}

// eachError returns the texts of the errors that errors.Join joined.
func eachError(err error) []string {
	if err == nil {
		return []string{}
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []string{err.Error()}
	}
	out := []string{}
	for _, e := range joined.Unwrap() {
		out = append(out, eachError(e)...)
	}
	return out
}

// explainedConfig is the answer of config explain.
type explainedConfig struct {
	Settings []config.Explained `json:"settings"`
}

func configExplain() *cobra.Command {
	var output document.Format
	c := &cobra.Command{
		Use: "explain [KEY]", Short: "Say what a setting means, its value, and where the value comes from",
		Long: "Without KEY it lists every setting with a value. The source is default, file, environment or flag. Secrets " +
			"are shown as set.",
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return config.Keys(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	settings := processSettings(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		all, err := config.Explain(settings, false)
		if err != nil {
			return cmdline.Usage(err)
		}
		out := c.OutOrStdout()
		if len(args) == 1 {
			i := slices.IndexFunc(all, func(e config.Explained) bool { return e.Key == args[0] })
			if i < 0 {
				return cmdline.Usage(fmt.Errorf("%s is not a setting of dvt%s", args[0],
					cmdline.DidYouMean(args[0], config.Keys())))
			}
			if output.IsData() {
				return output.Write(out, all[i])
			}
			printSetting(out, all[i])
			return nil
		}
		if output.IsData() {
			return output.Write(out, explainedConfig{all})
		}
		for _, e := range all {
			if e.Value != "" {
				fmt.Fprintf(out, "%-26s  %-11s  %s\n", e.Key, e.Source, e.Value)
			}
		}
		return nil
	}
	document.AddFlag(c, &output)
	return c
}

func printSetting(out io.Writer, e config.Explained) {
	value := e.Value
	if value == "" {
		value = "unset"
	}
	effect := map[config.Effect]string{
		config.AtStart:  "when the process starts again",
		config.OfFile:   "at once when the content of the file changes; another file when the process starts again",
		config.AtSignal: "when the process gets SIGHUP, or starts again",
	}[e.Effect]
	fmt.Fprintf(out, "%s: %s\n\nValue:         %s (%s)\nDefault:       %s\nEnvironment:   %s\nTakes effect:  %s\n", e.Key,
		strings.TrimSuffix(e.Meaning, "."), value, e.Source, strings.TrimSpace(e.Default), e.Variable, effect)
}
