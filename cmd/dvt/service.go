package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/erasecmd"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/installcmd"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

func serviceCommand() *cobra.Command {
	s := &session{}
	return s.command("service", "Show and set the mode of the installation, and list its data workers", s.serviceStatus(),
		s.serviceMode(), s.serviceWorkers(), s.drainWorker(true), s.drainWorker(false))
}

func tenantCommand() *cobra.Command {
	s := &session{}
	return s.command("tenant", "Freeze, unfreeze, export and erase a tenant, and permit share links", s.freeze(true),
		s.freeze(false), s.shareLinks(), s.recovery(), installcmd.TenantExport(&s.output),
		erasecmd.Purge(s.shared()))
}

func exportCommand() *cobra.Command {
	s := &session{}
	return s.command("export", "Check an export of a tenant or a person", installcmd.VerifyExport(&s.output))
}

func (s *session) serviceStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show whether new runs start, and if not, why", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := client.ShowService(c.Context(), s.client)
			if err != nil {
				return cmdline.Failure(err)
			}
			return s.service(out.Service)
		},
	}
}

func (s *session) service(r client.ServiceRow) error {
	if s.output.IsData() {
		return s.print(r)
	}
	_, err := fmt.Fprintln(s.out, strings.Join(serviceLines(r), "\n"))
	return err
}

// serviceLines returns the state of the service, one sentence for each fact.
func serviceLines(r client.ServiceRow) []string {
	out := []string{string(r.Mode) + why(r.ModeSince, r.ModeReason)}
	if r.Frozen {
		out = append(out, "FROZEN: nothing new starts in this tenant"+why(r.FrozenSince, r.FrozenReason))
	}
	if r.Degraded {
		line := "DEGRADED: the engine does not answer or starts runs too slowly, new ones are refused"
		if r.RetryAfterMs != nil {
			line += fmt.Sprintf("; again in %s", runtext.Milliseconds(*r.RetryAfterMs))
		}
		out = append(out, line)
	}
	if r.ActiveRuns != nil {
		out = append(out, cmdline.Count(*r.ActiveRuns, "active run")+" in the whole installation")
	}
	return out
}

func (s *session) serviceWorkers() *cobra.Command {
	return &cobra.Command{
		Use: "workers", Short: "List the data workers of the last 24 hours, what they run and the sandboxes that they can give",
		Args: cmdline.ExactArgs(0),
		Long: "List the data workers that reported in the last 24 hours. STATE is OK, FAILED when the worker's check of its\n" +
			"sandbox failed, OVERDUE when it missed two reports and may be gone, SILENT when it has stopped reporting for two\n" +
			"minutes, DRAINING while steps run that began before it was drained, or DRAINED. RUNS is the number of steps that it ran when it reported, of those that it can run at\n" +
			"once. SANDBOX LIMITS are the parts of a program's surroundings that the worker can limit; CANNOT LIMIT are the\n" +
			"others, with the reason. -o json also has the steps.",
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := client.ShowWorkers(c.Context(), s.client)
			if err != nil {
				return cmdline.Failure(err)
			}
			if s.output.IsData() {
				return s.print(out.Workers)
			}
			if len(out.Workers) == 0 {
				_, err := fmt.Fprintln(s.out, "No data worker has reported in the last 24 hours.")
				return err
			}
			return s.workers(out.Workers)
		},
	}
}

func (s *session) workers(rows []client.WorkerRow) error {
	t := s.table("QUEUE", "WORKER", "STATE", "RUNS", "VERSION", "RUNTIME", "REPORTED", "SANDBOX LIMITS", "CANNOT LIMIT")
	for _, w := range rows {
		t.Row(w.Queue, w.Account+"/"+w.Worker, workerState(w), workerRuns(w), workerVersion(w), w.Runtime,
			s.when(&w.ReportedAt), strings.Join(w.Parts, " "), missingParts(w))
	}
	return t.Print()
}

// workerState returns OK if plans may rely on the worker.
func workerState(w client.WorkerRow) string {
	switch {
	case !w.Live:
		return "SILENT"
	case w.Overdue:
		return "OVERDUE"
	case !w.Ok:
		return "FAILED"
	case w.Drain == nil && !w.Drained:
		return "OK"
	case !w.Drained || w.InUse > 0:
		return "DRAINING" // also a worker that was asked to stop and whose steps go on
	}
	return "DRAINED"
}

func workerVersion(w client.WorkerRow) string {
	if w.Version == nil {
		return "-" // a worker of an earlier version
	}
	return *w.Version
}

func workerRuns(w client.WorkerRow) string {
	if w.Slots == 0 {
		return "-" // a worker of an earlier version
	}
	return fmt.Sprintf("%d of %d", w.InUse, w.Slots)
}

func (s *session) drainWorker(drain bool) *cobra.Command {
	var reason, requestID string
	var yes bool
	c := &cobra.Command{
		Use: "undrain WORKER", Short: "Let a drained worker begin steps again", Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			account, worker, ok := strings.Cut(args[0], "/")
			if !ok {
				return cmdline.Usage(fmt.Errorf(`WORKER must be as "dvt service workers" shows it: ACCOUNT/NAME; not %q`, args[0]))
			}
			if drain && (!yes || cmdline.IsPreview(c)) {
				if goOn, err := s.previewDrain(c, account, worker); err != nil || !goOn {
					return err
				}
			}
			out, err := client.DrainWorker(c.Context(), s.client, client.DrainWorkerInput{RequestId: orNew(requestID),
				Account: account, Worker: worker, Drain: drain, Reason: reason})
			if err != nil {
				return cmdline.Failure(err)
			}
			if s.output.IsData() {
				return s.print(out.DrainWorker)
			}
			return s.workers(out.DrainWorker.Workers)
		},
	}
	auditFlags(c, &reason, &requestID)
	if drain {
		c.Use, c.Short = "drain WORKER", "Let a worker begin no further steps; its running steps go on"
		c.Long = "Let a worker begin no further steps, for example before its machine is stopped. Its running steps go on.\n" +
			"The worker hears of it within 20 seconds. When \"dvt service workers\" shows DRAINED, it runs nothing and can be\n" +
			"stopped. A new process is not drained. The command refuses to leave a queue without any worker unless --yes is\n" +
			"given."
		c.Flags().BoolVar(&yes, "yes", false, "also when steps of a queue would wait")
		cmdline.AddPreview(c)
	}
	return c
}

// previewDrain says what a drain would do. It returns whether the drain may go on, and an error when steps of a queue
// would wait.
func (s *session) previewDrain(c *cobra.Command, account, worker string) (bool, error) {
	list, err := client.ShowWorkers(c.Context(), s.client)
	if err != nil {
		return false, cmdline.Failure(err)
	}
	var rows []client.WorkerRow
	var alone []string
	for _, w := range list.Workers {
		if w.Account != account || w.Worker != worker {
			continue
		}
		if rows = append(rows, w); w.Last {
			alone = append(alone, w.Queue)
		}
	}
	wait := fmt.Sprintf("no other worker serves %s: its steps would wait", strings.Join(alone, ", "))
	switch {
	case cmdline.IsPreview(c) && s.output.IsData():
		return false, s.print(rows)
	case cmdline.IsPreview(c):
		if len(alone) > 0 {
			_, _ = fmt.Fprintln(s.out, "Warning: "+wait+".")
		}
		return false, s.workers(rows)
	case len(alone) > 0:
		return false, fmt.Errorf("%s. Start another worker first, or drain this one with --yes", wait)
	}
	return true, nil
}

// missingParts lists the parts that a worker cannot give, with the reasons, and why its verification failed.
func missingParts(w client.WorkerRow) string {
	var out []string
	if w.Problem != nil {
		out = append(out, "verification: "+*w.Problem)
	}
	for _, m := range w.Missing {
		part := m.Part
		if m.Reason != "" {
			part += " (" + m.Reason + ")"
		}
		out = append(out, part)
	}
	return strings.Join(out, ", ")
}

func why(since *time.Time, reason *string) string {
	line := ""
	if since != nil {
		line = " since " + runtext.Moment(since)
	}
	if reason != nil {
		line += ": " + *reason
	}
	return line
}

func (s *session) serviceMode() *cobra.Command {
	var reason, requestID string
	c := &cobra.Command{
		Use: "mode MODE", Short: "Set the mode of the installation: NORMAL, READ_ONLY or DRAINED", Args: oneMode,
		RunE: func(c *cobra.Command, args []string) error {
			mode, err := cmdline.Word("MODE", args[0], client.AllEngineMode)
			if err != nil {
				return err
			}
			out, err := client.SetEngineMode(c.Context(), s.client, client.SetEngineModeInput{RequestId: orNew(requestID),
				Mode: mode, Reason: reason})
			if err != nil {
				return cmdline.Failure(err)
			}
			return s.service(out.SetEngineMode.Service)
		},
	}
	auditFlags(c, &reason, &requestID)
	return c
}

// oneMode checks the argument MODE before the flags, so that a wrong mode is not hidden behind a missing reason.
func oneMode(c *cobra.Command, args []string) error {
	if err := cmdline.ExactArgs(1)(c, args); err != nil {
		return err
	}
	_, err := cmdline.Word("MODE", args[0], client.AllEngineMode)
	return err
}

func (s *session) freeze(frozen bool) *cobra.Command {
	var tenant, reason, requestID string
	c := &cobra.Command{
		Use: "unfreeze", Short: "Unfreeze the tenant", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			in := client.FreezeTenantInput{RequestId: orNew(requestID), Frozen: frozen, Reason: reason}
			if tenant != "" {
				in.TenantId = &tenant
			}
			out, err := client.FreezeTenant(c.Context(), s.client, in)
			if err != nil {
				return cmdline.Failure(err)
			}
			if tenant != "" && !s.output.IsData() { // the answer describes the caller's own tenant
				is := "frozen"
				if !frozen {
					is = "not frozen any more"
				}
				_, err := fmt.Fprintf(s.out, "The tenant %s is %s.\n", tenant, is)
				return err
			}
			if !s.output.IsData() {
				done := "The tenant is frozen: no new run starts, and running ones continue."
				if !frozen {
					done = "The tenant is not frozen any more: new runs start."
				}
				_, err := fmt.Fprintln(s.out, done)
				return err
			}
			return s.service(out.FreezeTenant.Service)
		},
	}
	if frozen {
		c.Use, c.Short = "freeze", "Freeze the tenant: no new run starts, running ones continue"
	}
	c.Flags().StringVar(&tenant, "tenant", "", "another tenant, for the operators; default: your own")
	auditFlags(c, &reason, &requestID)
	return c
}

// auditFlags adds the flags of a change that is audited.
func auditFlags(c *cobra.Command, reason, requestID *string) {
	c.Flags().StringVar(reason, "reason", "", "why; kept in the audit")
	c.Flags().StringVar(requestID, "request-id", "", "client key that makes repeating safe; default: a new one")
	_ = c.MarkFlagRequired("reason") // cannot fail: the flag exists
}

func (s *session) shareLinks() *cobra.Command {
	var reason, requestID string
	var hours int
	c := &cobra.Command{
		Use: "share-links", Short: "Permit or forbid links that show a run's status without sign-in",
		Args: cmdline.ExactArgs(0),
		Long: "Permit links that show the status of a run to everybody who has the link, for --hours after each was made.\n" +
			"--hours 0 forbids them, which is the default. Every change revokes all links that were made before.",
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := client.SetShareLinks(c.Context(), s.client, client.SetShareLinksInput{RequestId: orNew(requestID),
				Hours: hours, Reason: reason})
			if err != nil {
				return cmdline.Failure(err)
			}
			if s.output.IsData() {
				return s.print(out.SetShareLinks.Service)
			}
			done := "Share links are off, and all earlier ones are revoked."
			if hours > 0 {
				done = fmt.Sprintf("New share links show a status for %s. All earlier ones are revoked.",
					cmdline.Count(hours, "hour"))
			}
			_, err = fmt.Fprintln(s.out, done)
			return err
		},
	}
	c.Flags().IntVar(&hours, "hours", 0, "how long a new link shows the status; 0 to 168, 0: no links")
	_ = c.MarkFlagRequired("hours") // cannot fail: the flag exists
	auditFlags(c, &reason, &requestID)
	return c
}

func (s *session) recovery() *cobra.Command {
	var reason, requestID string
	c := &cobra.Command{
		Use: "recovery MODE", Short: "Lower what dvt does about runs that hang: off, observe, act or default",
		Args: cmdline.ExactArgs(1),
		Long: "Lower what dvt does about runs of the tenant that hang: off, observe (raise alerts) or act (retry a hung\n" +
			"attempt once, and end the run when it hangs again). default is the mode of the installation; a higher mode\n" +
			"than that has no effect.",
		RunE: func(c *cobra.Command, args []string) error {
			var mode *client.RecoveryMode
			switch word := client.RecoveryMode(strings.ToUpper(args[0])); word {
			case client.RecoveryModeOff, client.RecoveryModeObserve, client.RecoveryModeAct:
				mode = &word
			case "DEFAULT":
			default:
				return cmdline.Usage(fmt.Errorf("MODE must be off, observe, act or default; not %q", args[0]))
			}
			out, err := client.SetRecovery(c.Context(), s.client, client.SetRecoveryInput{RequestId: orNew(requestID),
				Mode: mode, Reason: reason})
			if err != nil {
				return cmdline.Failure(err)
			}
			if s.output.IsData() {
				return s.print(out.SetRecovery.Service)
			}
			_, err = fmt.Fprintf(s.out, "The recovery of the tenant is %s.\n",
				strings.ToLower(string(out.SetRecovery.Service.Recovery)))
			return err
		},
	}
	auditFlags(c, &reason, &requestID)
	return c
}
