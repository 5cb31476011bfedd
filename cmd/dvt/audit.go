package main

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
)

func auditCommand() *cobra.Command {
	s := &session{}
	return s.command("audit", "Who did or was refused what: read it, check that nobody changed it", s.auditExportCommand(), s.auditVerifyCommand())
}

// auditEntry is one link of the chain as the API gives it.
type auditEntry = client.ReadAuditAuditAuditConnectionEdgesAuditEdgeNodeAuditEntry

// auditAll gives every link of the caller's tenant that f selects to each, the first
// one first.
func (s *session) auditAll(ctx context.Context, f *client.AuditFilter, each func(auditEntry) error) error {
	oldest, size := true, 200
	var after *string
	for {
		out, err := client.ReadAudit(ctx, s.client, f, &oldest, &size, after)
		if err != nil {
			return failure(err)
		}
		for _, e := range out.Audit.Edges {
			if err := each(e.Node); err != nil {
				return err
			}
		}
		if !out.Audit.PageInfo.HasNextPage {
			return nil
		}
		after = out.Audit.PageInfo.EndCursor
	}
}

func (s *session) auditExportCommand() *cobra.Command {
	var from, to, actor, action, runID, outcome, format string
	c := &cobra.Command{
		Use: "export", Short: "Print audit rows, the first one first: JSON lines or CSV", Args: exact(0),
		RunE: func(c *cobra.Command, _ []string) error {
			f := &client.AuditFilter{}
			for _, t := range []struct {
				name, value string
				into        **time.Time
			}{{"from", from, &f.From}, {"to", to, &f.To}} {
				if t.value == "" {
					continue
				}
				at, err := time.Parse(time.RFC3339, t.value)
				if err != nil {
					return usage(fmt.Errorf("--%s is a time like 2026-11-21T00:00:00Z", t.name))
				}
				*t.into = &at
			}
			for value, into := range map[*string]**string{&actor: &f.Actor, &action: &f.Action, &runID: &f.RunId, &outcome: &f.Outcome} {
				if *value != "" {
					*into = value
				}
			}
			write, flush, err := s.auditWriter(format)
			if err != nil {
				return usage(err)
			}
			err = s.auditAll(c.Context(), f, write)
			return errors.Join(err, flush())
		},
	}
	c.Flags().StringVar(&from, "from", "", "not before this time")
	c.Flags().StringVar(&to, "to", "", "before this time")
	c.Flags().StringVar(&actor, "actor", "", "only of this principal")
	c.Flags().StringVar(&action, "action", "", "only this action")
	c.Flags().StringVar(&runID, "run", "", "only of this run")
	c.Flags().StringVar(&outcome, "outcome", "", "only ACCEPTED, REJECTED, DENIED, and so on")
	c.Flags().StringVar(&format, "format", "jsonl", "jsonl or csv")
	return c
}

// auditWriter prints entries one by one.
func (s *session) auditWriter(format string) (write func(auditEntry) error, flush func() error, err error) {
	switch format {
	case "jsonl":
		enc := json.NewEncoder(s.out)
		return func(e auditEntry) error { return enc.Encode(&e) }, func() error { return nil }, nil
	case "csv":
		w := csv.NewWriter(s.out)
		err := w.Write(strings.Fields("no id at actor action runId signalId outcome code reason requestId detail hash"))
		return func(e auditEntry) error {
			if e.Row == nil {
				return w.Write([]string{strconv.FormatInt(e.No, 10), e.Id, "", "", "", "", "", "REMOVED", "", "", "", "", e.Hash})
			}
			r := e.Row
			return w.Write([]string{
				strconv.FormatInt(e.No, 10), e.Id, r.At.UTC().Format(time.RFC3339Nano), r.Actor, r.Action, r.RunId, r.SignalId, r.Outcome, r.Code,
				r.Reason, r.RequestId, r.Detail, e.Hash,
			})
		}, func() error { w.Flush(); return w.Error() }, err
	}
	return nil, nil, fmt.Errorf("--format is jsonl or csv, not %q", format)
}

func (s *session) auditVerifyCommand() *cobra.Command {
	var head string
	c := &cobra.Command{
		Use: "verify", Short: "Check the audit's chain: name each row that was changed, removed or moved", Args: exact(0),
		Long: "Reads the tenant's whole audit and computes its chain of hashes anew. Status 1 when a row was changed, removed or moved, or did not\n" +
			"come through dvt. Somebody who owns the database could write a whole new chain: keep the head that this prints elsewhere, and\n" +
			"pass it to --head the next time.",
		RunE: func(c *cobra.Command, _ []string) error {
			no, hash, _ := strings.Cut(head, ":")
			known, err := strconv.ParseInt(no, 10, 64)
			if head != "" && (err != nil || hash == "") {
				return usage(errors.New("--head is what an earlier verify printed, NUMBER:HASH"))
			}
			return s.auditVerify(c.Context(), known, hash)
		},
	}
	c.Flags().StringVar(&head, "head", "", "NUMBER:HASH that an earlier verify printed")
	return c
}

// auditCheck is what verify found.
type auditCheck struct {
	Rows     int64    `json:"rows"`
	Head     string   `json:"head"`
	Problems []string `json:"problems"`
	Waiting  int64    `json:"waiting"`
	previous string
}

func (s *session) auditVerify(ctx context.Context, known int64, hash string) error {
	check := &auditCheck{Problems: []string{}}
	err := s.auditAll(ctx, nil, func(e auditEntry) error {
		check.next(e)
		if known > 0 && e.No == known && e.Hash != hash {
			check.problem("the chain is another one than it was: number %d has the hash %s", known, e.Hash)
		}
		return nil
	})
	if err != nil {
		return err
	}
	loose, err := client.CountLooseAudit(ctx, s.client)
	if err != nil {
		return failure(err)
	}
	if known > check.Rows {
		check.problem("the chain ends at %d; it was known to have %d", check.Rows, known)
	}
	if n := int64(loose.Audit.Stray); n > 0 {
		check.problem("%d rows did not come through dvt: they are in no chain", n)
	}
	check.Waiting = int64(loose.Audit.Waiting)
	if s.output.data() {
		if err := s.print(check); err != nil {
			return err
		}
	} else {
		for _, p := range check.Problems {
			fmt.Fprintln(s.out, p)
		}
		fmt.Fprintf(s.out, "%d rows, %d waiting for their link; head %s\n", check.Rows, check.Waiting, check.Head)
	}
	if n := len(check.Problems); n > 0 {
		return &exitError{status: 1, err: fmt.Errorf("the audit does not hold: %s", counted(n, "problem"))}
	}
	return nil
}

func (c *auditCheck) problem(format string, args ...any) {
	c.Problems = append(c.Problems, fmt.Sprintf(format, args...))
}

// next checks one link; the chain goes on from what it says, so that each problem is
// named once.
func (c *auditCheck) next(e auditEntry) {
	no := e.No
	if no != c.Rows+1 {
		c.problem("number %d was removed with its link", c.Rows+1)
	}
	switch {
	case e.Row == nil:
		c.problem("number %d was removed: row %s", no, e.Id)
	case no == c.Rows+1 && auditHash(c.previous, e) != e.Hash:
		c.problem("number %d was changed or moved: row %s, %s by %s at %s", no, e.Id, e.Row.Action, e.Row.Actor, e.Row.At.UTC().Format(time.RFC3339))
	}
	c.Rows, c.previous, c.Head = no, e.Hash, fmt.Sprintf("%d:%s", no, e.Hash)
}

// auditHash is the hash of a link as the schema says (AuditEntry.hash).
func auditHash(previous string, e auditEntry) string {
	r := e.Row
	h := sha256.New()
	for _, s := range []string{
		"v1", previous, strconv.FormatInt(e.No, 10), e.Id, r.At.UTC().Format("2006-01-02T15:04:05.000000Z"), r.TenantId, r.Actor, r.Action,
		r.RunId, r.SignalId, r.Outcome, r.Code, r.Reason, r.RequestId, r.Detail,
	} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil))
}
