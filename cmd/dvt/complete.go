package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
)

// completionWait is how long a shell waits for an answer at most; tests wait longer on a busy machine.
var completionWait = time.Second //nolint:gochecknoglobals // only TestMain sets it

// shared gives c, and the commands below it, what their usage line promises: an
// argument RUN may be the beginning of a run id, and a shell completes RUN, STEP and FILE.
func (s *session) shared(c *cobra.Command) {
	words := strings.Fields(c.Use)[1:]
	if c.RunE != nil {
		run := c.RunE
		c.RunE = func(c *cobra.Command, args []string) error {
			if err := s.expand(c, words, args); err != nil {
				return err
			}
			return run(c, args)
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
		s.shared(child)
	}
}

func (s *session) completeFlag(c *cobra.Command, flag, word string) {
	_ = c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, args []string, begun string) ([]cobra.Completion,
		cobra.ShellCompDirective) {
		return s.complete(c, word, args, begun)
	}) // the flag is there, and has none yet
}

// complete says what may stand for word. A server that does not answer soon, or
// refuses, has nothing to say.
func (s *session) complete(c *cobra.Command, word string, args []string, begun string) (out []cobra.Completion,
	d cobra.ShellCompDirective) {
	switch word = strings.Trim(word, "[]"); word {
	case "FILE", "PATCH", "PARAMS":
		return nil, cobra.ShellCompDirectiveDefault
	case "MODE":
		return beginning(begun, client.AllEngineMode), cobra.ShellCompDirectiveNoFileComp
	case "STATUS":
		return beginning(begun, client.AllRunStatus), cobra.ShellCompDirectiveNoFileComp
	case "ACTION":
		return beginning(begun, client.AllAction), cobra.ShellCompDirectiveNoFileComp
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
		page, err := client.ListRuns(ctx, s.client, &size, nil, &f)
		if err != nil {
			break
		}
		for _, e := range page.Runs.Edges {
			r := e.Node.RunRow
			value := map[string]string{
				"RUN": cobra.CompletionWithDesc(r.RunId, r.StatusRaw+" "+r.Plan.PlanId), "PROJECT": r.ProjectId,
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
			if strings.HasPrefix(st.StepId, begun) && suits(c.Name(), st.Status) {
				out = append(out, cobra.CompletionWithDesc(st.StepId, st.StatusRaw+" "+st.Type))
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// beginning are the names of an enum that begin with what is typed.
func beginning[T ~string](begun string, all []T) (out []cobra.Completion) {
	for _, name := range all {
		if strings.HasPrefix(string(name), strings.ToUpper(begun)) {
			out = append(out, string(name))
		}
	}
	return out
}

// suits reports whether a command is of use for a step in that status.
func suits(command string, is client.StepStatus) bool {
	switch command {
	case "retry":
		return is == client.StepStatusFailed
	case "skip":
		return is == client.StepStatusFailed || is == client.StepStatusPending
	}
	return true
}
