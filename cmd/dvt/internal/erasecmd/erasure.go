// Package erasecmd has the commands by which people ask for an erasure, decide about it and check its certificate. The
// command that carries it out is dvt store erase.
package erasecmd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/server"
)

// commands are the commands of a session.
type commands struct{ cmdline.Session }

// listed is the number of erasures that list prints.
const listed = 50

// All returns the commands list, confirm, cancel and verify.
func All(session cmdline.Session) []*cobra.Command {
	s := commands{session}
	return []*cobra.Command{s.list(),
		s.decide("confirm ID", "Confirm a request to erase, as a person other than the one who asked", true),
		s.decide("cancel ID", "Cancel a request to erase that has not begun", false), s.verify()}
}

// Purge returns the command purge of dvt tenant.
func Purge(session cmdline.Session) *cobra.Command {
	s := commands{session}
	return s.request(&cobra.Command{
		Use: "purge TENANT", Short: "Ask to erase your whole tenant: runs, logs, artifacts, settings and audit",
		Long: "Asks to erase everything of your tenant. TENANT must be its name, so that nobody erases another one by " +
			"mistake. Nothing\n" +
			"is erased before another person confirms it (dvt erasure confirm) and the owner of the database carries it out " +
			"(dvt store\n" +
			"erase), which nobody can undo.",
	}, func(in *client.RequestErasureInput, name string) { in.TenantId = &name })
}

// Subject returns the command erase of dvt subject.
func Subject(session cmdline.Session) *cobra.Command {
	s := commands{session}
	return s.request(&cobra.Command{
		Use: "erase PRINCIPAL", Short: "Ask to erase a person of your tenant: the audit then reads \"erased subject\"",
		Long: "Asks to destroy the keys that seal the person's name, reasons and addresses in the audit, and to delete the " +
			"person's\n" +
			"tokens, sessions, views and finished bulks. In runs, receipts, approvals, policies and archives a pseudonym replaces\n" +
			"the person, who loses every right; open runs that name the person have to end first. The certificate counts what is\n" +
			"left. Another person must confirm it (dvt erasure confirm), and the owner of the database carries it out (dvt store\n" +
			"erase).",
	}, func(in *client.RequestErasureInput, name string) { in.Subject = &name })
}

func (s commands) request(c *cobra.Command, name func(*client.RequestErasureInput, string)) *cobra.Command {
	var reason, requestID string
	c.Args = cmdline.ExactArgs(1)
	c.RunE = func(c *cobra.Command, args []string) error {
		in := client.RequestErasureInput{RequestId: orNew(requestID), Reason: reason}
		name(&in, args[0])
		out, err := client.RequestErasure(c.Context(), s.Client(), in)
		if err != nil {
			return cmdline.Failure(err)
		}
		e := out.RequestErasure.Erasure
		if s.IsData() {
			return s.Print(e)
		}
		_, err = fmt.Fprintf(s.Out(), "Erasure %s waits for another person until %s: dvt erasure confirm %s\n", e.Id,
			e.ExpiresAt.UTC().Format(time.RFC3339), e.Id)
		return err
	}
	auditFlags(c, &reason, &requestID)
	return c
}

func auditFlags(c *cobra.Command, reason, requestID *string) {
	c.Flags().StringVar(reason, "reason", "", "why; it stands in the audit")
	c.Flags().StringVar(requestID, "request-id", "", "key of the request, so that it can be repeated; default: a new one")
	cmdline.RequireReason(c)
}

func orNew(id string) string {
	if id == "" {
		return uuid.NewString()
	}
	return id
}

func (s commands) decide(use, short string, confirm bool) *cobra.Command {
	var reason, requestID string
	c := &cobra.Command{
		Use: use, Short: short, Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			out, err := client.DecideErasure(c.Context(), s.Client(), client.DecideErasureInput{
				RequestId: orNew(requestID), Id: args[0], Confirm: confirm, Reason: reason,
			})
			if err != nil {
				return cmdline.Failure(err)
			}
			e := out.DecideErasure.Erasure
			if s.IsData() {
				return s.Print(e)
			}
			said := "Erasure %s is cancelled: nothing is erased.\n"
			if confirm {
				said = "Erasure %[1]s is confirmed. The owner of the database carries it out: dvt store erase %[1]s\n"
			}
			_, err = fmt.Fprintf(s.Out(), said, e.Id)
			return err
		},
	}
	auditFlags(c, &reason, &requestID)
	return c
}

func (s commands) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List requests to erase, newest first", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error { return s.printList(c.Context()) },
	}
}

func (s commands) printList(ctx context.Context) error {
	first := listed
	out, err := client.ListErasures(ctx, s.Client(), &first, nil)
	if err != nil {
		return cmdline.Failure(err)
	}
	rows := []client.ErasureRow{}
	for _, e := range out.Erasures.Edges {
		rows = append(rows, e.Node)
	}
	if s.IsData() {
		return s.Print(rows)
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(s.Notes(), "Nobody has asked to erase anything.")
		return err
	}
	t := s.Table("ERASURE", "OF", "STATE", "ASKED", "BY", "REASON")
	for _, e := range rows {
		of := "the tenant"
		if e.Kind == client.ErasureKindSubject {
			of = orDash(e.Subject)
		}
		t.Row(e.Id, of, state(e), s.When(&e.RequestedAt), orDash(e.RequestedBy), console.OneLine(e.Reason))
	}
	if err := t.Print(); err != nil {
		return err
	}
	return s.printOpen(rows)
}

// printOpen prints what erasures wait for.
func (s commands) printOpen(rows []client.ErasureRow) error {
	for _, e := range rows {
		if e.OpenWorkCount == 0 {
			continue
		}
		if _, err := fmt.Fprintf(s.Out(), "\nErasure %s waits for these to end; then run again: dvt store erase %s\n", e.Id,
			e.Id); err != nil {
			return err
		}
		t := s.Table("RUN OR BULK", "STATE", "PLAN", "PLACE", "CREATED")
		for _, w := range e.OpenWork {
			place := "-"
			if w.ProjectId != nil && w.EnvironmentId != nil {
				place = *w.ProjectId + "/" + *w.EnvironmentId
			}
			state := "gone"
			switch {
			case w.Status != nil:
				state = string(*w.Status)
			case w.BulkId != nil:
				state = "works"
			}
			t.Row(orDash(cmp.Or(w.RunId, w.BulkId)), state, orDash(w.PlanId), place, s.When(w.CreatedAt))
		}
		if err := t.Print(); err != nil {
			return err
		}
		if more := e.OpenWorkCount - len(e.OpenWork); more > 0 {
			if _, err := fmt.Fprintf(s.Notes(), "%d more are not listed.\n", more); err != nil {
				return err
			}
		}
	}
	return nil
}

// state returns a word, or two, for how far an erasure is.
func state(e client.ErasureRow) string {
	switch {
	case e.FinishedAt != nil:
		return "erased"
	case e.CancelledAt != nil:
		return "cancelled"
	case e.OpenWorkCount > 0:
		return fmt.Sprintf("waits for %d open", e.OpenWorkCount)
	case e.StartedAt != nil:
		return "erasing: " + runtext.Deref(e.Phase)
	case e.ConfirmedAt != nil:
		return "confirmed"
	case e.ExpiresAt.Before(time.Now()):
		return "expired"
	}
	return "waits for another person"
}

func orDash(text *string) string {
	if text == nil || *text == "" {
		return "-"
	}
	return *text
}

func (s commands) verify() *cobra.Command {
	var key string
	c := &cobra.Command{
		Use: "verify FILE", Short: "Check the signature of a certificate, and print what was erased", Args: cmdline.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			body, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			certificate, err := server.ReadCertificate(body, key)
			if err != nil {
				return &cmdline.Error{Status: 1, Err: err}
			}
			return s.Print(certificate)
		},
	}
	c.Flags().StringVar(&key, "key", "", "PEM file with the public key of audit-heads-key")
	_ = c.MarkFlagRequired("key") // cannot fail: the flag exists
	return c
}
