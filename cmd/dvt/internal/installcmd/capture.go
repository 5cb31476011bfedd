package installcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/temporaladmin"
)

// CaptureHistories returns the command `dvt workflow capture`.
func CaptureHistories(output *document.Format) *cobra.Command {
	u := &storeCommands{}
	var age time.Duration
	var limit int
	c := u.withSettings(&cobra.Command{
		Use: "capture DIRECTORY", Short: "Keep histories of recent runs, and check that this version replays them",
		Long: "Writes the histories of executions that closed lately in Temporal into a directory, one file each that " +
			"`dvt workflow replay`\n" +
			"reads, and replays them with the workflow code of this program. Existing files stay. Let a schedule call it, " +
			"with the program\n" +
			"of the next version before an upgrade. Exit status 0: the decisions are the same. 1: they differ for some " +
			"histories, which are\n" +
			"named; workers of this version must not get such workflows. Without payload keys the files hold results and " +
			"messages of steps,\n" +
			"and only their owner may read them.",
	}, 1, []string{"temporal", "temporal-namespace", "temporal-tls", "temporal-tls-ca", "temporal-tls-cert",
		"temporal-tls-key", "temporal-tls-server-name", "temporal-api-key-file", "payload-keys-file", "dispatch-keys-file"},
		func(ctx context.Context, cfg config.Config, log *slog.Logger, args []string) error {
			switch {
			case cfg.Temporal == "":
				return cmdline.Usage(errors.New("give the address of Temporal: --temporal, or the setting temporal"))
			case age <= 0:
				return cmdline.Usage(errors.New("--since must be longer than 0"))
			case limit < 1 || limit > temporaladmin.MaxCapture:
				return cmdline.Usage(fmt.Errorf("--limit must be 1 to %d", temporaladmin.MaxCapture))
			}
			out, err := temporaladmin.CaptureHistories(ctx, cfg, log, args[0], time.Now().Add(-age), limit)
			if err != nil {
				return err
			}
			err = u.show(out, func() {
				for _, m := range out.Mismatches {
					u.say("DIFFERENT %s: %s", m.File, m.Reason)
				}
				u.say("%d histories written and replayed, %d differ; %d were there already", len(out.Written),
					len(out.Mismatches), out.Known)
			})
			if err == nil && len(out.Mismatches) > 0 {
				return &cmdline.Error{Status: 1, Err: fmt.Errorf("this version does not replay %d of the histories: do not "+
					"give it workflows that are open", len(out.Mismatches))}
			}
			return err
		})
	c.Flags().DurationVar(&age, "since", 72*time.Hour, "executions that closed within this time")
	c.Flags().IntVar(&limit, "limit", 200, "new histories, at most")
	c.PersistentPreRunE = func(*cobra.Command, []string) error { return nil } // calls no server
	load := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		u.output = *output
		return load(c, args)
	}
	return c
}
