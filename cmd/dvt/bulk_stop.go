package main

import (
	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
)

func (s *session) bulkStopCommand() *cobra.Command {
	in := client.CancelBulkInput{}
	c := &cobra.Command{
		Use: "stop BULK", Short: "Stop a bulk: send no more signals", Args: cmdline.ExactArgs(1),
		Long: "Stop a bulk of yours. Waiting signals are not sent, and waiting runs are not rerun. Sent signals and new runs stay valid.",
		RunE: func(c *cobra.Command, args []string) error {
			if in.Id = args[0]; in.RequestId == "" {
				in.RequestId = uuid.NewString()
			}
			out, err := client.CancelBulk(c.Context(), s.client, in)
			if err != nil {
				return cmdline.Failure(err)
			}
			if s.output.IsData() {
				return s.print(out.CancelBulk.Bulk)
			}
			_, err = c.OutOrStdout().Write([]byte(bulkSummary(out.CancelBulk.Bulk, client.BulkRunCountsOf{}) + "\n"))
			return err
		},
	}
	c.Flags().StringVar(&in.Reason, "reason", "", "why; kept in the audit")
	_ = c.MarkFlagRequired("reason") // cannot fail: the flag exists
	c.Flags().StringVar(&in.RequestId, "request-id", "", "client key that makes repeating safe; default: a new one")
	return c
}
