// Package secretcmd has the commands about secrets of steps. None of them gets a value.
package secretcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

const (
	maxPage = 200
	// exportDays is the time that export covers unless --since says otherwise.
	exportDays = "30d"
	// revokeTries and revokePause say how long revoke waits for workers, beside the wait of the server.
	revokeTries = 3
	revokePause = time.Second
)

// commands are the commands of a session.
type commands struct{ cmdline.Session }

// All returns the commands about secrets.
func All(session cmdline.Session) []*cobra.Command {
	s := commands{session}
	return []*cobra.Command{s.whoRead(), s.export(), s.check(), s.revoke()}
}

// accessFlags are the flags that select reads.
type accessFlags struct{ key, provider, run, step, since, until string }

func (f *accessFlags) add(c *cobra.Command, since string) {
	c.Flags().StringVar(&f.key, "key", "", "only this key, as plans have it: db/warehouse#password")
	c.Flags().StringVar(&f.provider, "provider", "", "only this provider")
	c.Flags().StringVar(&f.run, "run", "", "only reads for this run")
	c.Flags().StringVar(&f.step, "step", "", "only reads for steps of this name")
	c.Flags().StringVar(&f.since, "since", since, "not before this time, or this long ago: 7d, 2026-11-28T06:00:00Z")
	c.Flags().StringVar(&f.until, "until", "", "before this time, or this long ago")
}

func (s commands) filter(f accessFlags) (*client.SecretAccessFilter, error) {
	out := &client.SecretAccessFilter{RunId: orNil(f.run), StepId: orNil(f.step), Provider: orNil(f.provider),
		Key: orNil(f.key)}
	now := time.Now()
	var errs [2]error
	out.From, errs[0] = s.Instant("since", f.since, now)
	out.To, errs[1] = s.Instant("until", f.until, now)
	return out, errors.Join(errs[:]...)
}

func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func (s commands) whoRead() *cobra.Command {
	var f accessFlags
	var limit int
	c := &cobra.Command{
		Use: "who-read", Short: "List which worker read which secret for which step, the newest first",
		Long: "List which worker read which secret for which step, the newest first, also reads that failed. The records are made\n" +
			"before a step gets the value, cannot be changed, and have no values. It takes the right to read the audit.",
		Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 || limit > maxPage {
				return cmdline.Usage(fmt.Errorf("--limit must be from 1 to %d", maxPage))
			}
			filter, err := s.filter(f)
			if err != nil {
				return err
			}
			out, err := client.WhoReadSecrets(c.Context(), s.Client(), filter, &limit, nil)
			if err != nil {
				return cmdline.Failure(err)
			}
			edges := out.SecretAccess.Edges
			switch {
			case s.IsData():
				rows := make([]any, len(edges))
				for i, e := range edges {
					rows[i] = e.Node
				}
				err = s.Print(rows)
			case len(edges) == 0:
				fmt.Fprintln(s.Notes(), "No read of a secret is recorded that fits.")
			default:
				t := s.Table("AT", "SECRET", "RUN", "STEP", "ATTEMPT", "WORKER", "RESULT")
				for _, e := range edges {
					n := e.Node
					t.Row(s.When(&n.At), nameOf(n.Provider, n.Key, n.Version), n.RunId, n.StepId,
						fmt.Sprintf("%d.%d", n.LogicalAttemptId, n.EngineAttemptId), n.Account+"/"+n.Worker, resultOf(n))
				}
				err = t.Print()
			}
			if err == nil && out.SecretAccess.PageInfo.HasNextPage {
				fmt.Fprintf(s.Notes(), "more rows exist; use --limit %d, or dvt secrets export\n", maxPage)
			}
			return err
		},
	}
	f.add(c, "")
	c.Flags().IntVar(&limit, "limit", 50, fmt.Sprintf("greatest number of rows, up to %d", maxPage))
	return c
}

// nameOf returns provider:key@version.
func nameOf(provider, key string, version *string) string {
	name := provider + ":" + key
	if version != nil {
		name += "@" + *version
	}
	return console.OneLine(name)
}

func resultOf(n client.SecretAccessLine) string {
	switch {
	case n.Code != nil:
		return *n.Code
	case n.Cached:
		return "read, remembered"
	}
	return "read"
}

func (s commands) export() *cobra.Command {
	var f accessFlags
	c := &cobra.Command{
		Use: "export", Short: "Print all reads of secrets of the last 30 days as JSON lines, the newest first",
		Long: "Print all reads of secrets of the last 30 days, or since --since, as JSON lines, the newest first. The lines have\n" +
			"no values.",
		Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			filter, err := s.filter(f)
			if err != nil {
				return err
			}
			enc := json.NewEncoder(console.Verbatim(s.Out()))
			size, after := maxPage, (*string)(nil)
			for {
				out, err := client.WhoReadSecrets(c.Context(), s.Client(), filter, &size, after)
				if err != nil {
					return cmdline.Failure(err)
				}
				for _, e := range out.SecretAccess.Edges {
					if err := enc.Encode(e.Node); err != nil {
						return err
					}
				}
				info := out.SecretAccess.PageInfo
				if !info.HasNextPage || info.EndCursor == nil {
					return nil
				}
				after = info.EndCursor
			}
		},
	}
	f.add(c, exportDays)
	return c
}

func (s commands) check() *cobra.Command {
	var requestID string
	c := &cobra.Command{
		Use: "check PLAN", Short: "Ask workers which of the secrets that a plan names they can read",
		Long: "Ask a worker of each queue of a plan which of the secrets that the plan names it can read, for the tenant and the\n" +
			"environment of the plan. PLAN is a file, JSON or YAML, or - for standard input. No value is returned or shown. The\n" +
			"command fails when a secret cannot be read or no worker answers.",
		Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			doc, err := document.Read(args[0], c.InOrStdin())
			if err != nil {
				return err
			}
			out, err := client.CheckSecrets(c.Context(), s.Client(), client.CheckSecretsInput{RequestId: orNew(requestID),
				Plan: doc})
			if err != nil {
				return cmdline.Failure(err)
			}
			return s.checked(out.CheckSecrets.Secrets)
		},
	}
	requestFlag(c, &requestID)
	return c
}

// checked prints what workers said, and returns an error unless all secrets can be read.
func (s commands) checked(rows []client.SecretCheckLine) error {
	failed := 0
	for _, r := range rows {
		if !r.Ok {
			failed++
		}
	}
	switch {
	case s.IsData():
		if err := s.Print(rows); err != nil {
			return err
		}
	case len(rows) == 0:
		fmt.Fprintln(s.Notes(), "The plan names no secret.")
	default:
		t := s.Table("SECRET", "STEPS", "RESULT", "WORKER", "WHY")
		for _, r := range rows {
			result := "OK"
			switch {
			case r.Worker == nil:
				result = "NO ANSWER"
			case r.Code != nil:
				result = *r.Code
			}
			why := console.OneLine(runtext.Deref(r.Message))
			if r.Worker == nil {
				why = "no worker of the queue " + r.Queue + " answered within 15 s: dvt service workers"
			}
			t.Row(nameOf(r.Provider, r.Key, r.Version), strings.Join(r.Steps, " "), result, orDash(r.Worker), why)
		}
		if err := t.Print(); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%s of the plan cannot be read. Correct the key in the plan, or give the worker the right to read "+
			"it at its provider", cmdline.Count(failed, "secret"))
	}
	return nil
}

func orDash(text *string) string {
	if text == nil {
		return "-"
	}
	return *text
}

func (s commands) revoke() *cobra.Command {
	var tenant, run, reason, requestID string
	var yes bool
	c := &cobra.Command{
		Use: "revoke", Short: "Have all workers forget a tenant's secrets and end its leases",
		Long: "Have all workers of a tenant forget the secrets that they remember and end the leases that they hold, for example\n" +
			"after a secret has leaked. With --run only the leases of that run end. Programs that run keep the values that they\n" +
			"were given: freeze the tenant (dvt tenant freeze) and stop its runs, too. The command says how many workers have\n" +
			"done it. Repeat it with the same --request-id to look again. It needs --yes.",
		Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			in := client.RevokeSecretsInput{RequestId: orNew(requestID), TenantId: orNil(tenant), RunId: orNil(run),
				Reason: reason}
			if !yes {
				return cmdline.Usage(errors.New("this ends the leases of running steps, which then fail: repeat it with --yes"))
			}
			out, err := s.revokeAll(c.Context(), in)
			if err != nil {
				return cmdline.Failure(err)
			}
			if s.IsData() {
				if err := s.Print(out); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(s.Out(), "%d of %s carried it out: %s forgotten, %s ended\n", out.Done,
					cmdline.Count(out.Workers, "worker"), cmdline.Count(out.ValuesDropped, "value"),
					cmdline.Count(out.LeasesEnded, "lease"))
			}
			if out.LeasesFailed > 0 {
				fmt.Fprintf(s.Notes(), "%s could not be ended yet; the workers try again\n",
					cmdline.Count(out.LeasesFailed, "lease"))
			}
			if len(out.Waiting) > 0 {
				return fmt.Errorf("these workers have not carried it out yet: %s\nLook again: dvt secrets revoke --yes "+
					"--request-id %s --reason …, with the same --tenant and --run", strings.Join(out.Waiting, ", "), in.RequestId)
			}
			return nil
		},
	}
	c.Flags().StringVar(&tenant, "tenant", "", "another tenant, for operators; default: your own")
	c.Flags().StringVar(&run, "run", "", "only the leases of this run")
	c.Flags().StringVar(&reason, "reason", "", "why; kept in the audit")
	c.Flags().BoolVar(&yes, "yes", false, "also though leases of running steps end")
	requestFlag(c, &requestID)
	cmdline.RequireReason(c)
	return c
}

// revokeAll asks until all workers have done it, for some tries.
func (s commands) revokeAll(ctx context.Context, in client.RevokeSecretsInput) (client.RevocationFields, error) {
	for try := 1; ; try++ {
		out, err := client.RevokeSecrets(ctx, s.Client(), in)
		if err != nil {
			return client.RevocationFields{}, err
		}
		if len(out.RevokeSecrets.Waiting) == 0 || try == revokeTries {
			return out.RevokeSecrets, nil
		}
		select {
		case <-ctx.Done():
			return out.RevokeSecrets, nil
		case <-time.After(revokePause):
		}
	}
}

func requestFlag(c *cobra.Command, id *string) {
	c.Flags().StringVar(id, "request-id", "", "client key that makes repeating safe; default: a new one")
}

// orNew returns the id, or a new one.
func orNew(id string) string {
	if id == "" {
		return uuid.NewString()
	}
	return id
}
