package installcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/export"
	"github.com/dvt-engine/dvt/server"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/owner"
)

// exporting are the settings of the commands that export.
var exporting = []string{"artifacts", "subject-keys-file"}

// whoExports is what both commands say about rights and repetitions.
const whoExports = "The command opens the store and the bucket itself: everybody who has their credentials may export, and the API " +
	"gives no\n" +
	"export. A record in the audit of the tenant comes first. Give the same command again after an interruption: it " +
	"continues.\n" +
	"DIR is a directory, or a file that ends in .tar, .tar.gz or .tar.zst. Check the result with dvt export verify. Exit " +
	"status 3: DIR\n" +
	"has another export; 4: the store has nothing of the tenant."

// TenantExport returns the command `dvt tenant export`.
func TenantExport(output *document.Format) *cobra.Command {
	return exportCommand(output, &cobra.Command{
		Use: "export TENANT", Short: "Write everything of a tenant into one archive with hashes, from the store itself",
		Long: "Writes the audit with its chain, runs with their events and receipts (archived ones, too), step logs, artifacts, " +
			"settings,\n" +
			"policies, alerts, incidents, dead letters and all other rows of a tenant. Keys and hashes of tokens never leave.\n" +
			whoExports,
	}, func(args []string, _ string) owner.Scope { return owner.Scope{TenantID: args[0]} }, false)
}

// SubjectExport returns the command `dvt subject export`.
func SubjectExport(output *document.Format) *cobra.Command {
	return exportCommand(output, &cobra.Command{
		Use: "export PRINCIPAL", Short: "Write what the store knows of one person into one archive, from the store itself",
		Long: "Writes audit rows by and about a person, and the runs, signals, notes, decisions, tokens, views and bulks of the " +
			"person, and\n" +
			"the grants and the reads of secrets of these runs. Of others it has only ids.\n" + whoExports,
	}, func(args []string, tenant string) owner.Scope { return owner.Scope{TenantID: tenant, Subject: args[0]} }, true)
}

func exportCommand(output *document.Format, c *cobra.Command, of func([]string, string) owner.Scope,
	byTenant bool) *cobra.Command {
	u := &storeCommands{}
	r := server.ExportRequest{}
	var tenant, limit string
	c = u.withSettings(c, 1, append([]string{"store", "store-password-file", "data"}, exporting...),
		func(ctx context.Context, cfg config.Config, log *slog.Logger, args []string) error {
			u.output = *output
			var err error
			if r.Rate, err = parseRate(limit); err != nil {
				return cmdline.Usage(err)
			}
			if r.To == "" || byTenant && tenant == "" {
				return cmdline.Usage(errors.New("give --to, and the tenant of a person with --tenant"))
			}
			r.Of, r.By = of(args, tenant), account()
			m, err := server.Export(ctx, cfg, log, r, showExport)
			switch {
			case errors.Is(err, export.ErrOther):
				return &cmdline.Error{Status: 3, Err: err}
			case errors.Is(err, export.ErrNothing), errors.Is(err, store.ErrNotFound):
				return &cmdline.Error{Status: 4, Err: err}
			case ctx.Err() != nil:
				return fmt.Errorf("the export was interrupted, and %s has a part of it. Give the same command again: it continues",
					r.To)
			case err != nil:
				return err
			}
			return u.show(m, func() {
				u.say("exported %s with %d bytes and the audit up to number %d", cmdline.Count(int(m.Files), "file"), m.Bytes,
					m.Until.AuditNo)
				u.say("manifest %s; check it with: dvt export verify %s", m.Hash, r.To)
			})
		})
	c.Flags().StringVar(&r.To, "to", "", "directory, or file that ends in .tar, .tar.gz or .tar.zst")
	c.Flags().StringVar(&r.Reason, "reason", "", "why; it stands in the audit")
	c.Flags().StringVar(&limit, "rate", "", "most bytes a second, such as 500K, 20M or 1G; default: no bound")
	if byTenant {
		c.Flags().StringVar(&tenant, "tenant", "", "tenant of the person")
	}
	cmdline.RequireReason(c)
	return c
}

// account returns the account that runs this process; with sudo the one that gave the command. The operating system
// answers, so a root of the host can be anybody.
func account() export.Account {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if sudo := os.Getenv("SUDO_USER"); sudo != "" && os.Getuid() == 0 {
		name = sudo
	}
	return export.Account{Name: name, Host: host}
}

// parseRate reads a number of bytes, with K, M or G.
func parseRate(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	unit := int64(1)
	if i := strings.IndexByte("KMG", text[len(text)-1]); i >= 0 {
		unit <<= 10 * (i + 1)
		text = text[:len(text)-1]
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("--rate must be a number of bytes a second such as 500K, 20M or 1G, not %q", text)
	}
	return n * unit, nil
}

func showExport(p export.Progress) {
	fmt.Fprintf(os.Stderr, "part %d of %d (%s): %d files, %d bytes\n", p.Parts, p.Of, p.Part, p.Files, p.Bytes)
}

// VerifyExport returns the command `dvt export verify`.
func VerifyExport(output *document.Format) *cobra.Command {
	return &cobra.Command{
		Use: "verify DIR", Short: "Check an export without a server: hashes of all files, and the chain of its audit",
		Long: "Computes the hash of the manifest, of each file and of each row of the audit again. DIR is a directory or a " +
			"packed export.\n" +
			"Nothing signs an export: compare the hash of its manifest with the one that the export printed, or its audit with " +
			"the signed\n" +
			"heads (dvt audit verify). Exit status 1: something was changed, is missing or is too much.",
		Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return verifyExport(c, *output, args[0]) },
	}
}

func verifyExport(c *cobra.Command, output document.Format, at string) error {
	v, err := export.Verify(at)
	if err != nil {
		return &cmdline.Error{Status: server.StoreStatus(err), Err: err}
	}
	u := &storeCommands{output: output, out: c.OutOrStdout()}
	err = u.show(v, func() {
		for _, p := range v.Problems {
			u.say("%s", p)
		}
		for _, n := range v.Notes {
			u.say("note: %s", n)
		}
		if more := v.Torn - len(v.Notes); more > 0 {
			u.say("note: %d more objects were torn or missing", more)
		}
		of := "tenant " + v.Manifest.TenantID
		if v.Manifest.Subject != "" {
			of = v.Manifest.Subject + " of " + of
		}
		u.say("%s of %s: %d rows, %d bytes, %d records of the audit; manifest %s", cmdline.Count(int(v.Files), "file"), of,
			v.Rows, v.Bytes, v.Audit, v.Hash)
	})
	if err == nil && v.Wrong > 0 {
		return &cmdline.Error{Status: 1, Err: fmt.Errorf("the export does not hold: %s", cmdline.Count(v.Wrong, "problem"))}
	}
	return err
}
