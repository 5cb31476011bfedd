package installcmd

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/server"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/storeadmin"
)

func (u *storeCommands) verify() *cobra.Command {
	var from, to string
	var artifacts bool
	c := u.command(&cobra.Command{
		Use: "verify", Short: "Compare the store with its logs, and artifacts with both; change nothing",
		Long: "Recomputes the key and id of every event, checks numbers, times and ends, folds every log from its first " +
			"event and compares\n" +
			"head, receipts and checkpoint with the result. With --artifacts it also reads every artifact and compares its size " +
			"and SHA-256\n" +
			"with those that the step reported. Prints each difference, and the runs that have some. Exit status 0: none; 1: some.",
	}, 0, true, nil, func(ctx context.Context, cfg config.Config, log *slog.Logger, _ []string) error {
		o := storeadmin.VerifyOptions{Runs: u.runs}
		for _, bound := range []struct {
			flag, given string
			at          *time.Time
		}{{"from", from, &o.From}, {"to", to, &o.To}} {
			if bound.given == "" {
				continue
			}
			at, err := time.Parse(time.RFC3339, bound.given)
			if err != nil {
				return cmdline.Usage(fmt.Errorf("--%s %s is not a time in RFC 3339, such as 2026-01-31T18:00:00Z", bound.flag,
					bound.given))
			}
			*bound.at = at
		}
		if !o.From.IsZero() && !o.To.IsZero() && !o.From.Before(o.To) {
			return cmdline.Usage(fmt.Errorf("--from %s is not before --to %s", from, to))
		}
		r, err := server.VerifyStore(ctx, cfg, log, o, artifacts, progress())
		if err != nil {
			return err
		}
		err = u.show(r, func() { u.showVerified(r, artifacts) })
		if err == nil && r.Differences > 0 {
			return &cmdline.Error{
				Status: 1, Err: fmt.Errorf("the store has %d differences; see docs/operations.md for what to do about each",
					r.Differences)}
		}
		return err
	})
	c.Flags().StringVar(&from, "from", "", "only runs to which something was written at this time or later, in RFC 3339")
	c.Flags().StringVar(&to, "to", "", "only runs that were created before this time, in RFC 3339")
	c.Flags().BoolVar(&artifacts, "artifacts", false, "read every artifact too, from the bucket of the settings")
	return c
}

func (u *storeCommands) showVerified(r storeadmin.Verified, artifacts bool) {
	for _, f := range r.Found {
		u.say("DIFFERENT %s", f)
	}
	for _, f := range r.Noted {
		u.say("note      %s", f)
	}
	if hidden := r.Differences - len(r.Found) + r.Notes - len(r.Noted); hidden > 0 {
		u.say("and %d more", hidden)
	}
	for _, a := range r.Affected {
		last := "no event can be read"
		if !a.LastAt.IsZero() {
			last = "last event " + a.LastAt.UTC().Format(time.RFC3339)
		}
		u.say("AFFECTED  %s of tenant %s, %s / %s, plan %s: created %s, %s, %d differences", a.RunID, a.TenantID, a.ProjectID,
			a.EnvironmentID, a.PlanID, a.CreatedAt.UTC().Format(time.RFC3339), last, a.Differences)
	}
	read := ""
	if artifacts {
		read = fmt.Sprintf(", %d artifacts", r.Artifacts)
	}
	u.say("%d runs, %d events%s: %d differences, %d notes", r.Runs, r.Events, read, r.Differences, r.Notes)
}
