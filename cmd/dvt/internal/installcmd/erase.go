package installcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/erasure"
	"github.com/dvt-engine/dvt/server"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/owner"
)

// erasing are the settings of the commands that erase.
var erasing = []string{"artifacts", "public-url", "audit-heads", "audit-heads-key", "subject-keys-file",
	"erasure-ledger", "temporal", "temporal-namespace", "temporal-binary", "temporal-tls", "temporal-tls-ca",
	"temporal-tls-cert", "temporal-tls-key", "temporal-tls-server-name", "temporal-api-key-file", "payload-keys-file"}

func (u *storeCommands) erase() *cobra.Command {
	var yes bool
	c := u.command(&cobra.Command{
		Use: "erase ID", Short: "Carry out an erasure that two people have decided",
		Long: "Erases a tenant (dvt tenant purge) or a person (dvt subject erase) from the store, the bucket and Temporal, as " +
			"the owner of\n" +
			"the database: servers have no right to delete. Prints what would be erased, and erases it with --yes. An erasure " +
			"that was\n" +
			"interrupted continues where it was. Prints the signed certificate at the end; dvt erasure verify checks it.",
	}, 1, false, erasing, func(ctx context.Context, cfg config.Config, log *slog.Logger, args []string) error {
		e, err := server.OpenErasing(ctx, cfg, log)
		if err != nil {
			return err
		}
		return errors.Join(u.carryOut(ctx, e, args[0], yes), e.Close())
	})
	c.Flags().BoolVar(&yes, "yes", false, "erase; nobody can bring back what was erased")
	return c
}

func (u *storeCommands) carryOut(ctx context.Context, e *server.Erasing, id string, yes bool) error {
	request, err := e.Owner.Erasure(ctx, id)
	if err != nil {
		return err
	}
	if request.FinishedAt == nil && request.StartedAt == nil && !yes {
		counts, err := e.Preview(ctx, owner.Scope{TenantID: request.TenantID, Subject: request.Subject})
		if err != nil {
			return err
		}
		return u.show(map[string]any{"wouldErase": counts}, func() {
			u.say("would erase %s:", nameOf(request))
			for _, place := range slices.Sorted(maps.Keys(counts)) {
				u.say("%12d  %s", counts[place], place)
			}
			u.say("nothing was erased; run it with --yes")
		})
	}
	certificate, err := e.Run(ctx, id)
	if errors.Is(err, erasure.ErrNotConfirmed) {
		return &cmdline.Error{Status: 3, Err: fmt.Errorf("erasure %s cannot begin: a person other than the one who asked must "+
			"confirm it with dvt erasure confirm %s, and it must not be cancelled", id, id)}
	}
	if err != nil {
		return err
	}
	return u.showCertificate(certificate)
}

func nameOf(e store.Erasure) string {
	if e.Kind == store.EraseSubject {
		return fmt.Sprintf("%s of tenant %s", e.Subject, e.TenantID)
	}
	return "tenant " + e.TenantID
}

// showCertificate prints a certificate as the document that was signed.
func (u *storeCommands) showCertificate(certificate json.RawMessage) error {
	_, err := fmt.Fprintln(u.out, string(certificate))
	return err
}

func (u *storeCommands) replay() *cobra.Command {
	return u.command(&cobra.Command{
		Use: "replay-erasures", Short: "After a restore: repeat the erasures that the backup lacks",
		Long: "Compares the store with the ledger of erasures (--erasure-ledger) and erases again what a restored backup has " +
			"brought back.\n" +
			"Servers refuse to start before. Repeating it is harmless. Stop every server and worker first. Prints a certificate " +
			"for each\n" +
			"erasure that found something.",
	}, 0, false, erasing, func(ctx context.Context, cfg config.Config, log *slog.Logger, _ []string) error {
		e, err := server.OpenErasing(ctx, cfg, log)
		if err != nil {
			return err
		}
		out, err := e.Replay(ctx, e.Store)
		if err = errors.Join(err, e.Close()); err != nil {
			return err
		}
		if u.output.IsData() {
			return u.output.Write(u.out, out)
		}
		for _, c := range out.Certificates {
			if err := u.showCertificate(c); err != nil {
				return err
			}
		}
		fmt.Fprintf(os.Stderr, "%s of the ledger repeated\n", cmdline.Count(out.Erasures, "erasure"))
		return nil
	})
}
