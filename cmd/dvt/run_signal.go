package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
	"github.com/dvt-engine/dvt/run"
)

// verb describes a command that sends one signal.
type verb struct {
	use, short string
	long       string // default: short
	args       int
	optional   int  // arguments that may be left out, at the end
	reason     bool // --reason is required
	strong     bool // needs a confirmation or --yes
	watches    bool // has --watch, because the run continues
	stops      bool // may be sent even if the server cannot preview it
	flags      func(*cobra.Command)
	// defaultStep returns the step of the run that the signal is for when the argument STEP is left out.
	defaultStep func(c *cobra.Command, runID string) (string, error)
	// input fills in the signal to the run args[0]. If it is nil, cancelRun is sent instead.
	input func(c *cobra.Command, args []string, why *string, in *client.SignalInput) error
}

func (s *session) signalCommands() (out []*cobra.Command) {
	for _, v := range []verb{
		{
			use: "pause RUN", short: "Stop starting steps; running steps continue to their end", args: 1,
			input: func(_ *cobra.Command, _ []string, why *string, in *client.SignalInput) error {
				in.Pause = &client.PauseInput{Reason: why}
				return nil
			},
		},
		{
			use: "resume RUN", short: "Continue after a pause", args: 1, watches: true,
			input: func(_ *cobra.Command, _ []string, why *string, in *client.SignalInput) error {
				in.Resume = &client.ResumeInput{Reason: why}
				return nil
			},
		},
		s.retryVerb(),
		{
			use: "skip RUN STEP", short: "Skip a step that is pending or failed; its dependants continue", args: 2,
			input: func(_ *cobra.Command, args []string, why *string, in *client.SignalInput) error {
				in.SkipStep = &client.SkipStepInput{StepId: args[1], Reason: why}
				return nil
			},
		},
		paramsVerb(),
		{
			use: "override RUN STEP PATCH", short: "Change the inputs of a step by a merge patch (JSON or YAML file; - reads " +
				"standard input), from its next attempt on", args: 3, reason: true, strong: true,
			input: func(c *cobra.Command, args []string, why *string, in *client.SignalInput) error {
				doc, err := readObject(args[2], c.InOrStdin())
				in.InjectOverride = &client.InjectOverrideInput{StepId: args[1], Override: doc, Reason: *why}
				return err
			},
		},
		targetVerb(),
		alertVerb(),
		{use: "cancel RUN", short: "Stop the running steps and end the run", args: 1, strong: true, stops: true},
		stopVerb(),
	} {
		out = append(out, s.signalCommand(v))
	}
	return out
}

func paramsVerb() verb {
	var step string
	return verb{
		use: "update-params RUN PARAMS", short: "Set parameters, or remove them with null (JSON or YAML file; - reads " +
			"standard input), for attempts that begin from now on", args: 2, strong: true,
		flags: func(c *cobra.Command) {
			c.Flags().StringVar(&step, "step", "", "only for this step; default: the whole run")
		},
		input: func(c *cobra.Command, args []string, why *string, in *client.SignalInput) error {
			doc, err := readObject(args[1], c.InOrStdin())
			in.UpdateParams = &client.UpdateParamsInput{NewParams: doc, Reason: why}
			if step != "" {
				in.UpdateParams.StepId = &step
			}
			return err
		},
	}
}

func targetVerb() verb {
	var database, schema string
	return verb{
		use: "set-target RUN STEP", short: "Change where a dbt step writes, from its next attempt on", args: 2, reason: true,
		strong: true,
		flags: func(c *cobra.Command) {
			c.Flags().StringVar(&database, "database", "", "database; its profile reads it as var('dvt_target_database')")
			c.Flags().StringVar(&schema, "schema", "", "schema; its profile reads it as var('dvt_target_schema')")
			c.MarkFlagsOneRequired("database", "schema")
		},
		input: func(_ *cobra.Command, args []string, why *string, in *client.SignalInput) error {
			in.UpdateTarget = &client.UpdateTargetInput{StepId: args[1], Reason: *why}
			if database != "" {
				in.UpdateTarget.NewTarget.DestinationDb = &database
			}
			if schema != "" {
				in.UpdateTarget.NewTarget.Schema = &schema
			}
			return nil
		},
	}
}

func alertVerb() verb {
	var level, note string
	return verb{
		use: "alert RUN", short: "Raise an alert about a run; the run continues unchanged", args: 1,
		flags: func(c *cobra.Command) {
			c.Flags().StringVar(&level, "level", "MEDIUM", "LOW, MEDIUM or HIGH")
			c.Flags().StringVar(&note, "note", "", "what to look at")
		},
		input: func(_ *cobra.Command, _ []string, why *string, in *client.SignalInput) error {
			as, err := cmdline.Word("--level", level, client.AllAlertLevel)
			if err != nil {
				return err
			}
			in.EscalateAlert = &client.EscalateAlertInput{Level: as, Note: why}
			if note != "" {
				in.EscalateAlert.Note = &note
			}
			return nil
		},
	}
}

func stopVerb() verb {
	var force bool
	return verb{
		use: "stop RUN", short: "Emergency stop: end the run now", args: 1, reason: true, strong: true, stops: true,
		flags: func(c *cobra.Command) {
			c.Flags().BoolVar(
				&force, "force", false, "end it in the engine without its cooperation; running programs may continue for a while")
		},
		input: func(_ *cobra.Command, _ []string, why *string, in *client.SignalInput) error {
			in.EmergencyStop = &client.EmergencyStopInput{Reason: *why, ForceKill: &force}
			return nil
		},
	}
}

// signalCommand returns the command of v: it confirms a strong signal, sends it and waits for its outcome.
func (s *session) signalCommand(v verb) *cobra.Command {
	var reason string
	var expected int64
	var yes, watch bool
	var how sendOptions
	c := &cobra.Command{
		Use: v.use, Short: v.short, Long: v.long, Args: cmdline.RangeArgs(v.args-v.optional, v.args),
		RunE: func(c *cobra.Command, args []string) error {
			if v.reason {
				reason = cmdline.ReasonFor(c, reason)
			}
			var why *string
			if reason != "" {
				why = &reason
			}
			if v.defaultStep != nil && len(args) == 1 {
				step, err := v.defaultStep(c, args[0])
				if err != nil {
					return err
				}
				args = append(args, step)
			}
			in := client.SignalRunInput{RunId: args[0]}
			if v.input != nil {
				if err := v.input(c, args, why, &in.Signal); err != nil {
					return cmdline.Usage(err)
				}
			}
			if cmdline.IsPreview(c) {
				return s.preview(c, signalAction(in, v.input == nil))
			}
			if v.strong && !yes {
				seq, err := s.confirm(c, in, v.input == nil, v.stops)
				if err != nil {
					return err
				}
				expected = cmp.Or(expected, seq)
			}
			if expected > 0 {
				in.ExpectedRunSeq = &expected
			}
			in.SignalId = how.id()
			receipt, err := s.send(c, in, v.input == nil, why)
			if err != nil {
				err = s.explainMoved(c.Context(), in.RunId, expected, err)
				if cmdline.ExitStatus(err) == 1 {
					err = &cmdline.Error{Status: 1, Err: fmt.Errorf(
						"%w\n  it may have arrived; to send it again without a second effect, add --signal-id %s", err, in.SignalId)}
				}
				return err
			}
			if err := s.receipt(c.Context(), receipt, how); err != nil || !watch {
				return err
			}
			return s.watch(c.Context(), in.RunId, watchOptions{giveUp: patience})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why; kept in the audit")
	if v.reason {
		cmdline.RequireReason(c)
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.Flags().Int64Var(&expected, "expected-run-seq", 0,
		"refuse with RUN_MOVED if the target has changed since this seq; default: the seq that was shown when asking")
	how.idFlags(c)
	if v.watches {
		c.Flags().BoolVar(&watch, "watch", false, "watch the run after the signal is applied")
	}
	cmdline.AddPreview(c)
	if v.flags != nil {
		v.flags(c)
	}
	return c
}

func (s *session) send(c *cobra.Command, in client.SignalRunInput, cancel bool, why *string) (client.Receipt, error) {
	if cancel {
		out, err := client.CancelRun(c.Context(), s.client, client.CancelRunInput{RunId: in.RunId, SignalId: in.SignalId,
			Reason: why, ExpectedRunSeq: in.ExpectedRunSeq})
		if err != nil {
			return client.Receipt{}, err
		}
		return out.CancelRun.Signal, nil
	}
	out, err := client.SignalRun(c.Context(), s.client, in)
	if err != nil {
		return client.Receipt{}, err
	}
	return out.SignalRun.Signal, nil
}

func (s *session) retryVerb() verb {
	var force bool
	var nodes []string
	return verb{
		use: "retry RUN [STEP]", short: "Retry a failed step; default: the one that failed", args: 2, optional: 1,
		watches: true, defaultStep: s.stepToRetry,
		long: "Retry a failed step of a run that waits for it. STEP can be left out when one step failed. When several\n" +
			"failed, the error lists the command for each. A run that has ended is run again with dvt run rerun.\n\n" +
			"With --nodes only some models, tests and other nodes of a dbt step run again: those that failed and that dbt\n" +
			"skipped because of them (failed), the same with the models whose tests failed (failed-and-tested-parents),\n" +
			"or nodes by their unique ids. --preview names exactly the nodes that would run, and why.",
		flags: func(c *cobra.Command) {
			c.Flags().BoolVar(&force, "force", false, "retry even if the policy forbids it (audited)")
			c.Flags().StringSliceVar(&nodes, "nodes", nil,
				"only these nodes of a dbt step: failed, failed-and-tested-parents, or unique ids with commas between them")
		},
		input: func(_ *cobra.Command, args []string, why *string, in *client.SignalInput) error {
			in.RetryStep = &client.RetryStepInput{StepId: args[1], Force: &force, Reason: why, Nodes: retryNodes(nodes)}
			return nil
		},
	}
}

// retryNodes returns the input for --nodes; nil without it.
func retryNodes(words []string) *client.RetryNodesInput {
	switch {
	case len(words) == 0:
		return nil
	case len(words) == 1 && strings.EqualFold(words[0], "failed"):
		return &client.RetryNodesInput{Mode: new(client.RetryNodesModeFailed)}
	case len(words) == 1 && strings.EqualFold(words[0], "failed-and-tested-parents"):
		return &client.RetryNodesInput{Mode: new(client.RetryNodesModeFailedAndTheirTestedParents)}
	}
	return &client.RetryNodesInput{UniqueIds: words}
}

// endWords are the predicates of ended runs in messages.
var endWords = map[client.RunStatus]string{client.RunStatusCompleted: "has completed",
	client.RunStatusFailed: "has failed", client.RunStatusCancelled: "was cancelled"}

// stepToRetry returns the one step of the run that failed, and prints it on standard error. When several failed, its
// error has the whole command for each; otherwise it fails and names the next command.
func (s *session) stepToRetry(c *cobra.Command, runID string) (string, error) {
	out, err := client.ShowRun(c.Context(), s.client, runID, nil)
	switch {
	case err != nil:
		return "", cmdline.Failure(err)
	case out.Run == nil:
		return "", cmdline.NotFound("run")
	}
	short := shortID(runID)
	var failed []client.ShowRunRunStepsStep
	for _, st := range out.Run.Steps {
		if hasFailed(st) {
			failed = append(failed, st)
		}
	}
	switch {
	case watchview.HasEnded(out.Run.Status) && len(failed) > 0:
		return "", &cmdline.Error{Status: 3, Code: string(run.CodeRunTerminal), Err: fmt.Errorf(
			"run %s %s, and its steps cannot be retried any more\n  run it again: dvt run rerun %s", short,
			endWords[out.Run.Status], short)}
	case len(failed) == 0:
		return "", cmdline.Usage(fmt.Errorf("no step of run %s has failed\n  see it: dvt run show %s", short, short))
	case len(failed) == 1:
		s.note("step %s\n", runtext.StepTitle(failed[0].StepId, runtext.Deref(failed[0].Name)))
		return failed[0].StepId, nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d steps of run %s have failed; choose one:", len(failed), short)
	for i, st := range failed {
		if i == maxMoved {
			fmt.Fprintf(&b, "\n  and %d more: dvt run show %s --failed", len(failed)-i, short)
			break
		}
		fmt.Fprintf(&b, "\n  dvt run retry %s %s", short, st.StepId)
		if name := runtext.Deref(st.Name); name != "" && name != st.StepId {
			fmt.Fprintf(&b, "   # %s", name)
		}
	}
	return "", cmdline.Usage(errors.New(b.String()))
}
