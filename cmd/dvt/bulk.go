package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/run"
)

func bulkCommand() *cobra.Command {
	s := &session{}
	return s.command("bulk", "Send one signal to many runs, or rerun them; watch or stop the sending",
		s.bulkSignalCommand(), s.bulkRerunCommand(), s.bulkListCommand(), s.bulkShowCommand(), s.bulkWatchCommand(),
		s.bulkStopCommand())
}

// bulkRuns are the flags that select the runs of a bulk.
type bulkRuns struct {
	status                     []string
	project, environment, plan string
	by, text, tag              string
	since, until               string
	idsFrom, failedOf          string
}

func (r *bulkRuns) flags(c *cobra.Command) {
	c.Flags().StringSliceVar(&r.status, "status", nil, "runs with these statuses")
	c.Flags().StringVar(&r.project, "project", "", "runs of this project")
	c.Flags().StringVar(&r.environment, "environment", "", "runs in this environment")
	c.Flags().StringVar(&r.plan, "plan", "", "runs of this plan")
	c.Flags().StringVar(&r.by, "by", "", "runs that this principal started; me: you")
	c.Flags().StringVar(&r.text, "text", "", "runs whose id begins with this text, or whose plan id contains it")
	c.Flags().StringVar(&r.tag, "tag", "", "runs with exactly this tag, such as team:data")
	c.Flags().StringVar(&r.since, "since", "",
		"runs created since then: a time in RFC 3339, or how long ago, like 2h or 7d")
	c.Flags().StringVar(&r.until, "until", "", "runs created before then: a time in RFC 3339, or how long ago")
	c.Flags().StringVar(
		&r.idsFrom, "ids-from", "", "the runs whose ids are in this file, one per line; - reads standard input")
	c.Flags().StringVar(&r.failedOf, "failed-of", "", "the runs for which this bulk failed")
	filters := []string{"status", "project", "environment", "plan", "by", "text", "tag", "since", "until"}
	for _, f := range filters {
		c.MarkFlagsMutuallyExclusive(f, "ids-from")
		c.MarkFlagsMutuallyExclusive(f, "failed-of")
	}
	c.MarkFlagsMutuallyExclusive("ids-from", "failed-of")
	c.MarkFlagsOneRequired(append(filters, "ids-from", "failed-of")...)
}

// input returns the selection of the flags. It reads the file of --ids-from.
func (r *bulkRuns) input(c *cobra.Command) (client.BulkRunsInput, error) {
	switch {
	case r.failedOf != "":
		return client.BulkRunsInput{FailedOf: &r.failedOf}, nil
	case r.idsFrom != "":
		text, err := document.ReadText(r.idsFrom, c.InOrStdin())
		switch {
		case err != nil:
			return client.BulkRunsInput{}, cmdline.Usage(err)
		case len(text) > maxIDs:
			return client.BulkRunsInput{}, cmdline.Usage(
				fmt.Errorf("%s is larger than 1 MiB, the limit for the ids of a bulk. Nothing was sent", document.Name(r.idsFrom)))
		}
		ids := []string{}
		for line := range strings.Lines(string(text)) {
			if id := strings.TrimSpace(line); id != "" {
				ids = append(ids, id)
			}
		}
		return client.BulkRunsInput{Ids: ids}, nil
	}
	f := client.RunFilter{ProjectId: orNil(r.project), EnvironmentId: orNil(r.environment), PlanId: orNil(r.plan),
		TriggeredBy: orNil(r.by), Text: orNil(r.text), Tag: orNil(r.tag)}
	var err error
	if f.CreatedFrom, err = instant("--since", r.since, time.Now()); err != nil {
		return client.BulkRunsInput{}, err
	}
	if f.CreatedTo, err = instant("--until", r.until, time.Now()); err != nil {
		return client.BulkRunsInput{}, err
	}
	f.Statuses, err = cmdline.Words("--status", r.status, client.AllRunStatus)
	return client.BulkRunsInput{Filter: &f}, err
}

// maxIDs bounds a file of ids, in bytes. It is more than the largest bulk needs.
const maxIDs = 1 << 20

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// bulkVerbs returns the actions of a bulk by the name on the command line. Each takes the reason.
func bulkVerbs(step string, force bool) map[string]func(why string) client.BulkActionInput {
	signal := func(in client.SignalInput) client.BulkActionInput { return client.BulkActionInput{Signal: &in} }
	return map[string]func(string) client.BulkActionInput{
		"pause": func(why string) client.BulkActionInput {
			return signal(client.SignalInput{Pause: &client.PauseInput{Reason: &why}})
		},
		"resume": func(why string) client.BulkActionInput {
			return signal(client.SignalInput{Resume: &client.ResumeInput{Reason: &why}})
		},
		"cancel": func(why string) client.BulkActionInput {
			return client.BulkActionInput{Cancel: &client.BulkCancelInput{Reason: &why}}
		},
		"stop": func(why string) client.BulkActionInput {
			return signal(client.SignalInput{EmergencyStop: &client.EmergencyStopInput{Reason: why, ForceKill: &force}})
		},
		"retry": func(why string) client.BulkActionInput {
			return signal(client.SignalInput{RetryStep: &client.RetryStepInput{StepId: step, Force: &force, Reason: &why}})
		},
		"skip": func(why string) client.BulkActionInput {
			return signal(client.SignalInput{SkipStep: &client.SkipStepInput{StepId: step, Reason: &why}})
		},
	}
}

func (s *session) bulkSignalCommand() *cobra.Command {
	var order bulkOrder
	var step string
	var force bool
	c := &cobra.Command{
		Use: "signal pause|resume|cancel|stop|retry|skip", Short: "Send one signal to many runs, on the server",
		Args: cmdline.ExactArgs(1),
		Long: `Send one signal to many runs. The set of runs is fixed when the server accepts the request, and the server
continues when this command ends. The command first shows how many runs are selected and how many would refuse, and asks for
confirmation; --yes sends it at once.`,
		ValidArgs: []string{"pause", "resume", "cancel", "stop", "retry", "skip"},
		RunE: func(c *cobra.Command, args []string) error {
			verb, ok := bulkVerbs(step, force)[args[0]]
			switch {
			case !ok:
				return cmdline.Usage(fmt.Errorf("the signal must be pause, resume, cancel, stop, retry or skip, not %q", args[0]))
			case (step == "") != (args[0] != "retry" && args[0] != "skip"):
				return cmdline.Usage(errors.New("retry and skip need --step; the other signals do not take it"))
			}
			return s.sendBulk(c, &order, verb)
		},
	}
	order.flags(c, "watch the bulk until each run has its outcome")
	c.Flags().StringVar(&step, "step", "", "for retry and skip: the step")
	c.Flags().BoolVar(&force, "force", false, "for retry: even if the policy forbids it; for stop: end the run in the "+
		"engine without its cooperation")
	return c
}

// bulkOrder are the flags that the commands that create a bulk share.
type bulkOrder struct {
	runs              bulkRuns
	reason, requestID string
	yes, watch        bool
}

// flags adds the flags to c. watch is the help of --watch.
func (o *bulkOrder) flags(c *cobra.Command, watch string) {
	o.runs.flags(c)
	c.Flags().StringVar(&o.reason, "reason", "", "why; kept in the audit")
	cmdline.RequireReason(c)
	c.Flags().StringVar(&o.requestID, "request-id", "", "client key, for repeating the same request; default: a new one")
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&o.watch, "watch", false, watch)
	cmdline.AddPreview(c)
}

// sendBulk shows what the action of verb would do to the runs of o, asks for confirmation and sends it.
func (s *session) sendBulk(c *cobra.Command, o *bulkOrder, verb func(why string) client.BulkActionInput) error {
	o.reason = cmdline.ReasonFor(c, o.reason)
	in, err := o.runs.input(c)
	if err != nil {
		return err
	}
	action := verb(o.reason)
	preview, err := client.PreviewBulk(c.Context(), s.client, client.BulkPreviewInput{Runs: in, Action: action})
	if err != nil {
		return cmdline.Failure(err)
	}
	p := preview.Preview
	switch {
	case cmdline.IsPreview(c) && s.output.IsData():
		err = s.print(p)
	case !s.output.IsData() || !o.yes && console.CanAnswer(c.InOrStdin()):
		s.showBulkPreview(action.Rerun != nil, p)
	}
	switch {
	case err != nil:
		return err
	case p.Bulk != nil && p.Bulk.Count == 0 && runtext.Deref(p.Code) == string(run.CodeAlreadyRerun):
		return &cmdline.Error{Status: 3, Code: runtext.Deref(p.Code),
			Err: errors.New("every selected run was already rerun. Nothing was sent\n  to rerun them once more: add --already-rerun")}
	case p.Bulk != nil && p.Bulk.Count == 0:
		return &cmdline.Error{Status: 4, Code: "NOT_FOUND", Err: errors.New("no run is selected. Nothing was sent")}
	case p.Outcome == client.ActionOutcomeRefused:
		return &cmdline.Error{Status: 3, Code: runtext.Deref(p.Code),
			Err: errors.New("the server would refuse it. Nothing was sent")}
	case cmdline.IsPreview(c):
		return nil
	}
	if err := s.confirmBulk(c, p.Bulk.Count, o.yes); err != nil {
		return err
	}
	out, err := client.SignalRuns(c.Context(), s.client, client.SignalRunsInput{
		RequestId: orNew(o.requestID), Runs: in, Action: action, Reason: o.reason, ExpectedCount: p.Bulk.Count,
	})
	if err != nil {
		return cmdline.Failure(err)
	}
	id := out.SignalRuns.Bulk.Id
	if o.watch {
		return s.watchBulk(c.Context(), id)
	}
	if s.output.IsData() {
		return s.print(out.SignalRuns)
	}
	fmt.Fprintf(s.err, "accepted for %s: dvt bulk watch %s\n", cmdline.Count(p.Bulk.Count, "run"), id)
	_, err = fmt.Fprintln(s.out, id)
	return err
}

// showBulkPreview prints the number of runs, those that would refuse, and what would become of the first. rerun is for
// a bulk that reruns.
func (s *session) showBulkPreview(rerun bool, p client.PreviewBulkPreviewActionPreview) {
	if p.Bulk == nil {
		return
	}
	fmt.Fprintln(s.err, cmdline.Count(p.Bulk.Count, "run"))
	for _, r := range p.Bulk.Excluded {
		fmt.Fprintf(s.err, "  %d left out: %s\n", r.Count, r.Reason)
	}
	for _, r := range p.Bulk.Refusals {
		fmt.Fprintf(s.err, "  %d would refuse: %s [%s]\n", r.Count, r.Reason, r.Code)
	}
	for _, r := range p.Bulk.Samples {
		says := strings.TrimSpace(outcomes[r.Outcome] + " " + runtext.Deref(r.Reason))
		kinds := map[client.StepChangeKind]int{}
		for _, change := range r.Changes {
			kinds[change.Kind]++
		}
		if kept := kinds["REUSE"]; rerun && len(r.Changes) > 0 {
			says = rerunCounts(len(r.Changes)-kept, kept)
		}
		if stopped := kinds["CANCEL"]; stopped > 0 {
			says += fmt.Sprintf(" Running steps that stop: %d.", stopped)
		}
		fmt.Fprintf(s.err, "  %s (%s): %s\n", r.RunId, runtext.Words(r.Status), says)
	}
	if more := p.Bulk.Count - len(p.Bulk.Samples); more > 0 {
		fmt.Fprintf(s.err, "  and %s\n", cmdline.Count(more, "more run"))
	}
}

// confirmBulk asks the person to type the number of runs. Without a terminal it is a usage error, because a script must
// pass --yes.
func (s *session) confirmBulk(c *cobra.Command, count int, yes bool) error {
	if yes {
		return nil
	}
	if !console.CanAnswer(c.InOrStdin()) {
		return cmdline.Usage(errors.New(
			c.CommandPath() + " needs --yes without a terminal: see what it would do with --preview first"))
	}
	fmt.Fprintf(s.err, "To %s %s, type %d: ", c.Name(), cmdline.Count(count, "run"), count)
	answer, err := readLine(c)
	if err != nil {
		return err
	}
	if answer != fmt.Sprint(count) {
		return cmdline.Usage(errors.New("nothing was sent"))
	}
	return nil
}

func (s *session) bulkRerunCommand() *cobra.Command {
	var order bulkOrder
	var again rerunFlags
	var all bool
	c := &cobra.Command{
		Use: "rerun", Short: "Run the plans of many ended runs again, on the server", Args: cmdline.ExactArgs(0),
		Long: `Start a new run for each of many runs that ended, as dvt run rerun does for one. The set of runs is fixed when
the server accepts the request, and the server continues when this command ends. A run that has not ended is refused. When
a quota is used up, the other runs wait for it. --param and --params give all new runs the same parameters, and leave out
those of the earlier runs.

A run that has a newer rerun is left out, so that no load runs twice; --already-rerun includes it. A rerun that was
cancelled does not count.

The command first shows how many runs are selected and how many would refuse, and asks for confirmation; --yes sends it at
once. With --watch the command ends when the new runs have ended, with status 1 when one did not succeed.`,
		RunE: func(c *cobra.Command, _ []string) error {
			from, params, err := again.input(c)
			if err != nil {
				return err
			}
			if params != nil && !s.output.IsData() {
				fmt.Fprintf(s.err, "All new runs get the same parameters (%s). Those of the earlier runs are left out.\n",
					namesOfParams(*params))
			}
			return s.sendBulk(c, &order, func(why string) client.BulkActionInput {
				return client.BulkActionInput{Rerun: &client.BulkRerunInput{From: from, Params: params, Reason: &why,
					AlreadyRerun: &all}}
			})
		},
	}
	again.flags(c)
	c.Flags().BoolVar(&all, "already-rerun", false, "include runs that have a newer rerun")
	order.flags(c, "watch the bulk until the new runs have ended")
	return c
}
