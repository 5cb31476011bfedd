package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/stepcmd"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
	"github.com/dvt-engine/dvt/plan"
	log "github.com/dvt-engine/dvt/run"
)

func (s *session) showCommand() *cobra.Command {
	var at int64
	var failed, all bool
	c := &cobra.Command{
		Use: "show RUN", Short: "Show one run and its steps, now or at an earlier moment", Args: cmdline.ExactArgs(1),
		Long: "Show one run and its steps: the failed ones first, then the others in the order in which they started.\n" +
			"Steps that have not started come last, in the order of the plan. Of a run of more than 60 steps only those are\n" +
			"shown that failed, run, or are blocked by a failed step, at most 20 of each; --all shows all.",
		RunE: func(c *cobra.Command, args []string) error {
			var past *int64
			if c.Flags().Changed("at") {
				past = &at
			}
			out, err := client.ShowRun(c.Context(), s.client, args[0], past)
			if err != nil {
				return cmdline.Failure(err)
			}
			if out.Run == nil {
				return cmdline.NotFound("run")
			}
			titles := stepTitles(out.Run)
			if failed {
				out.Run.Steps = slices.DeleteFunc(out.Run.Steps,
					func(st client.ShowRunRunStepsStep) bool { return !hasFailed(st) })
			}
			if s.output.IsData() {
				return s.print(out.Run)
			}
			rest := ""
			if !all && !failed {
				out.Run.Steps, rest = briefSteps(out.Run.Steps)
			}
			if err := s.show(c.Context(), out.Run, titles, past != nil, failed); err != nil || rest == "" {
				return err
			}
			_, err = fmt.Fprintf(s.out, "%s. All of them: dvt run show %s --all\n", rest, shortID(args[0]))
			return err
		},
	}
	c.Flags().BoolVar(&failed, "failed", false, "only the steps that failed")
	c.Flags().BoolVar(&all, "all", false, "every step, also of a run of more than 60 steps")
	c.Flags().Int64Var(&at, "at", 0, "the run as it was at this seq of its log (see dvt run events)")
	return c
}

// Limits on the steps that show prints without --all.
const (
	maxShownSteps = 60 // of a run whose steps are all shown
	maxShownAlike = 20 // failed, running and blocked steps of other runs
)

// briefSteps returns the steps of a large run that somebody looks for, and says how many others there are. It returns
// all steps, and "", when they are few.
func briefSteps(steps []client.ShowRunRunStepsStep) (shown []client.ShowRunRunStepsStep, rest string) {
	if len(steps) <= maxShownSteps {
		return steps, ""
	}
	alike, others := map[string]int{}, map[string]int{}
	var order []string
	for _, st := range steps {
		kind := ""
		switch {
		case hasFailed(st), st.Status == client.StepStatusRunning:
			kind = string(st.Status)
		case st.Wait != nil && st.Wait.Kind == client.WaitKindFailedStep:
			kind = string(st.Wait.Kind)
		}
		if alike[kind]++; kind != "" && alike[kind] <= maxShownAlike {
			shown = append(shown, st)
			continue
		}
		status := runtext.Words(st.Status)
		if others[status]++; others[status] == 1 {
			order = append(order, status)
		}
	}
	for i, status := range order {
		order[i] = fmt.Sprintf("%d %s", others[status], status)
	}
	return shown, fmt.Sprintf("%d further steps: %s", len(steps)-len(shown), strings.Join(order, ", "))
}

func (s *session) stepCommand() *cobra.Command {
	return stepcmd.Show(s.shared())
}

func (s *session) nodesCommand() *cobra.Command {
	return stepcmd.Nodes(s.shared())
}

// stepStatus returns the status of a step for people.
func stepStatus(st client.StepRow) string {
	if st.Error == nil {
		return st.StatusRaw
	}
	return runtext.StepStatus(st.StatusRaw, &st.Error.Code)
}

func hasFailed(st client.ShowRunRunStepsStep) bool { return st.Status == client.StepStatusFailed }

// stepTitles returns the title of each step of a run, by its id.
func stepTitles(run *client.ShowRunRun) map[string]string {
	out := make(map[string]string, len(run.Steps))
	for _, st := range run.Steps {
		out[st.StepId] = runtext.StepTitle(st.StepId, runtext.Deref(st.Name))
	}
	return out
}

// show prints a run. titles are those of all its steps, past is for an earlier moment, and failed for the failed steps
// only.
func (s *session) show(ctx context.Context, run *client.ShowRunRun, titles map[string]string, past, failed bool) error {
	r, is := run.RunRow, "at seq"
	if past {
		is = "as it was at seq"
	}
	by := runtext.Deref(r.TriggeredBy)
	began := fmt.Sprintf("started by %s %s, took %s", by, s.when(r.StartedAt), runtext.Duration(r, time.Now()))
	if r.StartedAt == nil {
		began = fmt.Sprintf("requested by %s %s, not started", by, s.when(&r.CreatedAt))
	}
	fmt.Fprintf(s.out, "%s  %s@%s  %s/%s\n%s %s %d, %s\n", r.RunId, r.Plan.PlanId, r.Plan.PlanVersion,
		r.ProjectId, r.EnvironmentId, runtext.Status(r)+restingStatus(run)+skippedFailures(run), is, r.RunSeq, began)
	if parent := runtext.Deref(run.ParentRunId); parent != "" {
		fmt.Fprintln(s.out, "rerun of", parent)
	}
	if s.output == document.Wide {
		fmt.Fprintln(s.out, "trace", run.TraceId)
	}
	s.showPlanRef(run.Plan)
	if run.Request.Params != nil {
		fmt.Fprintln(s.out, "parameters:", paramsInWords(*run.Request.Params))
	}
	if r.Message != nil && *r.Message != "" && run.Approval == nil && run.Pause == nil {
		fmt.Fprintln(s.out, console.OneLine(*r.Message))
	}
	if r.RootCause != nil {
		why := runtext.Cause(r)
		if r.RootCause.Message != nil && *r.RootCause.Message != "" {
			why += ": " + console.OneLine(*r.RootCause.Message)
		}
		fmt.Fprintf(s.out, "cause: %s\n", why)
		if held := runtext.Held(r.RootCause); held != "" {
			fmt.Fprintln(s.out, held)
		}
	}
	if r.Cancellation != nil {
		fmt.Fprintln(s.out, console.OneLine(runtext.CancelledBy(r.Cancellation)))
	}
	if r.RetryDeadline != nil {
		fmt.Fprintf(s.out, "retry window closes %s\n", s.when(r.RetryDeadline))
	}
	if !past {
		if end := runtext.End(run, s.when); end != "" {
			fmt.Fprintln(s.out, end)
		}
	}
	if !past && r.CompletedAt != nil {
		s.showReruns(ctx, r)
	}
	slices.SortStableFunc(run.Steps, compareByProgress)
	if i := slices.IndexFunc(run.Steps, hasFailed); i >= 0 && !past {
		s.showRetry(ctx, r, run.Steps[i].StepId)
	}
	if !past {
		s.showWaiting(ctx, run)
	}
	if len(run.Steps) == 0 && !failed {
		return nil // the run has not started, so its steps are not known yet
	}
	fmt.Fprintln(s.out)
	if len(run.Steps) == 0 && failed {
		fmt.Fprintln(s.out, "No step failed.")
		return nil
	}
	named := slices.ContainsFunc(run.Steps,
		func(st client.ShowRunRunStepsStep) bool { return runtext.Deref(st.Name) != "" })
	head := []string{"STEP", "NAME", "TYPE", "STATUS", "ATTEMPT", "TOOK", "WHY"}
	if !named {
		head = slices.Delete(head, 1, 2)
	}
	t := s.table(head...)
	for _, st := range run.Steps {
		if r.CompletedAt != nil && !past && st.Status == client.StepStatusPending && st.Skip == nil {
			st.Skip = &client.StepRowSkip{ReasonCode: runtext.NeverStarted}
		}
		s.stepRow(t, st, titles, named, past)
	}
	return t.Print()
}

// ownPlan begins the address of a plan that came with the request of its run.
const ownPlan = "dvt:"

// showPlanRef prints what a reference to a plan says beside its name, and the end of a deprecated schema version.
func (s *session) showPlanRef(p client.RunPlanRef) {
	if p.Uri != nil && *p.Uri != "" && !strings.HasPrefix(*p.Uri, ownPlan) {
		line := "plan from " + *p.Uri
		if mirror := runtext.Deref(p.AnsweredBy); mirror != "" {
			line = "plan from the mirror " + mirror + ", because " + *p.Uri + " did not give it"
		} else if len(p.Mirrors) > 0 {
			line += ", mirrors: " + strings.Join(p.Mirrors, ", ")
		}
		if packed := runtext.Deref(p.Compression); packed != "" && packed != "none" {
			line += ", " + packed
		}
		if p.ExpiresAt != nil {
			line += ", the reference expires " + s.when(p.ExpiresAt)
		}
		fmt.Fprintln(s.out, console.OneLine(line))
	}
	if path := runtext.Deref(p.SchemaEvolutionPath); path != "" {
		fmt.Fprintln(s.out, "schema evolution:", console.OneLine(path))
	}
	if h := p.MigrationHint; h != nil {
		line := fmt.Sprintf("migration: %s to %s", h.SourceVersion, h.TargetVersion)
		if script := runtext.Deref(h.TransformScript); script != "" {
			line += " by " + script
		}
		fmt.Fprintln(s.out, console.OneLine(line))
	}
	if p.SchemaEnd != nil {
		fmt.Fprintf(s.out, "schema %s of the plan is deprecated: dvt reads it until %s\n", p.SchemaVersion, *p.SchemaEnd)
	}
}

// skippedAfterFailure reports whether a person skipped a step that had failed: the skip is an attempt of its own.
func skippedAfterFailure(st client.StepRow) bool {
	return st.Skip != nil && st.Skip.ReasonCode == string(log.OperatorSkip) && st.LogicalAttemptId > 1
}

// skippedFailures counts, behind the status of a run, its failed steps that people skipped: without it a run that
// completed so looks as if nothing had failed.
func skippedFailures(run *client.ShowRunRun) string {
	n := 0
	for _, st := range run.Steps {
		if skippedAfterFailure(st.StepRow) {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return " (" + cmdline.Count(n, "failed step") + " skipped by a person)"
}

// maxRerunsRead bounds the runs of a plan, after a run's end, among which its reruns are looked for.
const maxRerunsRead = 100

// showReruns names the reruns of a run that has ended, so that nobody reruns it a second time. It prints nothing when
// they cannot be read.
func (s *session) showReruns(ctx context.Context, r client.RunRow) {
	out, err := client.ListReruns(ctx, s.client, r.ProjectId, r.EnvironmentId, r.Plan.PlanId, *r.CompletedAt,
		maxRerunsRead)
	if err != nil {
		return
	}
	for _, e := range out.Runs.Edges {
		if n := e.Node; runtext.Deref(n.ParentRunId) == r.RunId {
			fmt.Fprintf(s.out, "rerun as %s, %s: dvt run show %s\n", shortID(n.RunId),
				runtext.Words(n.StatusRaw)+runtext.Substatus(n.Substatus), shortID(n.RunId))
		}
	}
}

// compareByProgress orders failed steps before others, then steps by their start, then by their ids. Those that have
// not started come last.
func compareByProgress(a, b client.ShowRunRunStepsStep) int {
	later := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	out := cmp.Or(later(a.Status != client.StepStatusFailed)-later(b.Status != client.StepStatusFailed),
		later(a.StartedAt == nil)-later(b.StartedAt == nil))
	if out == 0 && a.StartedAt != nil {
		out = a.StartedAt.Compare(*b.StartedAt)
	}
	return cmp.Or(out, runtext.CompareIDs(a.StepId, b.StepId))
}

func (s *session) stepRow(t *console.Table, st client.ShowRunRunStepsStep, titles map[string]string,
	named, past bool) {
	took, why := "-", ""
	if st.DurationMs != nil {
		took = runtext.Milliseconds(*st.DurationMs)
	}
	if st.Error != nil {
		why = console.OneLine(strings.TrimSuffix(st.Error.Code+": "+runtext.Deref(st.Error.Message), ": "))
	}
	attempt := st.LogicalAttemptId
	switch {
	case skippedAfterFailure(st.StepRow):
		attempt--
		why = "skipped by a person after it failed"
		if reason := runtext.Deref(st.Skip.Reason); reason != "" {
			why += ": " + console.OneLine(reason)
		}
	case st.Skip != nil:
		why = runtext.SkipReason(st.Skip.ReasonCode)
	}
	status := console.Span{Text: stepStatus(st.StepRow), Style: watchview.StepSigns[st.Status].Style}
	switch {
	case st.KeptFrom != nil: // its work was done in another run
		status, took = console.Span{Text: "KEPT", Style: console.Dim}, "-"
		why = "kept from " + shortID(*st.KeptFrom)
	case triesAgain(st): // the log says that it runs
		status = console.Span{Text: "WAITING", Style: console.Dim}
	case st.Error != nil && runtext.IsStop(st.Error.Code): // it has not failed by itself
		status.Style = console.Dim
		why = console.OneLine(runtext.Deref(st.Error.Message))
	}
	if st.Wait != nil {
		why = strings.TrimPrefix(why+"; "+s.waitWords(st, titles, past), "; ")
	}
	cells := []any{st.StepId, st.Type, status, nth(attempt), took, why}
	if named {
		cells = slices.Insert(cells, 1, any(runtext.Deref(st.Name)))
	}
	t.Row(cells...)
}

// waitWords returns what the step waits for; st.Wait must not be nil. In a past view it leaves out when a worker was
// last seen, because the server knows that for the present only.
func (s *session) waitWords(st client.ShowRunRunStepsStep, titles map[string]string, past bool) string {
	w := st.Wait
	switch w.Kind {
	case client.WaitKindWorker:
		switch {
		case runtext.Deref(w.TaskQueue) == "": // a timer or a manual step, or a log of a version that recorded no queues
			return "waits to be started"
		case past:
			return "waits for a worker on " + *w.TaskQueue
		case w.PollerSeenAt == nil: // the engine forgets pollers, so "never" could be false
			return "waits for a worker on " + *w.TaskQueue + ", none seen recently"
		}
		return "waits for a worker on " + *w.TaskQueue + ", last seen " + s.seen(*w.PollerSeenAt)
	case client.WaitKindDependencies:
		return "waits for " + stepNames(w.BlockingSteps, titles)
	case client.WaitKindFailedStep:
		return "blocked by a failed step, waits for " + stepNames(w.BlockingSteps, titles)
	case client.WaitKindFailFast:
		return "nothing new starts while " + stepNames(w.BlockingSteps, titles) + " waits for an operator"
	case client.WaitKindPaused:
		if by := runtext.Deref(w.Who); by != "" {
			return "waits because " + by + " paused the run"
		}
		return "waits because the run is paused"
	case client.WaitKindPerson:
		if st.Status == client.StepStatusFailed {
			return "waits for a person to retry or skip it"
		}
		return "waits for a person to complete it"
	case client.WaitKindRetry:
		if st.Status == client.StepStatusRunning {
			return "waits to try again: " + nextTry(w.Try, w.Tries, w.Until)
		}
		return "waits to be retried"
	case client.WaitKindQuota:
		return "waits for the quota of heavy steps" + s.again(w.Until)
	case client.WaitKindJournal:
		return "its worker does not reach the journal of the server" + s.again(w.Until)
	case client.WaitKindStore:
		return "its worker gets no answer from the store"
	}
	return "waits: " + string(w.Kind) // a kind of a newer server
}

// nextTry says which automatic try of a step comes next, and when.
func nextTry(no, of *int, until *time.Time) string {
	if no == nil || of == nil {
		return "the next try"
	}
	try := fmt.Sprintf("try %d of %d", *no, *of)
	if until == nil {
		return try + " once a worker takes it"
	}
	return try + " in " + plan.DurationWords(max(time.Until(*until), time.Second).Truncate(time.Second))
}

// triesAgain reports whether a running step waits for its next automatic try, so that nothing works on it.
func triesAgain(st client.ShowRunRunStepsStep) bool {
	return st.Status == client.StepStatusRunning && st.Wait != nil && st.Wait.Kind == client.WaitKindRetry
}

// restingStatus says, behind the status of a run, that all its running steps wait for their next try.
func restingStatus(run *client.ShowRunRun) string {
	working := slices.ContainsFunc(run.Steps, func(st client.ShowRunRunStepsStep) bool {
		return st.Status == client.StepStatusRunning && !triesAgain(st)
	})
	if run.Status != client.RunStatusRunning || run.Substatus != nil || working ||
		!slices.ContainsFunc(run.Steps, triesAgain) {
		return ""
	}
	return " (waits to try again)"
}

// again says when a wait ends or is tried again.
func (s *session) again(until *time.Time) string {
	if until == nil {
		return ""
	}
	return ", again " + s.when(until)
}

// seen formats a past time for a list. The server's clock may be ahead of the local one; "in 2s" would be wrong for
// something that has happened.
func (s *session) seen(at time.Time) string {
	if s.display.IsTerminal() && !s.utc && at.After(time.Now()) {
		return "just now"
	}
	return s.when(&at)
}

// stepNames returns the titles of the first three steps, and how many more there are.
func stepNames(ids []string, titles map[string]string) string {
	const named = 3
	if len(ids) == 0 {
		return "other steps"
	}
	names := make([]string, min(len(ids), named))
	for i := range names {
		names[i] = cmp.Or(titles[ids[i]], ids[i])
	}
	if more := len(ids) - named; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}

// nth formats the number of a logical attempt: "1" for the first, then the number of the retry; "-" for none.
func nth(logicalAttempt int) string {
	switch {
	case logicalAttempt > 1:
		return fmt.Sprintf("Retry #%d", logicalAttempt-1)
	case logicalAttempt == 1:
		return "1"
	}
	return "-"
}

func (s *session) openCommand() *cobra.Command {
	var onlyPrint bool
	c := &cobra.Command{
		Use: "open RUN [STEP]", Short: "Open the page of a run, or of one of its steps, in the browser",
		Args: cmdline.RangeArgs(1, 2),
		Long: "Print the address of the page and open it in the browser. Without a display the command only prints.",
		RunE: func(c *cobra.Command, args []string) error {
			address := strings.TrimSuffix(s.server, "/") + "/runs/" + url.PathEscape(args[0])
			if len(args) > 1 {
				if _, err := s.countAttempts(c.Context(), args[0], args[1]); err != nil {
					return err
				}
				address += "?step=" + url.QueryEscape(args[1])
			} else {
				out, err := client.HeadOfRun(c.Context(), s.client, args[0])
				switch {
				case err != nil:
					return cmdline.Failure(err)
				case out.Run == nil:
					return cmdline.NotFound("run")
				}
			}
			if s.output.IsData() {
				return s.print(map[string]string{"address": address})
			}
			fmt.Fprintln(s.out, address)
			if onlyPrint {
				return nil
			}
			if err := console.OpenBrowser(c.Context(), address); err != nil && !errors.Is(err, console.ErrNoDisplay) {
				fmt.Fprintf(s.err, "The browser did not open: %v\n", err)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&onlyPrint, "print", false, "only print the address")
	return c
}
