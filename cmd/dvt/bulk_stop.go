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
		Use: "stop BULK", Short: "Stop a bulk: what is not sent yet is not sent", Args: cmdline.ExactArgs(1),
		Long: "Stop a bulk of yours: signals that wait are not sent, and those runs say NOT_SENT. What was sent stays so.",
		RunE: func(c *cobra.Command, args []string) error {
			if err := cmdline.NeedReason(in.Reason); err != nil {
				return err
			}
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
			_, err = c.OutOrStdout().Write([]byte(bulkSummary(out.CancelBulk.Bulk.BulkHead) + "\n"))
			return err
		},
	}
	c.Flags().StringVar(&in.Reason, "reason", "", "why; it is kept in the audit")
	c.Flags().StringVar(&in.RequestId, "request-id", "", "name of this request in the audit; one is made when not given")
	return c
}
