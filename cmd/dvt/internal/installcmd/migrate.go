package installcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/server"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/store"
)

// Migrate returns the command migrate.
func Migrate() *cobra.Command {
	var status, dryRun bool
	var output document.Format
	c := &cobra.Command{
		Use: "migrate", Short: "Migrate the schema of the database to this version",
		Long: "Connects as the owner of the database. With --app-role it also grants the role of the servers the rights that " +
			"they need,\n" +
			"after every migration; that role can neither change nor delete events and audit rows. It may run beside servers.\n\n" +
			"--status lists the migrations and changes nothing; any role may ask. The exit status is 1 while a migration is " +
			"pending.\n" +
			"--dry-run says what would be applied, as the owner, and changes nothing.",
	}
	ProcessCommand(c, false, []string{"store", "app-role", "store-password-file", "allow-plaintext"},
		func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
			before, err := server.Schema(ctx, cfg, log)
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			switch {
			case status:
				return showStatus(out, output, before)
			case dryRun:
				return showPending(out, output, before, cfg.AppRole)
			}
			if err := server.Migrate(ctx, cfg, log); err != nil {
				return err
			}
			after, err := server.Schema(ctx, cfg, log)
			if err != nil {
				return err
			}
			return showMigrated(out, output, before, after, cfg.AppRole)
		})
	c.Flags().BoolVar(&status, "status", false, "list the migrations that the database has and lacks")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be applied")
	c.MarkFlagsMutuallyExclusive("status", "dry-run")
	document.AddFlag(c, &output)
	return c
}

func showStatus(out io.Writer, output document.Format, s store.Schema) error {
	pending := len(s.Pending())
	if output.IsData() {
		if err := output.Write(out, s); err != nil {
			return err
		}
	} else {
		for _, m := range s.Migrations {
			state := "pending"
			if m.AppliedAt != nil {
				state = m.AppliedAt.Format("2006-01-02 15:04:05Z")
			}
			name := m.Name
			if name == "" {
				name = "(of a newer dvt)"
			}
			fmt.Fprintf(out, "%04d  %-20s  %s\n", m.Version, state, name)
		}
		fmt.Fprintln(out, summary(s))
	}
	if pending > 0 {
		return &cmdline.Error{Status: 1, Err: fmt.Errorf("%s pending: run dvt migrate as the owner of the database",
			count(pending))}
	}
	return nil
}

func summary(s store.Schema) string {
	switch {
	case s.Database == 0:
		return fmt.Sprintf("The database is empty; this program needs schema %d.", s.Program)
	case s.Database > s.Program:
		return fmt.Sprintf("The schema is %d, of a newer dvt; this program knows %d.", s.Database, s.Program)
	default:
		return fmt.Sprintf("The schema is %d; this program needs %d.", s.Database, s.Program)
	}
}

func showPending(out io.Writer, output document.Format, s store.Schema, role string) error {
	pending := s.Pending()
	if output.IsData() {
		return output.Write(out, store.Schema{Database: s.Database, Program: s.Program, Migrations: pending})
	}
	fmt.Fprintln(out, summary(s))
	for _, m := range pending {
		fmt.Fprintf(out, "Would apply %04d %s: %s\n", m.Version, m.Name, m.What)
	}
	if len(pending) == 0 {
		fmt.Fprintln(out, "No migration is pending.")
	}
	if role != "" {
		fmt.Fprintf(out, "Would set the rights of the role %s.\n", role)
	}
	return nil
}

// showMigrated says what the command did. Other processes may have applied some of the migrations at the same time.
func showMigrated(out io.Writer, output document.Format, before, after store.Schema, role string) error {
	if output.IsData() {
		return output.Write(out, after)
	}
	if n := len(after.Pending()); n > 0 {
		return errors.New("the schema was not migrated to the end: run dvt migrate again")
	}
	if len(before.Pending()) == 0 {
		fmt.Fprintln(out, "No migration was pending.")
	}
	for _, m := range after.Migrations {
		if m.Version > before.Database {
			fmt.Fprintf(out, "Applied %04d %s: %s\n", m.Version, m.Name, m.What)
		}
	}
	fmt.Fprintln(out, summary(after))
	if role != "" {
		fmt.Fprintf(out, "The role %s has the rights of a server.\n", role)
	}
	return nil
}

func count(pending int) string {
	if pending == 1 {
		return "1 migration is"
	}
	return fmt.Sprintf("%d migrations are", pending)
}
