package main

import (
	"errors"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
)

func (s *session) rerunCommand() *cobra.Command {
	var from, request, reason string
	var watch bool
	c := &cobra.Command{
		Use: "rerun RUN", Short: "Run the plan of an ended run again, without the steps that need not run again",
		Long: "Starts a new run of the same plan, with the same params and none of the changes made while the earlier one " +
			"ran. The new\n" +
			"run takes over the results and artifacts of steps that do not run again, but not the files in their workspace.",
		Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			in := client.RerunInput{RunId: args[0], RunRequestId: request}
			yes := true
			switch from {
			case "":
				return cmdline.Usage(errors.New("--from is missing: failed, start, or steps like --from build,test"))
			case "failed":
				in.From.Failed = &yes
			case "start":
				in.From.Start = &yes
			default:
				in.From.Steps = strings.Split(from, ",")
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
			out, err := client.Rerun(c.Context(), s.client, in)
			if err != nil {
				return cmdline.Failure(err)
			}
			return s.printStarted(c.Context(), watch, out.Rerun.Run, out.Rerun.Deduplicated, out.Rerun)
		},
	}
	c.Flags().StringVar(
		&from, "from", "", "failed (the steps that did not succeed, and their dependants), start, or steps separated by commas")
	c.Flags().StringVar(&request, "request-id", "", "client key that makes repeating safe; default: a new one")
	c.Flags().StringVar(&reason, "reason", "", "why; kept in the audit")
	c.Flags().BoolVar(&watch, "watch", false, "watch the new run")
	cmdline.AddPreview(c)
	return c
}
