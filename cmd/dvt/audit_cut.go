package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/server"
)

// auditCut is the newest cut of the caller's chain by the retention, and what verify has seen of the rows that it
// kept. The zero value is no cut.
type auditCut struct {
	No     int64     `json:"no"` // of the last link that is cut
	At     time.Time `json:"at"`
	Rows   int64     `json:"rows"` // deleted by all cuts
	Policy int64     `json:"policyVersion"`
	Days   int       `json:"days"`
	Signed bool      `json:"signed"` // the key of --heads-key signed it

	hash               string
	kept, seen         int64
	digest, seenDigest string
	compared           bool
}

// readCuts reads the records of cuts into check, before the chain is read. A record that dvt cannot have written is a
// problem, and excuses nothing.
func (s *session) readCuts(ctx context.Context, check *auditCheck) error {
	action, keyFile := server.ActionCutAudit, check.keyFile
	return s.auditAll(ctx, &client.AuditFilter{Action: &action}, func(e auditEntry) error {
		if e.Row == nil || e.Row.Action != action || e.Row.Outcome != "ACCEPTED" {
			return nil
		}
		c, signed, err := server.ReadAuditCut([]byte(e.Row.Detail), keyFile)
		switch {
		case err != nil:
			check.problem("number %d says that the audit was cut, and dvt did not write it: %v", e.No, err)
		case c.TenantID != e.Row.TenantId || c.Object() != e.Row.Object || c.Hash != e.Row.Digest || c.No >= e.No:
			check.problem("number %d says that the audit was cut, and its record is not the one of this row", e.No)
		case keyFile != "" && !signed:
			check.problem("number %d says that the audit was cut, and the key of --heads-key did not sign it", e.No)
		case check.Cut == nil || c.No > check.Cut.No:
			check.Cut = &auditCut{No: c.No, At: c.At, Rows: c.Total, Policy: c.Policy, Days: c.Days, Signed: signed,
				hash: c.Hash, kept: c.Kept, digest: c.KeptDigest}
		}
		return nil
	})
}

// covers reports whether the retention may have deleted the row of a number.
func (c *auditCut) covers(no int64) bool { return c != nil && no <= c.No }

// nextCut compares a link with the cut: the link at its end, and the rows that it kept.
func (c *auditCheck) nextCut(e auditEntry) {
	cut := c.Cut
	switch {
	case cut == nil:
		return
	case e.No > cut.No:
		c.endCut()
		return
	case e.No == cut.No && e.Hash != cut.hash:
		c.problem("the record of the cut names another hash for number %d", e.No)
	}
	if e.Row != nil && server.OutlivesAuditCut(e.Row.Object) {
		cut.seen++
		cut.seenDigest = server.KeptAudit(cut.seenDigest, e.No, e.Hash)
	}
}

// endCut compares the rows that the cut kept, once.
func (c *auditCheck) endCut() {
	cut := c.Cut
	if cut == nil || cut.compared {
		return
	}
	cut.compared = true
	if cut.seen != cut.kept || cut.seenDigest != cut.digest {
		c.problem("the cut at number %d kept %s, and these were changed or removed: now there %s %d", cut.No,
			cmdline.Count(int(cut.kept), "record"), map[bool]string{true: "is", false: "are"}[cut.seen == 1], cut.seen)
	}
	for no := range c.signed {
		if no < cut.No {
			delete(c.signed, no) // nothing is left to compare it with; the signed cut vouches for it
		}
	}
}

// text says what was cut and by which policy.
func (c *auditCut) text() string {
	policy := fmt.Sprintf("version %d of the retention policy", c.Policy)
	if c.Policy == 0 {
		policy = "the retention policy of the installation"
	}
	out := fmt.Sprintf("The retention deleted %s up to number %d on %s: %s keeps them for %s.",
		cmdline.Count(int(c.Rows), "record"), c.No, c.At.UTC().Format(time.RFC3339), policy, cmdline.Count(c.Days, "day"))
	if !c.Signed {
		out += " Whether dvt wrote that record was not checked: give --heads and --heads-key."
	}
	return out
}
