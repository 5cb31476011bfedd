package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
)

// Limits of the API for a search in logs.
const (
	maxFoundLogs    = 50 // of a page
	maxSearchedRuns = 20
)

func (s *session) searchCommand() *cobra.Command {
	var runs int
	l := listing{none: "No log contains this text, in capitals or not."}
	c := &cobra.Command{
		Use: "search RUN TEXT", Short: "Find a text in the logs of all steps of a run, or of the newest runs of its plan",
		Args: cmdline.ExactArgs(2),
		Long: "Print the first five lines of each log that contain TEXT, with upper and lower case as given. When there are\n" +
			"none, TEXT is searched in capitals, in small letters and with a capital first. With --runs the\n" +
			"logs of the newest runs of RUN's plan in its environment are searched, newest run first.",
		RunE: func(c *cobra.Command, args []string) error {
			in, err := s.searchedLogs(c, args[0], runs)
			if err != nil {
				return err
			}
			sought := args[1]
			var all client.SearchLogsLogSearchLogSearchConnection
			return s.list(c.Context(), l, &all, func(ctx context.Context, first int, after *string) (page, error) {
				first = min(first, maxFoundLogs)
				out, err := client.SearchLogs(ctx, s.client, in, sought, &first, after)
				for _, other := range inOtherCase(args[1]) {
					if after != nil || err != nil || out.LogSearch == nil || len(out.LogSearch.Edges) > 0 {
						break
					}
					sought = other
					if out, err = client.SearchLogs(ctx, s.client, in, sought, &first, nil); err == nil && out.LogSearch != nil &&
						len(out.LogSearch.Edges) > 0 {
						s.note("no log contains %q; these contain %q\n", args[1], sought)
					}
				}
				switch {
				case err != nil:
					return page{}, err
				case out.LogSearch == nil:
					return page{}, cmdline.NotFound("run")
				}
				before := all.Edges
				all = *out.LogSearch
				return prepend(before, &all.Edges, all.PageInfo), nil
			}, func() *console.Table {
				head := []string{"RUN", "STEP", "ATTEMPT", "LINE", "TEXT"}
				if in.Plan == nil {
					head = head[1:]
				}
				t := s.table(head...)
				for _, e := range all.Edges {
					s.foundRows(t, e.Node, in.Plan != nil)
				}
				return t
			})
		},
	}
	c.Flags().IntVar(&runs, "runs", 0, fmt.Sprintf(
		"search this number of the newest runs of the same plan, at most %d; default: only RUN", maxSearchedRuns))
	l.flag(c, maxFoundLogs)
	return c
}

// inOtherCase returns the text in capitals, in small letters and with a capital first, without the text itself.
func inOtherCase(text string) []string {
	lower := strings.ToLower(text)
	first, size := utf8.DecodeRuneInString(lower)
	all := []string{strings.ToUpper(text), lower, string(unicode.ToUpper(first)) + lower[size:]}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(other string) bool { return other == text })
}

// searchedLogs returns which logs to search: those of the run, or of the newest runs of its plan if runs is not 0.
func (s *session) searchedLogs(c *cobra.Command, runID string, runs int) (client.LogSearchInput, error) {
	switch {
	case !c.Flags().Changed("runs"):
		return client.LogSearchInput{RunId: &runID}, nil
	case runs < 1 || runs > maxSearchedRuns:
		return client.LogSearchInput{}, cmdline.Usage(fmt.Errorf("--runs must be from 1 to %d", maxSearchedRuns))
	}
	out, err := client.FindPlanOfRun(c.Context(), s.client, runID)
	switch {
	case err != nil:
		return client.LogSearchInput{}, cmdline.Failure(err)
	case out.Run == nil:
		return client.LogSearchInput{}, cmdline.NotFound("run")
	}
	return client.LogSearchInput{Plan: &client.LogSearchPlanInput{PlanId: out.Run.Plan.PlanId,
		ProjectId: out.Run.ProjectId, EnvironmentId: out.Run.EnvironmentId, Newest: &runs}}, nil
}

// foundRows adds the lines that were found in one log.
func (s *session) foundRows(t *console.Table, found client.FoundLog, withRun bool) {
	row := func(line any, text string) {
		cells := []any{found.StepId, found.Attempt, line, text}
		if withRun {
			cells = slices.Insert(cells, 0, any(found.RunId))
		}
		t.Row(cells...)
	}
	for _, l := range found.Lines {
		row(l.No, l.Text)
	}
	if more := found.TotalMatches - len(found.Lines); more > 0 {
		row("", fmt.Sprintf("(and %s more)", cmdline.Count(more, "line")))
	}
	if found.Partial {
		row("", "(the log is larger than 64 MiB: only its first 64 MiB were searched)")
	}
}
