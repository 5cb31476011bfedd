package retention

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/internal/dutycycle"
	"github.com/dvt-engine/dvt/store"
)

// CutSigner signs cuts of the audit with the key of its heads.
type CutSigner struct {
	Key          func() ed25519.PrivateKey
	Installation string // named in each cut
}

const (
	// cutRows bounds the links of one cut. A pass makes one.
	cutRows = 50_000
	// cutEvery is the least time between two cuts that are not full, because each of them adds a row.
	cutEvery  = 24 * time.Hour
	linkTries = 5
)

// cutAudit deletes the rows of the audit that are older than the policy says, from the beginning of the chain. It
// archives them, records the cut in the audit, and deletes only when the record is a part of the chain. A pass that
// dies is continued by the next one.
func (p *passOf) cutAudit(ctx context.Context) error {
	until, signer := before(p.now, p.days.Audit), p.w.cfg.Installed.Cuts
	if until.IsZero() || signer == nil {
		return nil
	}
	state, err := p.w.cfg.Store.AuditCut(ctx, p.tenant)
	if err != nil {
		return err
	}
	last, rowID, err := p.newestCut(ctx)
	if err != nil {
		return err
	}
	if last.No > state.No || last.No == state.No && state.No > 0 && state.EndedAt == nil {
		return p.carryOut(ctx, last, rowID)
	}
	if first, err := p.w.cfg.Store.PlanAuditCut(ctx, p.tenant, state.No, until, 1); err != nil || first.End == state.No {
		return err // nothing is old, and all links of a cut need not be read to know it
	}
	if err := dutycycle.Rest(ctx); err != nil {
		return err
	}
	plan, err := p.w.cfg.Store.PlanAuditCut(ctx, p.tenant, state.No, until, cutRows)
	rows := plan.End - state.No
	if err != nil || plan.Obstacle != "" || rows <= 0 || rows < cutRows && p.now.Sub(last.At) < cutEvery {
		return err
	}
	cut := store.AuditCut{Installation: signer.Installation, TenantID: p.tenant, No: plan.End,
		Hash: hex.EncodeToString(plan.Hash[:]), At: p.now.UTC(), Before: until.UTC(), Policy: p.version, Days: p.days.Audit}
	if rowID, err = p.recordCut(ctx, &cut, state.No); err != nil {
		return err
	}
	return p.carryOut(ctx, cut, rowID)
}

// newestCut returns the newest cut of the tenant that this installation signed, and the id of its row; the zero value
// when there is none. Somebody with the password of a server can write rows that look like one.
func (p *passOf) newestCut(ctx context.Context) (store.AuditCut, string, error) {
	f := store.AuditFilter{TenantID: p.tenant, Action: store.ActionCutAudit, Outcome: "ACCEPTED", Newest: true,
		Limit: store.MaxPage}
	key, ok := p.w.cfg.Installed.Cuts.Key().Public().(ed25519.PublicKey)
	for ok {
		links, err := p.w.cfg.Store.AuditLinks(ctx, f)
		if err != nil {
			return store.AuditCut{}, "", err
		}
		for _, l := range links {
			c, err := store.DecodeAuditCut(l.Row.Detail)
			if err == nil && c.TenantID == p.tenant && l.Row.Object == store.AuditCutObject(c.No) && c.IsSignedBy(key) {
				return c, l.ID, nil
			}
			f.Before = l.No
		}
		ok = len(links) == f.Limit
	}
	return store.AuditCut{}, "", nil
}

// recordCut archives the rows above after that a cut deletes, if the tenant archives its runs, and writes the row that
// records the cut. It returns the id of the row when the row is a part of the chain.
func (p *passOf) recordCut(ctx context.Context, cut *store.AuditCut, after int64) (rowID string, err error) {
	kept, err := p.keptAudit(ctx, cut, after)
	if err != nil {
		return "", err
	}
	cut.Rows = cut.No - after - kept
	if p.days.ArchiveRuns > 0 && cut.Rows > 0 {
		if cut.Location, cut.SHA256, err = p.w.cfg.Archive.WriteAudit(ctx, p.tenant, after, cut.No); err != nil {
			return "", err
		}
	}
	doc, err := cut.Encode(p.w.cfg.Installed.Cuts.Key())
	if err != nil {
		return "", err
	}
	row := store.AuditRow{ID: uuid.NewString(), TenantID: p.tenant, Actor: control.EngineActor,
		Action: store.ActionCutAudit, Outcome: "ACCEPTED", Object: store.AuditCutObject(cut.No), Digest: cut.Hash,
		Detail: doc, Reason: fmt.Sprintf("The retention keeps the audit for %s.", control.Plural(cut.Days, "day", "days"))}
	if err := p.w.cfg.Store.Audit(ctx, row); err != nil {
		return "", err
	}
	for range linkTries {
		if _, err := p.w.cfg.Store.LinkAudit(ctx, store.MaxPage); err != nil {
			return "", err
		}
		found, err := p.w.cfg.Store.AuditLinks(ctx, store.AuditFilter{TenantID: p.tenant, After: cut.No,
			Object: row.Object, Limit: store.MaxPage})
		if err != nil {
			return "", err
		}
		for _, l := range found {
			if l.ID == row.ID {
				return row.ID, nil
			}
		}
		sleep(ctx, time.Second) // another server links this tenant
	}
	return "", errUnlinked
}

// errUnlinked says that the record of a cut has no link yet. The next pass carries the cut out.
var errUnlinked = errors.New("retention: the record of the cut waits for its link")

// keptAudit sets the count and the digest of all links that stay after a cut, and returns how many of them are above
// after.
func (p *passOf) keptAudit(ctx context.Context, cut *store.AuditCut, after int64) (added int64, err error) {
	f := store.AuditFilter{TenantID: p.tenant, Before: cut.No + 1, Limit: store.MaxPage}
	for {
		links, err := p.w.cfg.Store.AuditLinks(ctx, f)
		if err != nil {
			return 0, err
		}
		for _, l := range links {
			f.After = l.No
			if !store.OutlivesCut(l.Row.Object) {
				continue
			}
			cut.Kept++
			cut.KeptDigest = store.KeptAudit(cut.KeptDigest, l.No, hex.EncodeToString(l.Hash[:]))
			if l.No > after {
				added++
			}
		}
		if len(links) < f.Limit {
			cut.Total = cut.No - cut.Kept
			return added, nil
		}
	}
}

// carryOut deletes what a recorded cut cuts, in batches. It reads the archive once more before, because hours may have
// passed since it was written.
func (p *passOf) carryOut(ctx context.Context, cut store.AuditCut, rowID string) error {
	if cut.Location != "" {
		if err := p.w.cfg.Archive.CheckAudit(ctx, cut.Location, cut.SHA256); err != nil {
			return err
		}
	}
	for at := int64(0); at < cut.No; {
		next, err := p.w.cfg.Store.CutAudit(ctx, p.tenant, rowID, at, pageRows)
		if store.ObstacleOf(err) != "" {
			return nil // a hold or an erasure came; the next pass continues when it has ended
		}
		if errors.Is(err, store.ErrConflict) {
			back, readErr := p.runIsBack(ctx, at, cut.No)
			if readErr == nil && back {
				p.out.Waiting++ // the next pass continues when the run is deleted
				return nil
			}
			return errors.Join(err, readErr)
		}
		if err != nil {
			return err
		}
		at = next
		if err := dutycycle.Rest(ctx); err != nil {
			return err
		}
		if err := p.w.turn(ctx); err != nil {
			return err
		}
	}
	p.out.CutRecords += cut.Rows
	return nil
}

// runIsBack reports whether one of the next rows of a cut, above after, speaks of a run in the store: an operator has
// imported an old run since the cut was recorded.
func (p *passOf) runIsBack(ctx context.Context, after, to int64) (bool, error) {
	links, err := p.w.cfg.Store.AuditLinks(ctx, store.AuditFilter{TenantID: p.tenant, After: after, Before: to + 1,
		Limit: pageRows})
	if err != nil {
		return false, err
	}
	var runs []string
	for _, l := range links {
		if l.Row != nil && l.Row.RunID != "" {
			runs = append(runs, l.Row.RunID)
		}
	}
	if len(runs) == 0 {
		return false, nil
	}
	slices.Sort(runs)
	heads, err := p.w.cfg.Store.Heads(ctx, slices.Compact(runs))
	return len(heads.ByRun) > 0, err
}

// auditWarnings says what the next pass deletes of the audit under the days d.
func (s *Editor) auditWarnings(ctx context.Context, tenantID string, old, d Days) (warnings []string, err error) {
	until := before(s.now(), d.Audit)
	if until.IsZero() {
		return nil, nil
	}
	if s.installed.Cuts == nil {
		if !isShorter(old.Audit, d.Audit) {
			return nil, nil
		}
		return []string{"The audit is kept for ever, because the servers do not sign it. Ask the operators to set " +
			"audit-heads."}, nil
	}
	state, err := s.store.AuditCut(ctx, tenantID)
	if err != nil {
		return nil, err
	}
	plan, err := s.store.PlanAuditCut(ctx, tenantID, state.No, until, estimateLimit)
	if err != nil || plan.End <= state.No {
		return nil, err
	}
	words := control.Plural(int(plan.End-state.No), "record", "records")
	if plan.End-state.No == estimateLimit {
		words = "at least " + words
	}
	switch plan.Obstacle {
	case "":
		return []string{fmt.Sprintf("The next pass deletes %s of the audit for good. Records of tokens, policies and "+
			"settings stay.", words)}, nil
	case store.ObstacleErasure:
		return []string{fmt.Sprintf("Of the audit %s stay until the open erasure has ended.", words)}, nil
	}
	return []string{fmt.Sprintf("Of the audit %s stay while a person is on legal hold.", words)}, nil
}

// checkAudit says why a number of days for the audit is refused; "" when it is not.
func checkAudit(days *int) string {
	least := int(store.MinAuditAge / (24 * time.Hour))
	if days != nil && *days != 0 && (*days < least || *days > maxDays) {
		return fmt.Sprintf("must be 0 or from %d to %d days", least, maxDays)
	}
	return ""
}
