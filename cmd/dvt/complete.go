package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
)

// completionWait bounds the wait of a shell for candidates. Tests wait longer, because their machine may be busy.
var completionWait = time.Second //nolint:gochecknoglobals // only TestMain sets it

// completeArgs makes c and the commands below it handle the arguments that their usage line names. An argument RUN may
// be the beginning of a run id, and a shell completes RUN, STEP and FILE.
func (s *session) completeArgs(c *cobra.Command) {
	words := strings.Fields(c.Use)[1:]
	if c.RunE != nil {
		run := c.RunE
		c.RunE = func(c *cobra.Command, args []string) error {
			if err := s.expand(c, words, args); err != nil {
				return err
			}
			return s.explainShortID(c, words, args, run(c, args))
		}
		c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]cobra.Completion,
			cobra.ShellCompDirective) {
			if len(args) >= len(words) {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return s.complete(c, words[len(args)], args, begun)
		}
		for flag, word := range map[string]string{"run": "RUN", "project": "PROJECT", "environment": "ENVIRONMENT",
			"status": "STATUS"} {
			if c.Flags().Lookup(flag) != nil {
				s.completeFlag(c, flag, word)
			}
		}
	}
	for _, child := range c.Commands() {
		s.completeArgs(child)
	}
}

func (s *session) completeFlag(c *cobra.Command, flag, word string) {
	_ = c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, args []string, begun string) ([]cobra.Completion,
		cobra.ShellCompDirective) {
		return s.complete(c, word, args, begun)
	}) // cannot fail: the flag exists and has no completion yet
}

// complete returns the candidates for an argument that the usage line calls word. It returns none if the server does
// not answer within completionWait or refuses, and prints nothing.
func (s *session) complete(c *cobra.Command, word string, args []string, begun string) (out []cobra.Completion,
	d cobra.ShellCompDirective) {
	switch word = strings.Trim(word, "[]"); word {
	case "FILE", "PATCH", "PARAMS":
		return nil, cobra.ShellCompDirectiveDefault
	case "MODE":
		return withPrefix(begun, client.AllEngineMode), cobra.ShellCompDirectiveNoFileComp
	case "ROLE":
		return withPrefix(begun, client.AllRole), cobra.ShellCompDirectiveNoFileComp
	case "STATUS":
		return withPrefix(begun, client.AllRunStatus), cobra.ShellCompDirectiveNoFileComp
	case "ACTION":
		return withPrefix(begun, client.AllAction), cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(c.Context(), completionWait)
	defer cancel()
	if s.open(c) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s.err = io.Discard
	switch word {
	case "RUN", "PROJECT", "ENVIRONMENT":
		if word == "RUN" {
			for _, n := range runNames {
				if strings.HasPrefix(n.name, begun) {
					out = append(out, cobra.CompletionWithDesc(n.name, n.is))
				}
			}
			if strings.HasPrefix(begun, "@") {
				break
			}
		}
		f := client.RunFilter{}
		if word == "RUN" && begun != "" {
			f.Text = &begun
		}
		size := maxPage
		page, err := client.ListRuns(ctx, s.client, &size, nil, &f, nil)
		if err != nil {
			break
		}
		for _, e := range page.Runs.Edges {
			r := e.Node
			value := map[string]string{
				"RUN": cobra.CompletionWithDesc(r.RunId,
					r.StatusRaw+" "+r.Plan.PlanId+" "+age(time.Since(r.CreatedAt))+" ago"),
				"PROJECT":     r.ProjectId,
				"ENVIRONMENT": r.EnvironmentId,
			}[word]
			if strings.HasPrefix(value, begun) && !slices.Contains(out, value) {
				out = append(out, value)
			}
		}
	case "STEP":
		id, err := s.runID(ctx, args[0])
		if err != nil {
			break
		}
		run, err := client.ShowRun(ctx, s.client, id, nil)
		if err != nil || run.Run == nil {
			break
		}
		for _, st := range run.Run.Steps {
			if strings.HasPrefix(st.StepId, begun) && isUsefulFor(c.Name(), st.Status) {
				out = append(out, cobra.CompletionWithDesc(st.StepId, st.StatusRaw+" "+st.Type))
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// withPrefix returns the values of an enum that begin with the typed text, in any case.
func withPrefix[T ~string](begun string, all []T) (out []cobra.Completion) {
	for _, name := range all {
		if strings.HasPrefix(string(name), strings.ToUpper(begun)) && cmdline.IsGiven(name) {
			out = append(out, string(name))
		}
	}
	return out
}

// isUsefulFor reports whether a command makes sense for a step with that status.
func isUsefulFor(command string, is client.StepStatus) bool {
	switch command {
	case "retry":
		return is == client.StepStatusFailed
	case "skip":
		return is == client.StepStatusFailed || is == client.StepStatusPending
	}
	return true
}
