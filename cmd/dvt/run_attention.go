package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

// kindFailed is the kind of a row about runs that failed for good. The API has no such kind, because nothing waits.
const kindFailed client.AttentionKind = "FAILED"

// failedLately is how long ago a run may have failed to be listed, as on the home page.
const failedLately = 24 * time.Hour

// attentionItem is something that needs somebody, or the runs of a plan that failed lately of the same cause.
type attentionItem struct {
	client.ListAttentionAttentionAttentionConnectionEdgesAttentionEdgeNodeAttentionItem
	// Runs is the number of runs; RunId is the newest of them.
	Runs int `json:"runs"`
	// Next is the command that the viewer is likely to need.
	Next string `json:"next"`
}

type attentionEdge struct {
	Node attentionItem `json:"node"`
}

// attentionList has the shape of a list of the API.
type attentionList struct {
	Edges    []attentionEdge `json:"edges"`
	PageInfo client.PageInfo `json:"pageInfo"`
}

// listAttention lists what needs somebody, the most urgent first, and then the runs that failed in the last 24 hours,
// by plan and cause.
func (s *session) listAttention(c *cobra.Command, l listing) error {
	l.none = "Nothing needs you now, and no run has failed in the last 24 hours."
	all := attentionList{Edges: []attentionEdge{}}
	several := false
	err := s.list(c.Context(), l, &all, func(ctx context.Context, first int, after *string) (page, error) {
		out, err := client.ListAttention(ctx, s.client, &first, after)
		if err != nil {
			return page{}, err
		}
		before := len(all.Edges)
		for _, e := range out.Attention.Edges {
			all.Edges = append(all.Edges, attentionEdge{attentionItem{e.Node, 1, nextForAttention(e.Node)}})
		}
		more := out.Attention.PageInfo
		if !more.HasNextPage {
			failed, err := s.failedLately(ctx, time.Now().Add(-failedLately))
			if err != nil {
				return page{}, err
			}
			for _, f := range failed {
				several = several || f.Runs > 1
				all.Edges = append(all.Edges, attentionEdge{f})
			}
		}
		return page{len(all.Edges) - before, more.HasNextPage, more.EndCursor}, nil
	}, func() *console.Table { return s.attentionTable(all) })
	if err == nil && several {
		s.note("To rerun all of a plan: dvt bulk rerun --plan PLAN --status failed --since 24h --reason WHY\n")
	}
	return err
}

func (s *session) attentionTable(all attentionList) *console.Table {
	t := s.table("RUN", "PLAN", "SCOPE", "SINCE", "DEADLINE", "NEXT", "WHY")
	var ids []string
	for _, e := range all.Edges {
		ids = append(ids, e.Node.RunId)
	}
	id := s.shortIDs(ids)
	for _, e := range all.Edges {
		n := e.Node
		t.Row(id(n.RunId), n.PlanId+"@"+n.PlanVersion, n.ProjectId+"/"+n.EnvironmentId, s.when(&n.Since),
			s.when(n.Deadline), n.Next, n.why())
	}
	return t
}

// why says why the item needs somebody.
func (n attentionItem) why() string {
	step, code, message := runtext.Deref(n.StepId), runtext.Deref(n.Code), runtext.Deref(n.Message)
	because := ""
	if code != "" {
		because = ": " + code
		if message != "" {
			because += ": " + message
		}
	}
	switch n.Kind {
	case kindFailed:
		return cmdline.Count(n.Runs, "run") + " failed; " + cmp.Or(step, "no step failed") + because
	case client.AttentionKindFailedWaiting:
		return step + " failed and waits for a retry" + because
	case client.AttentionKindApproval:
		return "waits for approval"
	case client.AttentionKindManualTask:
		return step + " waits for a person to complete it"
	case client.AttentionKindLate:
		return "takes longer than usual"
	}
	return runtext.Words(n.Kind) + because // a kind of a newer server
}

// nextForAttention returns the command for an item: what the viewer may do about it, otherwise to show the run, which
// says who can.
func nextForAttention(n client.ListAttentionAttentionAttentionConnectionEdgesAttentionEdgeNodeAttentionItem) string {
	id, step := shortID(n.RunId), runtext.Deref(n.StepId)
	may := func(a client.Action) bool { return slices.Contains(n.Actions, a) }
	switch {
	case n.Kind == client.AttentionKindFailedWaiting && may(client.ActionRetryStep):
		return "dvt run retry " + id + " " + step
	case n.Kind == client.AttentionKindApproval && may(client.ActionApprove):
		return "dvt run approve " + id
	case n.Kind == client.AttentionKindManualTask && may(client.ActionCompleteManualStep):
		return "dvt manual complete " + id + " " + step + " --outcome succeeded"
	case n.Kind == client.AttentionKindLate:
		return "dvt run watch " + id
	}
	return "dvt run show " + id
}

// failedLately returns the runs that failed since then, one item for each plan and cause, the newest first.
func (s *session) failedLately(ctx context.Context, since time.Time) (out []attentionItem, _ error) {
	type group struct{ project, environment, plan, step, code string }
	known := map[group]int{}
	may := map[[2]string]bool{} // by project and environment, because rights have that scope
	var after *string
	size := maxPage
	for read := 0; read < maxCandidates; read += size {
		found, err := client.ListFailed(ctx, s.client, &size, after)
		if err != nil {
			return nil, err
		}
		for _, e := range found.Runs.Edges {
			r := e.Node
			if r.CompletedAt == nil || r.CompletedAt.Before(since) {
				return out, nil
			}
			key := group{r.ProjectId, r.EnvironmentId, r.Plan.PlanId, "", ""}
			if r.RootCause != nil {
				key.step, key.code = runtext.Deref(r.RootCause.StepId), r.RootCause.Code
			}
			if i, grouped := known[key]; grouped {
				out[i].Runs++
				continue
			}
			scope := [2]string{r.ProjectId, r.EnvironmentId}
			if _, asked := may[scope]; !asked {
				may[scope] = s.mayRerun(ctx, r.RunId)
			}
			known[key] = len(out)
			out = append(out, failedItem(r, may[scope]))
		}
		if after = found.Runs.PageInfo.EndCursor; !found.Runs.PageInfo.HasNextPage {
			break
		}
	}
	return out, nil
}

func failedItem(r client.RunRow, mayRerun bool) attentionItem {
	item := attentionItem{Runs: 1, Next: "dvt run show " + shortID(r.RunId)}
	if mayRerun {
		item.Next = "dvt run rerun " + shortID(r.RunId)
	}
	item.Kind, item.RunId, item.ProjectId, item.EnvironmentId, item.PlanId, item.PlanVersion, item.Since = kindFailed,
		r.RunId, r.ProjectId, r.EnvironmentId, r.Plan.PlanId, r.Plan.PlanVersion, *r.CompletedAt
	if r.RootCause != nil {
		item.StepId, item.Code, item.Message = r.RootCause.StepId, &r.RootCause.Code, r.RootCause.Message
	}
	return item
}

// mayRerun reports whether the viewer may rerun a run. The actions of a run do not tell; a preview does.
func (s *session) mayRerun(ctx context.Context, runID string) bool {
	yes := true
	p, err := s.previewOf(ctx, client.ActionInput{Rerun: &client.RerunInput{RunId: runID, RunRequestId: "preview",
		From: client.RerunFromInput{Start: &yes}}})
	return err == nil && p.Outcome == client.ActionOutcomeApply
}
