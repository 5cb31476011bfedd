package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/run"
)

// runName is a word that can be given instead of a run id, such as @last.
type runName struct {
	name, is string
	among    client.RunFilter
	page     int // number of runs to read at once
	suits    func(r client.RunRow) bool
}

var runNames = []runName{
	{"@last", "the newest run that you started", client.RunFilter{TriggeredBy: new(me)}, 1,
		func(client.RunRow) bool { return true }},
	{
		"@failed", "the newest run that failed, or waits with a failed step",
		client.RunFilter{Statuses: []client.RunStatus{client.RunStatusFailed, client.RunStatusRunning,
			client.RunStatusPaused}}, maxPage,
		func(r client.RunRow) bool {
			return r.Status == client.RunStatusFailed || r.StepCounts.Failed > 0
		},
	},
}

// me stands for the viewer in filters.
const me = "me"

// Bounds for short run ids: the shortest prefix that is looked up, and the greatest number of runs that are read for
// it.
const (
	shortestRunID = 4
	maxPage       = 200
	maxCandidates = 1_000
)

// expand replaces short ids and names in the arguments RUN and BULK, in --run and in --failed-of by whole ids. words
// are the arguments of the usage line.
func (s *session) expand(c *cobra.Command, words, args []string) error {
	for i, arg := range args {
		if i >= len(words) {
			continue
		}
		var err error
		switch strings.Trim(words[i], "[]") {
		case "RUN":
			args[i], err = s.runID(c.Context(), arg)
		case "BULK":
			args[i], err = s.bulkID(c.Context(), arg)
		case "ALERT":
			args[i], err = s.alertID(c.Context(), arg)
		case "INCIDENT":
			args[i], err = s.incidentID(c.Context(), arg)
		}
		if err != nil {
			return err
		}
	}
	for name, find := range map[string]func(context.Context, string) (string, error){"run": s.runID,
		"failed-of": s.bulkID} {
		f := c.Flag(name)
		if f == nil || !f.Changed {
			continue
		}
		id, err := find(c.Context(), f.Value.String())
		if err != nil {
			return err
		}
		if err := f.Value.Set(id); err != nil {
			return err
		}
	}
	return nil
}

// runID returns the id of the run whose id begins with given. A whole id costs no request. If no run matches, given is
// returned, and the command reports the unknown run itself. Several matches are a usage error.
func (s *session) runID(ctx context.Context, given string) (string, error) {
	if strings.HasPrefix(given, "@") {
		return s.namedRun(ctx, given)
	}
	if len(given) < shortestRunID || uuid.Validate(given) == nil {
		return given, nil
	}
	var found []client.RunRow
	var after *string
	size := maxPage
	for read := 0; ; read += size {
		if read >= maxCandidates {
			return "", cmdline.Usage(fmt.Errorf("too many runs and plans match %q: give more of the run's id",
				given))
		}
		page, err := client.ListRuns(ctx, s.client, &size, after, &client.RunFilter{Text: &given}, nil)
		if err != nil {
			return "", cmdline.Failure(err)
		}
		for _, e := range page.Runs.Edges {
			r := e.Node
			if r.RunId == given {
				return given, nil
			}
			if strings.HasPrefix(r.RunId, given) {
				found = append(found, r)
			}
		}
		if !page.Runs.PageInfo.HasNextPage {
			break
		}
		after = page.Runs.PageInfo.EndCursor
	}
	switch len(found) {
	case 0:
		return given, nil
	case 1:
		return found[0].RunId, nil
	}
	return "", cmdline.Usage(errors.New(ambiguous(given, found)))
}

// alertID returns the id of the alert whose id begins with given, among the newest maxCandidates. If none or several
// match, given is returned or the ids are named.
func (s *session) alertID(ctx context.Context, given string) (string, error) {
	return wholeID("alert", given, func(first int, after *string) (ids []string, next client.PageInfo, _ error) {
		out, err := client.ListAlerts(ctx, s.client, &client.AlertFilter{}, &first, after)
		if err != nil {
			return nil, next, cmdline.Failure(err)
		}
		for _, e := range out.Alerts.Edges {
			ids = append(ids, e.Node.Id)
		}
		return ids, out.Alerts.PageInfo, nil
	})
}

// incidentID is alertID for incidents.
func (s *session) incidentID(ctx context.Context, given string) (string, error) {
	return wholeID("incident", given, func(first int, after *string) (ids []string, next client.PageInfo, _ error) {
		out, err := client.ListIncidents(ctx, s.client, new(false), &first, after)
		if err != nil {
			return nil, next, cmdline.Failure(err)
		}
		for _, e := range out.Incidents.Edges {
			ids = append(ids, e.Node.Id)
		}
		return ids, out.Incidents.PageInfo, nil
	})
}

// wholeID looks for the one id that begins with given. A whole id, and a beginning that is too short, cost no request.
func wholeID(what, given string,
	list func(first int, after *string) ([]string, client.PageInfo, error)) (string, error) {
	if len(given) < shortestRunID || uuid.Validate(given) == nil {
		return given, nil
	}
	var found []string
	var after *string
	for read := 0; read < maxCandidates; read += maxPage {
		ids, next, err := list(maxPage, after)
		if err != nil {
			return "", err
		}
		for _, id := range ids {
			if strings.HasPrefix(id, given) {
				found = append(found, id)
			}
		}
		if !next.HasNextPage {
			break
		}
		after = next.EndCursor
	}
	switch len(found) {
	case 0:
		return given, nil
	case 1:
		return found[0], nil
	}
	return "", cmdline.Usage(fmt.Errorf("more than one %s matches %q; give more of its id: %s", what, given,
		strings.Join(found, ", ")))
}

// explainShortID adds to the error of an unknown run that a short id needs more characters, if the argument RUN has
// fewer. Such beginnings are not looked up, because they match too many runs.
func (s *session) explainShortID(c *cobra.Command, words, args []string, err error) error {
	if cmdline.ExitStatus(err) != notFound {
		return err
	}
	if err := s.explainPlanName(c, words, args); err != nil {
		return err
	}
	for i, arg := range args {
		if i < len(words) && strings.Trim(words[i], "[]") == "RUN" && len(arg) < shortestRunID {
			return &cmdline.Error{Status: notFound, Err: fmt.Errorf("%w\n  a short id of a run needs %d or more characters",
				err, shortestRunID)}
		}
	}
	return err
}

// explainPlanName returns the error for an argument RUN that is the name of a plan, with the command for its newest
// run.
func (s *session) explainPlanName(c *cobra.Command, words, args []string) error {
	for i, arg := range args {
		if i >= len(words) || strings.Trim(words[i], "[]") != "RUN" {
			continue
		}
		one := 1
		found, err := client.ListRuns(c.Context(), s.client, &one, nil, &client.RunFilter{PlanId: &arg}, nil)
		if err != nil || len(found.Runs.Edges) == 0 {
			continue
		}
		newest := shortID(found.Runs.Edges[0].Node.RunId)
		again := slices.Clone(args)
		again[i] = newest
		return &cmdline.Error{Status: notFound, Code: string(run.CodeNotFound), Err: fmt.Errorf(
			"%s is a plan, not a run\n  its newest run: %s %s\n  all its runs: dvt run list --plan %s", arg, c.CommandPath(),
			strings.Join(again, " "), arg)}
	}
	return nil
}

// notFound is the exit status for an object that does not exist.
const notFound = 4

// ambiguous returns the message that lists the runs whose ids begin with given.
func ambiguous(given string, found []client.RunRow) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs begin with %s:", len(found), given)
	for i, r := range found {
		if i == 10 {
			fmt.Fprintf(&b, "\n  and %d more", len(found)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %s  %s  %s  %s", r.RunId, r.StatusRaw, r.Plan.PlanId, runtext.Moment(&r.CreatedAt))
	}
	return b.String()
}

// namedRun returns the id of the run that a name such as @last stands for. It prints the run on standard error, so that
// people see which run the command acts on.
func (s *session) namedRun(ctx context.Context, name string) (string, error) {
	i := slices.IndexFunc(runNames, func(n runName) bool { return n.name == name })
	if i < 0 {
		text := "no run is called " + name + "; the names are:"
		for _, n := range runNames {
			text += fmt.Sprintf("\n  %-8s %s", n.name, n.is)
		}
		return "", cmdline.Usage(errors.New(text))
	}
	var after *string
	for read := 0; read < maxCandidates; read += runNames[i].page {
		page, err := client.ListRuns(ctx, s.client, &runNames[i].page, after, &runNames[i].among, nil)
		if err != nil {
			return "", cmdline.Failure(err)
		}
		for _, e := range page.Runs.Edges {
			if r := e.Node; runNames[i].suits(r) {
				s.note("%s is %s  %s  %s\n", name, r.RunId, runtext.Status(r), r.Plan.PlanId)
				return r.RunId, nil
			}
		}
		if after = page.Runs.PageInfo.EndCursor; !page.Runs.PageInfo.HasNextPage {
			break
		}
	}
	return "", &cmdline.Error{Status: notFound, Code: string(run.CodeNotFound), Err: fmt.Errorf("there is no %s, %s", name,
		runNames[i].is)}
}

// lastBulk is a name for the newest bulk of the caller.
const lastBulk = "@last"

// shortBulkID is the number of characters of a short bulk id. It is the end of the id, because all ids begin alike.
const shortBulkID = 8

// longestBulkEnd is the greatest number of characters that are looked up as the end of an id.
const longestBulkEnd = 20

// maxBulks is the number of bulks of a principal that dvt keeps.
const maxBulks = 50

// bulkID returns the id of the caller's bulk that ends with given, or that a name stands for. If none matches, given is
// returned, and the command reports the unknown bulk itself. Several matches are a usage error.
func (s *session) bulkID(ctx context.Context, given string) (string, error) {
	if given != lastBulk && (len(given) < shortestRunID || len(given) > longestBulkEnd) {
		return given, nil
	}
	size := maxBulks
	out, err := client.ListBulks(ctx, s.client, &size, nil)
	if err != nil {
		return "", cmdline.Failure(err)
	}
	var found []string
	for _, e := range out.Bulks.Edges {
		id := e.Node.Id
		switch {
		case id == given, given == lastBulk: // the newest is the first
			return id, nil
		case strings.HasSuffix(id, given):
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return given, nil
	case 1:
		return found[0], nil
	}
	return "", cmdline.Usage(fmt.Errorf("%d bulks end with %s:\n  %s", len(found), given, strings.Join(found, "\n  ")))
}

// shortBulk returns the short id of a bulk, which each command takes. Pipes get it too: a whole id has 56 characters.
func (s *session) shortBulk(id string) string {
	if s.whole() {
		return id
	}
	return id[max(0, len(id)-shortBulkID):]
}
