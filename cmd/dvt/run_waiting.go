package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/plan"
)

// showWaiting prints what a run waits for, until when, who can end the wait, and the next commands.
func (s *session) showWaiting(ctx context.Context, run *client.ShowRunRun) {
	if run.Approval != nil && run.Approval.ExpiresAt != nil {
		s.showApproval(run)
	}
	if run.Queue != nil {
		s.showQueue(ctx, run)
	}
	if run.Pause != nil {
		s.showPause(run)
	}
	s.showWaits(run)
	s.showRetries(run)
	for _, st := range run.Steps {
		if st.Wait != nil && st.Wait.Kind == client.WaitKindPerson && st.Status == client.StepStatusRunning {
			s.showTasks(ctx, run.RunId)
			break
		}
	}
}

// showWaits prints what holds the run up beside what other lines say: approvals, the queue, pauses and people.
func (s *session) showWaits(run *client.ShowRunRun) {
	for _, w := range run.Waits {
		switch w.Kind {
		case client.WaitKindApproval, client.WaitKindQueue, client.WaitKindPaused, client.WaitKindDrain,
			client.WaitKindPerson, client.WaitKindRetry:
			continue
		}
		if run.Queue != nil && w.Kind == client.WaitKindQuota {
			continue
		}
		line := w.Message
		if w.Since != nil {
			line += " Since " + s.when(w.Since) + "."
		}
		if w.Until != nil {
			line += " Until " + s.when(w.Until) + "."
		}
		fmt.Fprintln(s.out, console.OneLine(line))
		if w.Help != "" {
			fmt.Fprintln(s.out, "  "+withNames(w.Help, w.WhoCould))
		}
	}
}

// showRetries prints the steps that failed and wait for their next automatic try.
func (s *session) showRetries(run *client.ShowRunRun) {
	for _, w := range run.Waits {
		if w.Kind != client.WaitKindRetry {
			continue
		}
		what := w.Message
		if len(w.Steps) == 1 {
			what = w.Steps[0] + ": " + nextTry(w.Try, w.Tries, w.Until)
		}
		fmt.Fprintln(s.out, "waiting to try again: "+console.OneLine(what))
	}
}

// withNames says who can help, with names when the server gives some.
func withNames(help string, whoCould []string) string {
	if len(whoCould) > 0 {
		help += " Who can: " + strings.Join(whoCould, ", ") + "."
	}
	return help
}

// showNeeds reads a run and prints what it waits for, and the next commands. It prints nothing when the run cannot be
// read, because a watch continues without it.
func (s *session) showNeeds(ctx context.Context, runID string) {
	out, err := client.ShowRun(ctx, s.client, runID, nil)
	if err != nil || out.Run == nil {
		return
	}
	if out.Run.RetryDeadline != nil {
		fmt.Fprintf(s.out, "retry window closes %s\n", s.when(out.Run.RetryDeadline))
		if i := slices.IndexFunc(out.Run.Steps, hasFailed); i >= 0 {
			s.showRetry(ctx, out.Run.RunRow, out.Run.Steps[i].StepId)
		}
	}
	s.showWaiting(ctx, out.Run)
}

// showPause prints who paused a run, why and since when, what still runs, and the command that resumes it.
func (s *session) showPause(run *client.ShowRunRun) {
	p := run.Pause
	said := "paused"
	if p.RequestedBy != nil {
		said += " by " + *p.RequestedBy
	}
	said += " " + s.when(&p.Since)
	if why := runtext.Deref(p.Reason); why != "" {
		said += ": " + console.OneLine(why)
	}
	fmt.Fprintln(s.out, said)
	if p.Draining > 0 {
		ends := "running steps end"
		if p.Draining == 1 {
			ends = "running step ends"
		}
		fmt.Fprintf(s.out, "%d %s first\n", p.Draining, ends)
	}
	fmt.Fprintf(s.out, "resume: dvt run resume %s\n", shortID(run.RunId))
}

func (s *session) showApproval(run *client.ShowRunRun) {
	a, id := run.Approval, shortID(run.RunId)
	fmt.Fprintf(s.out, "%d of %s; without a decision the run is cancelled %s\n", approvalCount(a),
		cmdline.Count(a.Required, "approval"), s.when(a.ExpiresAt))
	for _, d := range a.Decisions {
		fmt.Fprintf(s.out, "  %s: %s, %s\n", d.Principal, runtext.Words(d.Decision), s.when(&d.At))
	}
	for _, act := range run.Actions {
		if act.Action != client.ActionApprove {
			continue
		}
		if act.Outcome == client.ActionOutcomeApply {
			fmt.Fprintf(s.out, "approve: dvt run approve %s\nreject: dvt run approve %s --reject --reason WHY\n", id, id)
			return
		}
		fmt.Fprintln(s.out, notYou(runtext.Deref(act.Reason), act.WhoCould))
	}
}

// notYou says why the viewer may not do something, and who can.
func notYou(reason string, whoCould []string) string {
	if len(whoCould) > 0 {
		reason = strings.TrimSpace(reason + " Who can: " + strings.Join(whoCould, ", ") + ".")
	}
	return "you cannot: " + reason
}

// queueWaits say why a run waits in the queue.
var queueWaits = map[client.QueueWait]string{
	client.QueueWaitQuota: "the quota of starts is used up for now", client.QueueWaitPlace: "all run slots are in use",
	client.QueueWaitTurn: "other runs of this project are ahead of it",
	client.QueueWaitHold: "new runs are on hold: dvt service status",
}

// maxHolders bounds the runs in slots that are listed.
const maxHolders = 10

func (s *session) showQueue(ctx context.Context, run *client.ShowRunRun) {
	q := run.Queue
	var parts []string
	if q.Position != nil {
		parts = append(parts, fmt.Sprintf("number %d in the queue of project %s", *q.Position, run.ProjectId))
	}
	if q.WaitsFor != nil {
		parts = append(parts, queueWaits[*q.WaitsFor])
	}
	if len(parts) == 0 {
		parts = append(parts, "a server is starting the run")
	}
	fmt.Fprintln(s.out, strings.Join(parts, ": "))
	if q.EstimatedWaitMs != nil {
		fmt.Fprintf(s.out, "starts in about %s\n",
			plan.DurationWords(time.Duration(*q.EstimatedWaitMs*float64(time.Millisecond)).Round(time.Second)))
	}
	if q.Slots != nil {
		s.showSlotHolders(ctx, run, q.Slots)
	}
	if q.ExpiresAt != nil {
		fmt.Fprintf(s.out, "the run fails %s if it still waits then\n", s.when(q.ExpiresAt))
	}
	id := shortID(run.RunId)
	fmt.Fprintf(s.out, "queue: dvt queue list --project %s\ncancel: dvt run cancel %s\n", run.ProjectId, id)
}

// showSlotHolders prints the runs that hold the slots that the run needs, the oldest first. It prints none when they
// cannot be read: the rest of the run is shown in any case.
func (s *session) showSlotHolders(ctx context.Context, run *client.ShowRunRun,
	use *client.ShowRunRunQueueQueueEntrySlotsSlotUse) {
	of := "of the tenant"
	f := client.RunFilter{Statuses: []client.RunStatus{client.RunStatusApproved, client.RunStatusRunning,
		client.RunStatusPaused}}
	switch use.Scope {
	case client.SlotScopeProject:
		of, f.ProjectId = "of project "+run.ProjectId, &run.ProjectId
	case client.SlotScopeInstallation:
		of = "of the installation, whose runs have other tenants too"
	}
	counts := "all slots"
	if use.Active != nil && use.Max != nil {
		counts = fmt.Sprintf("%d of %s", *use.Active, cmdline.Count(*use.Max, "slot"))
	}
	fmt.Fprintf(s.out, "%s %s are in use; a waiting run starts when one of these ends, which cannot be estimated:\n",
		counts, of)
	size, order := maxHolders, client.RunOrderCreatedAsc
	found, err := client.ListRuns(ctx, s.client, &size, nil, &f, &order)
	if err != nil {
		return
	}
	t := &console.Table{Display: s.display, Whole: s.whole(), Before: "  "}
	for _, e := range found.Runs.Edges {
		r := e.Node
		t.Row(shortID(r.RunId), r.Plan.PlanId+"@"+r.Plan.PlanVersion, r.ProjectId+"/"+r.EnvironmentId, runtext.Status(r),
			"since "+s.when(r.StartedAt))
	}
	_ = t.Print() // a broken output fails the next print
	if found.Runs.PageInfo.HasNextPage {
		fmt.Fprintln(s.out, "  and more: dvt run list --status running,paused --sort oldest")
	}
}

// showTasks prints who can complete the manual steps of a run, and the command for them.
func (s *session) showTasks(ctx context.Context, runID string) {
	size := maxHolders
	out, err := client.ListManualTasks(ctx, s.client, &runID, &size, nil)
	if err != nil {
		return // the steps below say that they wait
	}
	for _, e := range out.ManualTasks.Edges {
		task := e.Node
		if task.Action.Outcome == client.ActionOutcomeApply {
			fmt.Fprintf(s.out, "complete: dvt manual complete %s %s --outcome succeeded\n", shortID(runID), task.StepId)
			continue
		}
		fmt.Fprintf(s.out, "%s waits for a person; %s\n", task.StepId,
			notYou(runtext.Deref(task.Action.Reason), task.Action.WhoCould))
	}
}

// showRetry prints the commands for a run whose step failed. If the viewer may not retry the step, it says who can.
func (s *session) showRetry(ctx context.Context, r client.RunRow, step string) {
	next := runtext.NextCommands(r, step)
	if next[0].Name == "retry" {
		p, err := s.previewOf(ctx, client.ActionInput{Signal: &client.SignalActionInput{RunId: r.RunId,
			Signal: client.SignalInput{RetryStep: &client.RetryStepInput{StepId: step}}}})
		if err == nil && p.Outcome == client.ActionOutcomeRefused && len(p.WhoCould) > 0 {
			fmt.Fprintln(s.out, notYou(runtext.Deref(p.Reason), p.WhoCould))
			next = next[1:]
		}
	}
	for _, n := range next {
		fmt.Fprintf(s.out, "%s: %s\n", n.Name, n.Command)
	}
}
