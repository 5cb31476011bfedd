package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
)

func (s *session) rerunCommand() *cobra.Command {
	var again rerunFlags
	var request, reason string
	var watch bool
	c := &cobra.Command{
		Use: "rerun RUN", Short: "Run the plan of an ended run again, without the steps that need not run again",
		Long: "Start a new run of the same plan, with the parameters of the earlier run or with others, and none of the\n" +
			"changes made while the earlier one ran. The new run takes over the results and artifacts of steps that do not\n" +
			"run again, but not the files in their workspace. Without --from, the steps that did not succeed run again, and\n" +
			"their dependants. --param changes one parameter and keeps the others; a hidden one must be given too.",
		Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			in := client.RerunInput{RunId: args[0], RunRequestId: request}
			var err error
			if in.From, in.Params, err = again.input(c); err != nil {
				return err
			}
			if in.Params != nil && again.params.file == "" {
				if err := s.keepParams(c.Context(), args[0], in.Params); err != nil {
					return err
				}
			}
			if reason != "" {
				in.Reason = &reason
			}
			if in.RunRequestId == "" {
				in.RunRequestId = uuid.NewString()
			}
			if cmdline.IsPreview(c) {
				return s.preview(c, client.ActionInput{Rerun: &in})
			}
			action := client.ActionInput{Rerun: &in}
			if p, err := s.previewOf(c.Context(), action); err == nil && p.Outcome == client.ActionOutcomeApply {
				s.noteRerun(p.Changes)
				for _, warning := range p.Warnings {
					s.note("! %s\n", warning)
				}
			}
			out, err := client.Rerun(c.Context(), s.client, in)
			if err != nil {
				return withNext(err, action)
			}
			return s.printStarted(c.Context(), watch, out.Rerun.Run, out.Rerun.Deduplicated, out.Rerun)
		},
	}
	again.flags(c)
	c.Flags().StringVar(&request, "request-id", "", "client key that makes repeating safe; default: a new one")
	c.Flags().StringVar(&reason, "reason", "", "why; kept in the audit")
	c.Flags().BoolVar(&watch, "watch", false, "watch the new run")
	cmdline.AddPreview(c)
	return c
}

// keepParams adds the parameters of the earlier run that params does not name. The server refuses those whose values it
// hides, so that none is lost in silence.
func (s *session) keepParams(ctx context.Context, runID string, params *json.RawMessage) error {
	out, err := client.ShowRun(ctx, s.client, runID, nil)
	if err != nil {
		return cmdline.Failure(err)
	}
	var all map[string]json.RawMessage
	if out.Run == nil || out.Run.Request.Params == nil ||
		json.Unmarshal(*out.Run.Request.Params, &all) != nil || all == nil {
		return nil //nolint:nilerr // parameters that are no object have no members to keep
	}
	if err := json.Unmarshal(*params, &all); err != nil {
		return err
	}
	*params, err = json.Marshal(all)
	return err
}

// rerunFlags are the flags that say what runs again, and with which parameters.
type rerunFlags struct {
	from   string
	params runParams
}

func (r *rerunFlags) flags(c *cobra.Command) {
	c.Flags().StringVar(&r.from, "from", "failed",
		"failed (the steps that did not succeed, and their dependants), start, or steps separated by commas")
	r.params.flags(c, "; they replace all those of the earlier run")
}

// input returns the steps that run again and the parameters of the new run, which are nil when none are given.
func (r *rerunFlags) input(c *cobra.Command) (from client.RerunFromInput, params *json.RawMessage, _ error) {
	yes := true
	switch r.from {
	case "failed":
		from.Failed = &yes
	case "start":
		from.Start = &yes
	default:
		from.Steps = strings.Split(r.from, ",")
	}
	params, err := r.params.document(c.InOrStdin())
	if err != nil {
		return from, nil, cmdline.Usage(err)
	}
	return from, params, nil
}

// noteRerun tells people how many steps of the new run run again.
func (s *session) noteRerun(changes []client.PreviewActionPreviewChangesStepChange) {
	kept := 0
	for _, c := range changes {
		if c.Kind == "REUSE" {
			kept++
		}
	}
	if len(changes) > 0 {
		s.note("%s\n", rerunCounts(len(changes)-kept, kept))
	}
}

// withNext returns err as a failure, with the command that people need next if there is one.
func withNext(err error, action client.ActionInput) error {
	var e *client.Error
	if errors.As(client.AsAPIError(err), &e) {
		if next := nextAfterRefusal(action, e.Code, e.Message); next != "" {
			e.More = append(e.More, next)
			return cmdline.Failure(e)
		}
	}
	return cmdline.Failure(err)
}
