package installcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/temporaladmin"
)

// Temporal returns the command temporal.
func Temporal() *cobra.Command {
	c := &cobra.Command{
		Use: "temporal", Short: "Set up the Temporal namespaces of the settings, and compare them",
		Long: "These commands call Temporal itself, with the settings of a server, and do not use the API. The settings " +
			"temporal-namespace\n" +
			"and temporal-namespaces say which namespaces there are.",
	}
	u := &storeCommands{}
	document.AddFlag(c, &u.output)
	c.AddCommand(u.temporalSetup(), u.temporalStatus(), u.temporalUnused())
	return c
}

// temporalFlags are the settings of a connection to Temporal.
func temporalFlags() []string {
	return []string{"temporal", "temporal-namespace", "temporal-tls", "temporal-tls-ca", "temporal-tls-cert",
		"temporal-tls-key", "temporal-tls-server-name", "temporal-api-key-file", "payload-keys-file", "dispatch-keys-file"}
}

// onTemporal adds the settings of Temporal to c, and calls f when they name a server.
func (u *storeCommands) onTemporal(c *cobra.Command, f func(context.Context, config.Config, *slog.Logger) error,
) *cobra.Command {
	return u.withSettings(c, 0, temporalFlags(),
		func(ctx context.Context, cfg config.Config, log *slog.Logger, _ []string) error {
			if cfg.Temporal == "" {
				return cmdline.Usage(errors.New("give the address of Temporal: --temporal, or the setting temporal"))
			}
			return f(ctx, cfg, log)
		})
}

func (u *storeCommands) temporalSetup() *cobra.Command {
	var dry bool
	c := u.onTemporal(&cobra.Command{
		Use: "setup", Short: "Create the namespaces of the settings, with their retention and search attributes",
		Long: "Creates each namespace that the settings name and the server does not have, sets its retention, and adds the " +
			"search\n" +
			"attributes of dvt. A namespace that is right is not touched, so that the command may run before every start. It " +
			"deletes\n" +
			"nothing: a search attribute of another type is named for somebody to mend. Without the right to make a change it " +
			"says which\n" +
			"right that is. Exit status 0: the namespaces are right, or would be; 1: something is left, or was refused.",
	}, func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
		out, err := temporaladmin.SetUp(ctx, cfg, log, dry)
		if err != nil {
			return err
		}
		err = u.show(out, func() {
			did := "done: "
			if dry {
				did = "would "
			}
			for _, change := range out.Changes {
				u.say("%s%s", did, change)
			}
			u.sayDrift(out.Left)
			if len(out.Changes)+len(out.Left) == 0 {
				u.say("Nothing to do: %s as the settings say.", isAre(cfg.Strategy().All()))
			}
		})
		if err == nil && len(out.Left) > 0 {
			return &cmdline.Error{Status: 1, Err: fmt.Errorf("%d differences are left: mend them by hand", len(out.Left))}
		}
		return err
	})
	c.Flags().BoolVar(&dry, "dry-run", false, "only say what would be done")
	return c
}

// isAre names namespaces as the subject of a sentence.
func isAre(names []string) string {
	if len(names) == 1 {
		return "the namespace " + names[0] + " is"
	}
	return "the namespaces " + strings.Join(names, ", ") + " are"
}

func (u *storeCommands) sayDrift(all []temporal.Drift) {
	for _, d := range all {
		u.say("DRIFT    %s: %s\n%9smend: %s", d.Namespace, d.Found, "", d.Remedy)
	}
}

func (u *storeCommands) temporalStatus() *cobra.Command {
	return u.onTemporal(&cobra.Command{
		Use: "status", Short: "Compare the namespaces with the settings",
		Long: "Shows the retention of each namespace of the settings and every difference: a namespace or search attribute " +
			"that is\n" +
			"missing, a wrong type, another retention, an archive of histories. Servers compare the same every ten minutes " +
			"(the metric\n" +
			"dvt_temporal_drift). Exit status 0: there is no difference; 1: there is one.",
	}, func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
		out, err := temporaladmin.Status(ctx, cfg, log)
		if err != nil {
			return err
		}
		n := 0
		err = u.show(out, func() {
			for _, s := range out {
				switch {
				case !s.Exists:
					u.say("%-8s %s: %s", "MISSING", s.Namespace, s.Use)
				default:
					u.say("%-8s %s: %s; closed executions are kept for %s", stateOf(s), s.Namespace, s.Use, s.Retention)
				}
				u.sayDrift(s.Drift)
			}
		})
		for _, s := range out {
			n += len(s.Drift)
		}
		if err == nil && n > 0 {
			return &cmdline.Error{Status: 1, Err: fmt.Errorf("%d differences between the namespaces and the settings: "+
				"`dvt temporal setup` mends what it can", n)}
		}
		return err
	})
}

// stateOf is the first word of the line of a namespace that exists.
func stateOf(s temporaladmin.Namespace) string {
	if len(s.Drift) > 0 {
		return "DIFFERS"
	}
	return "OK"
}

func (u *storeCommands) temporalUnused() *cobra.Command {
	return u.onTemporal(&cobra.Command{
		Use: "unused", Short: "List namespaces that nothing uses any more, and what they hold",
		Long: "Lists the namespaces of the server that the settings do not use for new runs and that hold executions of dvt, " +
			"with the\n" +
			"number of open and closed ones and the newest start. Nothing is deleted: REMOVABLE means that none is open and " +
			"that none\n" +
			"was started for 7 days, or 30 days when its name does not begin with pr-. Keep its histories with " +
			"`dvt workflow capture`\n" +
			"before you delete it in Temporal.",
	}, func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
		out, err := temporaladmin.Unused(ctx, cfg, log)
		if err != nil {
			return err
		}
		return u.show(out, func() {
			for _, n := range out {
				u.say("%-9s %s: %d open, %d closed: %s", n.State, n.Namespace, n.Open, n.Closed, n.Reason)
			}
			if len(out) == 0 {
				u.say("No namespace is unused.")
			}
		})
	})
}
