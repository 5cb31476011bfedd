package installcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/server"
	"github.com/dvt-engine/dvt/server/config"
)

// DR returns the command dr.
func DR() *cobra.Command {
	c := &cobra.Command{
		Use: "dr", Short: "Disaster recovery: show the state of this site, and make a standby the primary",
		Long: "These commands open the database of this site (--store) and, if it is named, that of the other one " +
			"(--peer-store or\nDVT_PEER_STORE). They do not use the API.",
	}
	u := &storeCommands{}
	document.AddFlag(c, &u.output)
	c.AddCommand(u.siteStatus(), u.promote())
	return c
}

func (u *storeCommands) siteStatus() *cobra.Command {
	return u.withSettings(&cobra.Command{
		Use: "status", Short: "Show the role, the epoch and the lag of this site, and what a promotion would lose",
		Long: "Changes nothing. The role is PRIMARY, STANDBY, PROMOTED (the database takes writes, and dvt dr promote has not " +
			"put the site\ninto service) or FORMER (the other site took over).",
	}, 0, []string{"store", "store-password-file", "peer-store"},
		func(ctx context.Context, cfg config.Config, log *slog.Logger, _ []string) error {
			r, err := server.SiteStatus(ctx, cfg, log)
			if err != nil {
				return siteError(err)
			}
			return u.show(r, func() { u.saySite(r) })
		})
}

func (u *storeCommands) saySite(r server.SiteReport) {
	u.say("role      %s", r.Role)
	u.say("epoch     %s", r.Epoch)
	u.say("position  %s", r.Position)
	if l := r.LastEvent; l != nil {
		u.say("last      event %d of run %s at %s", l.RunSeq, l.RunID, l.At.Format(time.RFC3339Nano))
	}
	if l := r.Replication; l != nil {
		behind := "an unknown number of"
		if l.BehindBytes != nil {
			behind = fmt.Sprint(*l.BehindBytes)
		}
		state := "the primary is connected"
		if !l.Receiving {
			state = "the primary is not reached"
		}
		u.say("lag       %s bytes, %.1f s; %s", behind, l.AgeSeconds, state)
	}
	for _, l := range r.Replicas {
		u.say("replica   %s %s, %d bytes behind", l.Name, l.State, l.Behind)
	}
	switch p := r.Peer; {
	case p == nil:
		u.say("peer      not named: set peer-store")
	case !p.Reachable:
		u.say("peer      %s", p.Error)
	default:
		role := "takes writes"
		if p.Standby {
			role = "is a standby"
		}
		u.say("peer      %s, in epoch %s", role, p.Epoch)
	}
	u.say("loss      %s", r.Loss.Text)
	for _, l := range r.Loss.Runs {
		u.say("          run %s: %d events here, %d there, the last at %s", l.RunID, l.Has, l.Peer,
			l.At.UTC().Format(time.RFC3339Nano))
	}
	if r.Loss.More {
		u.say("          and more")
	}
}

func (u *storeCommands) promote() *cobra.Command {
	var r server.PromoteRequest
	var dry bool
	c := u.withSettings(&cobra.Command{
		Use: "promote", Short: "Make this standby the primary site, in a new epoch",
		Long: "Shows what would be lost, and promotes with --yes: the database takes writes (pg_promote), the logs are " +
			"refilled from\nTemporal (--repair-from-engine), a new epoch begins with an audit record, and the processes of the " +
			"site leave standby.\nAn interrupted promotion continues when it is repeated. It refuses while the primary answers.",
	}, 0, []string{"store", "store-password-file", "peer-store", "subject-keys-file", "artifacts", "temporal",
		"temporal-namespace", "temporal-tls", "temporal-tls-ca", "temporal-tls-cert", "temporal-tls-key",
		"temporal-tls-server-name", "temporal-api-key-file", "control-queue", "data-queue", "isolation-queue",
		"isolation-tenants", "known-queues", "plan-roots", "payload-keys-file", "dispatch-keys-file"},
		func(ctx context.Context, cfg config.Config, log *slog.Logger, _ []string) error {
			if dry {
				r.Execute = false
			}
			r.By = operatorName()
			out, err := server.PromoteSite(ctx, cfg, log, r)
			if err != nil {
				return siteError(err)
			}
			return u.show(out, func() { u.sayPromotion(cfg, out) })
		})
	c.Flags().BoolVar(&r.Execute, "yes", false, "promote; the former primary must never take writes again")
	c.Flags().BoolVar(&dry, "dry-run", false, "only show the checks and what would be lost")
	c.Flags().BoolVar(&r.Force, "force", false, "promote although the primary still answers")
	c.Flags().BoolVar(&r.Repair, "repair-from-engine", false, "refill the logs from Temporal before the site begins to work")
	c.Flags().StringVar(&r.Reason, "reason", "", "why, for the audit")
	return c
}

func (u *storeCommands) sayPromotion(cfg config.Config, out server.Promotion) {
	if out.Already {
		u.say("this site is the primary already, in epoch %s", out.Epoch)
		return
	}
	u.saySite(out.Before)
	if !out.Promoted {
		u.say("nothing was changed; run it with --yes")
		return
	}
	if r := out.Repaired; r != nil {
		for _, f := range r.Refilled {
			u.say("REFILLED  %s: %d events, the log ended at %d and ends at %d", f.RunID, f.Events, f.From, f.To)
		}
		for _, l := range r.Lost {
			u.say("LOST      %s of %s/%s: its workflow %s is left over", l.RunID, l.TenantID, l.ProjectID, l.WorkflowID)
		}
		u.say("%d open runs looked at, %d refilled, %d lost", r.Looked, len(r.Refilled), len(r.Lost))
	}
	u.say("promoted: this site is the primary, in epoch %s", out.Epoch)
	if cfg.Standby {
		u.say("the setting standby keeps its processes in standby: remove it and restart them")
	}
	if cfg.OperatorsTenant == "" {
		u.say("operators-tenant is not set, so the audit record belongs to no tenant")
	}
}

// operatorName names the user of the operating system who runs a command.
func operatorName() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

// siteError returns err with the exit status of its kind.
func siteError(err error) error {
	switch {
	case errors.Is(err, server.ErrPrimaryAnswers), errors.Is(err, server.ErrNeverStandby):
		return &cmdline.Error{Status: 3, Err: err}
	case server.LacksPromotion(err):
		return &cmdline.Error{Status: 3, Err: fmt.Errorf("the role of --store may not promote the database: run SELECT "+
			"pg_promote() as a superuser, or pg_ctl promote on its host, or GRANT EXECUTE ON FUNCTION pg_promote(boolean, "+
			"integer) to the role; then repeat this command (%w)", err)}
	case errors.Is(err, server.ErrNoSite):
		return cmdline.Usage(err)
	}
	return err
}
