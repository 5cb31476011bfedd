package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/server"
)

func auditCommand() *cobra.Command {
	s := &session{}
	return s.command("audit", "Export and verify the audit: the record of who did what and who was refused",
		s.auditExportCommand(),
		s.auditVerifyCommand())
}

// auditEntry is one link of the chain of the audit, with its row.
type auditEntry = client.ReadAuditAuditAuditConnectionEdgesAuditEdgeNodeAuditEntry

// auditAll calls each with every link of the caller's tenant that f selects, the oldest first. It reads page by page
// and stops at the first error.
func (s *session) auditAll(ctx context.Context, f *client.AuditFilter, each func(auditEntry) error) error {
	oldest, size := true, 200
	var after *string
	for {
		out, err := client.ReadAudit(ctx, s.client, f, &oldest, &size, after)
		if err != nil {
			return cmdline.Failure(err)
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
		Use: "export", Short: "Print audit rows, the oldest first: JSON lines or CSV", Args: cmdline.ExactArgs(0),
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
					return cmdline.Usage(fmt.Errorf("--%s must be a time like 2026-11-21T00:00:00Z", t.name))
				}
				*t.into = &at
			}
			for value, into := range map[*string]**string{&actor: &f.Actor, &action: &f.Action, &runID: &f.RunId,
				&outcome: &f.Outcome} {
				if *value != "" {
					*into = value
				}
			}
			write, flush, err := s.auditWriter(format)
			if err != nil {
				return cmdline.Usage(err)
			}
			err = s.auditAll(c.Context(), f, write)
			return errors.Join(err, flush())
		},
	}
	c.Flags().StringVar(&from, "from", "", "not before this time")
	c.Flags().StringVar(&to, "to", "", "before this time")
	c.Flags().StringVar(&actor, "actor", "", "only rows of principals whose name contains this")
	c.Flags().StringVar(&action, "action", "", "only rows of actions whose name contains this, such as retry")
	c.Flags().StringVar(&runID, "run", "", "only rows of this run: its id or the beginning of it")
	c.Flags().StringVar(&outcome, "outcome", "", "only rows with this outcome: ACCEPTED, REJECTED, DENIED, ...")
	c.Flags().StringVar(&format, "format", "jsonl", "jsonl or csv")
	return c
}

// auditWriter returns a function that prints one entry in the format, and one that flushes the output at the end. Its
// error is that of a wrong format.
func (s *session) auditWriter(format string) (write func(auditEntry) error, flush func() error, err error) {
	switch format {
	case "jsonl":
		enc := json.NewEncoder(console.Verbatim(s.out))
		return func(e auditEntry) error { return enc.Encode(&e) }, func() error { return nil }, nil
	case "csv":
		w := csv.NewWriter(s.out)
		err := w.Write(strings.Fields(
			"no id at actor action runId signalId outcome code reason requestId detail hash credential address via object digest"))
		return func(e auditEntry) error {
			if e.Row == nil {
				return w.Write([]string{strconv.FormatInt(e.No, 10), e.Id, "", "", "", "", "", "REMOVED", "", "", "", "", e.Hash,
					"", "", "", "", ""})
			}
			r := e.Row
			cells := []string{
				strconv.FormatInt(e.No, 10), e.Id, r.At.UTC().Format(time.RFC3339Nano), r.Actor, r.Action, r.RunId, r.SignalId,
				r.Outcome, r.Code,
				r.Reason, r.RequestId, r.Detail, e.Hash, r.Credential, r.Address, r.Via, r.Object, r.Digest,
			}
			for i, text := range cells {
				cells[i] = cell(text)
			}
			return w.Write(cells)
		}, func() error { w.Flush(); return w.Error() }, err
	}
	return nil, nil, fmt.Errorf("--format must be jsonl or csv, not %q", format)
}

// cell returns text for a cell of CSV. Spreadsheets evaluate text that begins with one of these characters, so a reason
// in the audit could run as a formula on the auditor's machine. An apostrophe before it makes it text.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

func (s *session) auditVerifyCommand() *cobra.Command {
	var head, heads, headsKey string
	c := &cobra.Command{
		Use: "verify", Short: "Verify the audit's chain: report each row that was changed, removed or moved",
		Args: cmdline.ExactArgs(0),
		Long: "Reads the tenant's whole audit and computes its chain of hashes. Compares each token, policy, setting, " +
			"approval decision,\n" +
			"run and signal with the row that created it, each stored plan with its digest, and the log of each run with its " +
			"seals.\n" +
			"Rows that the retention deleted are excused by the signed record of that cut.\n" +
			"Exit status 1: a row was changed, removed or moved, was not written by dvt, or has waited for its link for more " +
			"than 10 s;\n" +
			"an object has no row; or a sealed event was changed, removed or added.\n" +
			"The owner of the database could write a whole new chain. To detect that, compare with the signed heads that " +
			"servers write\n" +
			"(--heads), or keep the head that verify prints and pass it to --head the next time.",
		RunE: func(c *cobra.Command, _ []string) error {
			no, hash, _ := strings.Cut(head, ":")
			known, err := strconv.ParseInt(no, 10, 64)
			if head != "" && (err != nil || hash == "") {
				return cmdline.Usage(errors.New("--head must be NUMBER:HASH, as an earlier verify printed it"))
			}
			if (heads == "") != (headsKey == "") {
				return cmdline.Usage(errors.New("--heads and --heads-key must be given together"))
			}
			check := &auditCheck{Problems: []string{}}
			if heads != "" {
				if err := s.readHeads(c.Context(), check, heads, headsKey); err != nil {
					return err
				}
			}
			check.keyFile = headsKey
			return s.auditVerify(c.Context(), check, known, hash)
		},
	}
	c.Flags().StringVar(&head, "head", "", "NUMBER:HASH that an earlier verify printed")
	c.Flags().StringVar(
		&heads, "heads", "", "bucket URL or directory with the signed heads that servers wrote (audit-heads)")
	c.Flags().StringVar(&headsKey, "heads-key", "", "PEM file with the public key of --heads")
	return c
}

// auditCheck is the result of verify, and its state while it reads the chain.
type auditCheck struct {
	Rows     int64    `json:"rows"`
	Head     string   `json:"head"`
	Problems []string `json:"problems"`
	Waiting  int64    `json:"waiting"`
	// Objects counts the tokens, policies, settings, decisions, runs, signals and seals of logs that match their rows.
	Objects int `json:"objects"`
	Heads   int `json:"heads,omitempty"` // signed heads that were compared
	// Cut is the newest cut of the chain by the retention; nil: none.
	Cut      *auditCut `json:"cut,omitempty"`
	keyFile  string    // of --heads-key
	previous string
	newest   signedHead           // the latest of the signed heads
	newestNo int64                // the number of newest
	latest   time.Time            // the latest time of a row so far
	signed   map[int64]signedHead // by number, the heads that the chain has not reached yet
}

// signedHead is a head of the caller's tenant that a server signed at a time.
type signedHead struct {
	hash string
	at   time.Time
}

// readHeads reads the signed heads of the caller's tenant from location into check. Two documents that disagree about a
// number are a problem.
func (s *session) readHeads(ctx context.Context, check *auditCheck, location, key string) error {
	who, err := client.ReadTenant(ctx, s.client)
	if err != nil {
		return cmdline.Failure(err)
	}
	check.signed = map[int64]signedHead{}
	err = server.ReadAuditHeads(ctx, location, key, func(doc server.SignedHeads) {
		for _, h := range doc.Heads {
			if h.TenantID != who.Viewer.TenantId {
				continue
			}
			if before, ok := check.signed[h.No]; ok && before.hash != h.Hash {
				check.problem("the signed heads of %s and %s have two hashes for number %d",
					before.at.UTC().Format(time.RFC3339), doc.At.UTC().Format(time.RFC3339), h.No)
			} else if !ok {
				check.signed[h.No] = signedHead{h.Hash, doc.At}
				check.Heads++
			}
			if doc.At.After(check.newest.at) {
				check.newest, check.newestNo = signedHead{h.Hash, doc.At}, h.No
			}
		}
	}, func(name string) { check.problem("%s was not signed by the key of --heads-key", name) })
	if err == nil && check.Heads == 0 {
		check.problem("%s holds no signed head of tenant %s: check that servers write to it (setting audit-heads)",
			location, who.Viewer.TenantId)
	}
	return err
}

// missingHeads reports the first signed head that the chain does not reach. The later ones are missing because of it.
func (c *auditCheck) missingHeads() {
	for _, no := range slices.Sorted(maps.Keys(c.signed)) {
		c.problem("the chain ends at %d; its signed head of %s has number %d", c.Rows,
			c.signed[no].at.UTC().Format(time.RFC3339), no)
		return
	}
}

// auditVerify checks the chain and the objects and prints the result. When a part of the check has to stop, it still
// prints every problem that it found.
func (s *session) auditVerify(ctx context.Context, check *auditCheck, known int64, hash string) error {
	var stops []string
	var failed error
	stop := func(err error, format string, args ...any) {
		if err != nil {
			failed = cmp.Or(failed, err)
			stops = append(stops, fmt.Sprintf("the check stopped "+format+": %v", append(args, err)...))
		}
	}
	stop(s.readCuts(ctx, check), "at the records of cuts")
	err := s.auditAll(ctx, nil, func(e auditEntry) error {
		check.next(e)
		if known > 0 && e.No == known && e.Hash != hash {
			check.problem("this is not the chain of --head: number %d has the hash %s", known, e.Hash)
		}
		return nil
	})
	stop(err, "at number %d of the audit", check.Rows+1)
	if err == nil {
		if known > check.Rows {
			check.problem("the chain ends at %d; it was known to have %d", check.Rows, known)
		}
		check.endCut()
		check.missingHeads()
	}
	loose, err := client.CountLooseAudit(ctx, s.client)
	stop(cmdline.Failure(err), "at the rows without a link")
	if err == nil {
		check.unlinked(loose)
	}
	err = s.auditObjects(ctx, check)
	stop(err, "behind %s", cmdline.Count(check.Objects, "object"))
	if failed != nil && check.Rows == 0 && check.Objects == 0 && len(check.Problems) == 0 {
		return failed // nothing was checked
	}
	check.Problems = append(check.Problems, stops...)
	return s.printAuditCheck(check)
}

// unlinked reports the rows that are in no chain.
func (c *auditCheck) unlinked(loose *client.CountLooseAuditResponse) {
	if n := int64(loose.Audit.Stray); n > 0 {
		c.problem("%d rows were not written by dvt: they are in no chain", n)
	}
	c.Waiting = int64(loose.Audit.Waiting)
	if seconds := loose.Audit.OldestWaitingSeconds; seconds > auditLinkTime.Seconds() {
		c.problem("a row has waited for its link for %.0f seconds; links come within %.0f", seconds, auditLinkTime.Seconds())
	}
}

// agrees returns the verb for a number of objects.
func agrees(n int) string {
	if n == 1 {
		return "agrees with its record"
	}
	return "agree with their records"
}

func (s *session) printAuditCheck(check *auditCheck) error {
	if s.output.IsData() {
		if err := s.print(check); err != nil {
			return err
		}
	} else {
		for _, p := range check.Problems {
			fmt.Fprintln(s.out, p)
		}
		if len(check.Problems) == 0 {
			fmt.Fprintf(s.out, "OK: %s, the chain is intact.\n", cmdline.Count(int(check.Rows), "record"))
		} else {
			fmt.Fprintf(s.out, "%s read.\n", cmdline.Count(int(check.Rows), "record"))
		}
		fmt.Fprintf(s.out, "%s (tokens, policies, settings, decisions, runs, signals, seals of logs) %s.\n",
			cmdline.Count(check.Objects, "object"), agrees(check.Objects))
		if check.Heads > 0 {
			fmt.Fprintf(s.out, "%s compared; the newest is of %s and covers rows up to %d\n",
				cmdline.Count(check.Heads, "signed head"), check.newest.at.UTC().Format(time.RFC3339), check.newestNo)
		}
		if check.Cut != nil {
			fmt.Fprintln(s.out, check.Cut.text())
		}
		if check.Waiting > 0 {
			fmt.Fprintf(s.out, "%d waiting for a link of the chain, which takes some seconds.\n", check.Waiting)
		}
		fmt.Fprintf(s.out, "head %s (keep it, and give it to --head the next time)\n", check.Head)
		if len(check.Problems) > 0 {
			fmt.Fprintln(s.out, "To find what changed, compare each named row and object with a backup, as "+
				"docs/operations.md#problems-of-the-audit says.")
		}
	}
	if n := len(check.Problems); n > 0 {
		return &cmdline.Error{Status: 1, Err: fmt.Errorf("the audit does not hold: %s", cmdline.Count(n, "problem"))}
	}
	return nil
}

// Thresholds from which on verify reports a problem.
const (
	// auditLinkTime is how long a row may wait for its link.
	auditLinkTime = 10 * time.Second
	// auditClockSlack is how far the time of a row may lie before that of an earlier one. Rows do not commit in the
	// order of their times, and the clock of a standby that takes over may be behind.
	auditClockSlack = 5 * time.Minute
	// auditMaxNo bounds the numbers of a chain. A link at or above it was not written by dvt.
	auditMaxNo = 1 << 62
)

// auditObjects compares the objects in the store with the rows that created them, page by page.
func (s *session) auditObjects(ctx context.Context, check *auditCheck) error {
	var after *string
	for {
		out, err := client.CheckAudit(ctx, s.client, after)
		if err != nil {
			return cmdline.Failure(err)
		}
		check.Objects += out.AuditCheck.Checked - len(out.AuditCheck.Problems)
		check.Problems = append(check.Problems, out.AuditCheck.Problems...)
		if after = out.AuditCheck.Next; after == nil {
			return nil
		}
	}
}

func (c *auditCheck) problem(format string, args ...any) {
	c.Problems = append(c.Problems, fmt.Sprintf(format, args...))
}

// next checks one link. The next link is compared with the hash of this one even if this one is wrong, so that each
// problem is reported once.
func (c *auditCheck) next(e auditEntry) {
	no := e.No
	if no >= auditMaxNo {
		c.problem("number %d is too large for a chain: its link was not written by dvt", no)
		return
	}
	if e.Row != nil {
		if at := e.Row.At; at.Before(c.latest.Add(-auditClockSlack)) {
			c.problem("number %d is dated %s, before earlier rows: row %s, %s by %s", no, at.UTC().Format(time.RFC3339), e.Id,
				e.Row.Action, e.Row.Actor)
		} else if at.After(c.latest) {
			c.latest = at
		}
	}
	c.nextCut(e)
	if no != c.Rows+1 && !c.Cut.covers(no) {
		c.problem("number %d was removed with its link", c.Rows+1)
	}
	switch {
	case e.Row == nil && c.Cut.covers(no):
	case e.Row == nil:
		c.problem("number %d was removed: row %s", no, e.Id)
	case no == c.Rows+1 && auditHash(c.previous, e) != e.Hash:
		c.problem("number %d was changed or moved: row %s, %s by %s at %s", no, e.Id, e.Row.Action, e.Row.Actor,
			e.Row.At.UTC().Format(time.RFC3339))
	}
	if h, ok := c.signed[no]; ok {
		if h.hash != e.Hash {
			c.problem("this is not the chain that was signed: the signed head of %s has another hash for number %d",
				h.at.UTC().Format(time.RFC3339), no)
		}
		delete(c.signed, no)
	}
	c.Rows, c.previous, c.Head = no, e.Hash, fmt.Sprintf("%d:%s", no, e.Hash)
}

// auditHash returns the hash of a link, as AuditEntry.hash of the API's schema defines it.
func auditHash(previous string, e auditEntry) string {
	r := e.Row
	actor, reason, address := r.Actor, r.Reason, r.Address
	if s := r.Sealed; s != nil {
		actor, reason, address = s.Actor, s.Reason, s.Address
	}
	parts := []string{
		"v" + strconv.Itoa(max(r.Format, 1)), previous, strconv.FormatInt(e.No, 10), e.Id,
		r.At.UTC().Format("2006-01-02T15:04:05.000000Z"), r.TenantId, actor, r.Action,
		r.RunId, r.SignalId, r.Outcome, r.Code, reason, r.RequestId, r.Detail,
	}
	if r.Format > 1 {
		parts = append(parts, r.Credential, address, r.Via, r.Object, r.Digest)
	}
	h := sha256.New()
	for _, s := range parts {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil))
}
