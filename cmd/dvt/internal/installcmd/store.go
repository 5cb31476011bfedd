package installcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/server"
	"github.com/dvt-engine/dvt/server/config"
)

// storeCommands is the state that the commands on a whole store share.
type storeCommands struct {
	output document.Format
	runs   []string
	out    io.Writer
}

// Store returns the command store.
func Store() *cobra.Command {
	c := &cobra.Command{
		Use: "store", Short: "Verify, rebuild, repair, export and import the database of dvt",
		Long: "These commands open the database itself (--store, or that of `dvt dev` under --data) and do not use the API.\n" +
			"verify, rebuild, export and erase may run beside servers. Stop every server and worker before repair, import and\n" +
			"replay-erasures.",
	}
	u := &storeCommands{}
	document.AddFlag(c, &u.output)
	epoch := &cobra.Command{Use: "epoch", Short: "The epoch of the store's history"}
	epoch.AddCommand(u.bump())
	c.AddCommand(u.verify(), u.rebuild(), u.repair(), u.export(), u.load(), u.erase(), u.replay(), epoch)
	return c
}

// command adds the settings of a store to c, loads them and calls f. The exit status follows from the error of f. With
// byRun the command has --run.
func (u *storeCommands) command(c *cobra.Command, args int, byRun bool, flags []string, f action) *cobra.Command {
	if byRun {
		c.Flags().StringSliceVar(&u.runs, "run", nil, "only this run; may be repeated")
	}
	return u.withSettings(c, args, append(flags, "store", "store-password-file", "data"), f)
}

// action carries out a command with its settings and arguments.
type action func(context.Context, config.Config, *slog.Logger, []string) error

// withSettings adds settings to c, loads them and calls f. The exit status follows from the error of f.
func (u *storeCommands) withSettings(c *cobra.Command, args int, flags []string, f action) *cobra.Command {
	c.Args = cmdline.ExactArgs(args)
	settings := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError) // server.Load would take --run for a setting
	config.Flags(settings, append(flags, "allow-plaintext", "log-level", "log-format")...)
	settings.String("config", "", "YAML file with settings")
	c.Flags().AddFlagSet(settings)
	c.RunE = func(c *cobra.Command, args []string) error {
		if !c.Flags().Changed("log-level") && os.Getenv("DVT_LOG_LEVEL") == "" {
			if err := c.Flags().Set("log-level", "warn"); err != nil {
				return err
			}
		}
		cfg, err := config.Load(settings, false)
		if err != nil {
			return cmdline.Usage(err)
		}
		log, flush, err := newLogger(os.Stderr, cfg.LogLevel, cfg.LogFormat)
		if err != nil {
			return err
		}
		defer flush()
		u.out = c.OutOrStdout()
		err = f(c.Context(), cfg, log, args)
		var e *cmdline.Error
		if err == nil || errors.As(err, &e) {
			return err
		}
		return &cmdline.Error{Status: server.StoreStatus(err), Err: err}
	}
	return c
}

// show prints a report for programs, or calls table.
func (u *storeCommands) show(report any, table func()) error {
	if !u.output.IsData() {
		table()
		return nil
	}
	return u.output.Write(u.out, report)
}

func (u *storeCommands) say(format string, args ...any) { fmt.Fprintf(u.out, format+"\n", args...) }

// progress returns a function that counts runs and prints the count on standard error once a second.
func progress() func(string) {
	n, next := 0, time.Now().Add(time.Second)
	return func(runID string) {
		if n++; time.Now().After(next) {
			fmt.Fprintf(os.Stderr, "%d runs, up to %s\n", n, runID)
			next = time.Now().Add(time.Second)
		}
	}
}

func (u *storeCommands) rebuild() *cobra.Command {
	return u.command(&cobra.Command{
		Use: "rebuild", Short: "Recompute the checkpoints from the logs; answers do not change",
	}, 0, true, nil, func(ctx context.Context, cfg config.Config, log *slog.Logger, _ []string) error {
		r, err := server.RebuildStore(ctx, cfg, log, u.runs, progress())
		if err != nil {
			return err
		}
		return u.show(r, func() { u.say("rebuilt %d runs", r.Runs) })
	})
}

func (u *storeCommands) repair() *cobra.Command {
	var fromEngine bool
	c := u.command(&cobra.Command{
		Use: "repair --from-engine", Short: "After a restore: refill the logs from the engine's history",
		Long: "Gives the store a new epoch, so that viewers start over, and appends again the events that the engine's " +
			"history has and the\n" +
			"backup has not. Repeating it is harmless. Stop every server and worker first and start them again afterwards; " +
			"open runs then continue.",
	}, 0, true, []string{
		"temporal", "temporal-namespace", "temporal-binary", "control-queue", "data-queue", "isolation-queue",
		"isolation-tenants", "known-queues", "plan-roots",
		"temporal-tls", "temporal-tls-ca", "temporal-tls-cert", "temporal-tls-key", "temporal-tls-server-name",
		"temporal-api-key-file",
		"payload-keys-file", "dispatch-keys-file",
	},
		func(ctx context.Context, cfg config.Config, log *slog.Logger, _ []string) error {
			if !fromEngine {
				return cmdline.Usage(errors.New("give the source: dvt store repair --from-engine"))
			}
			r, err := server.RepairStore(ctx, cfg, log, u.runs, progress())
			if err != nil {
				return err
			}
			err = u.show(r, func() {
				u.say("epoch %s -> %s", r.EpochBefore, r.Epoch)
				for _, f := range r.Refilled {
					u.say("REFILLED  %s: %d events, the log ended at %d and ends at %d", f.RunID, f.Events, f.From, f.To)
					for _, l := range f.Receipts {
						if l.Renumbered {
							u.say("          signal %s (%s %s): another signal has its number now; signals sent since the restore may "+
								"be ignored: send them again", l.SignalID, l.Type, l.StepID)
						} else {
							u.say("          signal %s (%s %s): receipt created again; who sent it, why, and when are lost", l.SignalID, l.Type,
								l.StepID)
						}
					}
					if f.Known > 0 {
						u.say("          the engine knew a log that ends at %d: the missing events left no trace in it (refused signals)",
							f.Known)
					}
					for _, refused := range f.Refused {
						u.say("          NOT TAKEN %s: somebody wrote to the run after the restore", refused)
					}
				}
				for _, l := range r.Lost {
					state := "closed"
					if l.Open {
						state = "open"
					}
					u.say("LOST      %s of %s/%s: created after the backup; its workflow %s is %s", l.RunID, l.TenantID, l.ProjectID,
						l.WorkflowID, state)
				}
				u.say("%d open runs looked at, %d refilled, %d lost", r.Looked, len(r.Refilled), len(r.Lost))
			})
			if err == nil && len(r.Lost) > 0 {
				return &cmdline.Error{Status: 1, Err: fmt.Errorf("%d runs are lost: start them again", len(r.Lost))}
			}
			return err
		})
	c.Flags().BoolVar(&fromEngine, "from-engine", false, "refill from the history of the workflow engine")
	return c
}

func (u *storeCommands) bump() *cobra.Command {
	return u.command(&cobra.Command{
		Use: "bump", Short: "Begin a new epoch: viewers and cursors start over",
		Long: "For a restore without the engine. dvt store repair does it by itself.",
	}, 0, false, nil, func(ctx context.Context, cfg config.Config, log *slog.Logger, _ []string) error {
		before, after, err := server.BumpStoreEpoch(ctx, cfg, log)
		if err != nil {
			return err
		}
		return u.show(map[string]string{"epochBefore": before, "epoch": after},
			func() { u.say("epoch %s -> %s", before, after) })
	})
}

func (u *storeCommands) export() *cobra.Command {
	return u.command(&cobra.Command{
		Use: "export FILE", Short: "Write runs with plans, events and receipts as JSON Lines (- is standard output, .gz " +
			"compresses)",
		Long: "Logs and artifacts of steps are not in the file: they stay in the bucket (--artifacts), and an installation " +
			"that imports\n" +
			"the file needs a copy of it to show them.",
	}, 1, true, nil, func(ctx context.Context, cfg config.Config, log *slog.Logger, args []string) error {
		r, err := server.ExportStore(ctx, cfg, log, u.runs, args[0], u.out, progress())
		if err != nil {
			return err
		}
		if args[0] == "-" {
			u.out = os.Stderr
		}
		return u.show(r, func() {
			u.say("exported %d runs with %d events, %d receipts and %d plans", r.Runs, r.Events, r.Receipts, r.Plans)
		})
	})
}

func (u *storeCommands) load() *cobra.Command {
	var skip bool
	c := u.command(&cobra.Command{
		Use: "import FILE", Short: "Create the runs of an export in this store (- is standard input)",
		Long: "Reads the output of export, and JSON Lines of events of version 1. If the file has errors, all of them are " +
			"reported and nothing\n" +
			"is changed. A run that exists is refused. Open runs stay open: no engine works on them here, and\n" +
			"dvt run cancel ends them.",
	}, 1, false, nil, func(ctx context.Context, cfg config.Config, log *slog.Logger, args []string) error {
		r, err := server.ImportStore(ctx, cfg, log, args[0], os.Stdin, skip, progress())
		if err != nil {
			if r.Runs > 0 {
				u.say("%d runs were written, up to %s; continue with --skip-existing", r.Runs, r.Last)
			}
			return err
		}
		return u.show(r, func() {
			u.say("imported %d runs with %d events and %d receipts; skipped %d that exist", r.Runs, r.Events, r.Receipts,
				len(r.Skipped))
		})
	})
	c.Flags().BoolVar(&skip, "skip-existing", false, "skip runs that exist")
	return c
}
