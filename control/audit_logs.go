package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// checkedEvents is the number of events after which a page of CheckAudit ends. The page finishes the seal that reaches
// the number. Seals are about 1,000 events apart.
const checkedEvents = 20_000

// sealedWithin is the time within which the projector seals an event of a run that ended. It leaves room for an outage
// of the bus.
const sealedWithin = 5 * time.Minute

// checkMissing names the objects that have an audit row and were removed. For example, without the newest version of a
// policy an older version is in force.
func (s *Audits) checkMissing(ctx context.Context, tenantID string, kind int, after string) (AuditCheckPage, error) {
	no, err := parseLinkNumber(after)
	if err != nil {
		return AuditCheckPage{}, err
	}
	links, err := s.store.AuditMissing(ctx, tenantID, no, CheckedObjects)
	if err != nil {
		return AuditCheckPage{}, err
	}
	if err := s.open(ctx, tenantID, links); err != nil {
		return AuditCheckPage{}, err
	}
	out := AuditCheckPage{Next: fmt.Sprintf("%d:", kind+1)}
	for _, l := range links {
		out.Checked++
		renamed, err := s.isRenamed(ctx, tenantID, l)
		if err != nil {
			return AuditCheckPage{}, err
		}
		if !renamed {
			out.Problems = append(out.Problems, fmt.Sprintf("%s was removed: %s created it by number %d of the audit",
				l.Row.Object, l.Row.Actor, l.No))
		}
	}
	if len(links) == CheckedObjects {
		out.Next = fmt.Sprintf("%d:%d", kind, links[len(links)-1].No)
	}
	return out, nil
}

// parseLinkNumber reads the number of a link from a cursor; "" gives 0. Error: CURSOR_INVALID.
func parseLinkNumber(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	no, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil || no < 1 {
		return 0, CursorInvalid()
	}
	return no, nil
}

// checkLogs compares the logs of runs with their seals, in the order of the tenant's chain. Each log is hashed from the
// seal before, so that all pages together read each sealed event once.
func (s *Audits) checkLogs(ctx context.Context, tenantID string, kind int, after string) (AuditCheckPage, error) {
	f := store.AuditFilter{TenantID: tenantID, Action: store.ActionSealLog, Outcome: "ACCEPTED", Limit: CheckedObjects}
	var err error
	if f.After, err = parseLinkNumber(after); err != nil {
		return AuditCheckPage{}, err
	}
	links, err := s.store.AuditLinks(ctx, f)
	if err != nil {
		return AuditCheckPage{}, err
	}
	heads, err := s.headsOf(ctx, links)
	if err != nil {
		return AuditCheckPage{}, err
	}
	var out AuditCheckPage
	var read int64
	for i, l := range links {
		problem, events, err := s.checkLog(ctx, l, heads)
		switch sealed := sealOf(l); {
		case errors.Is(err, store.ErrNotFound):
			problem = fmt.Sprintf("the run of the log %s was removed: run %s", sealed, l.Row.RunID)
		case isDamage(err):
			problem = fmt.Sprintf("the log of run %s, %s, cannot be read: %s", l.Row.RunID, sealed,
				run.Text(err.Error(), maxNamedFact))
		case err != nil:
			return AuditCheckPage{}, err
		}
		if out.Checked++; problem != "" {
			out.Problems = append(out.Problems, problem)
		}
		if read += events; read >= checkedEvents && i+1 < len(links) || i+1 == f.Limit {
			out.Next = fmt.Sprintf("%d:%d", kind, l.No)
			break
		}
	}
	return out, nil
}

// sealOf returns a clause that names the row of a seal.
func sealOf(l store.AuditLink) string {
	return fmt.Sprintf("that was sealed at %s (number %d of the audit)", l.Row.At.UTC().Format(time.RFC3339), l.No)
}

// checkLog returns a sentence that says how a log differs from its seal in l, "" when it does not, and how many events
// it hashed. store.ErrNotFound: the run was removed.
func (s *Audits) checkLog(ctx context.Context, l store.AuditLink, heads map[string]store.Head) (problem string,
	events int64, err error) {
	row := *l.Row
	seal, err := store.ParseLogSeal(row.Object, row.Digest)
	if err != nil || row.Object != store.LogSealObject(row.RunID, seal.Seq) {
		problem = fmt.Sprintf("audit row %s (number %d of the audit) names no log that dvt sealed", row.ID, l.No)
		return problem, 0, nil //nolint:nilerr // the row is what is wrong
	}
	if seal, err = s.opener.Resolve(ctx, s.store, row.TenantID, row.RunID, seal); err != nil {
		return "", 0, err
	}
	before, err := s.logs.LastLogSeal(ctx, row.TenantID, row.RunID, seal.Seq)
	if err == nil {
		before, err = s.opener.Resolve(ctx, s.store, row.TenantID, row.RunID, before)
	}
	if err != nil {
		return "", 0, err
	}
	events = int64(seal.Seq - before.Seq)
	now, err := store.LogHash(ctx, logsOf{s.logs, row.TenantID}, row.RunID, before, seal.Seq)
	switch {
	case errors.Is(err, store.ErrLogShort):
		return fmt.Sprintf("the log of run %s, %s, lacks events between %d and %d", row.RunID, sealOf(l), before.Seq+1,
			seal.Seq), events, nil
	case err != nil:
		return "", events, err
	case now.Hash != seal.Hash:
		return fmt.Sprintf("the log of run %s, %s, differs from its seal: an event between %d and %d was changed, or the "+
			"scope or plan of the run", row.RunID, sealOf(l), before.Seq+1, seal.Seq), events, nil
	}
	problem, err = s.checkUnsealed(ctx, l, seal, heads[row.RunID].Terminal)
	return problem, events, err
}

// logsOf reads the logs of a tenant's runs. A run that was moved to another tenant is named as removed, and its events
// did not change.
type logsOf struct {
	SealedLogs
	tenantID string
}

func (s logsOf) Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error) {
	events, err := s.SealedLogs.Events(ctx, runID, after, limit)
	events = slices.Clone(events)
	for i := range events {
		events[i].TenantID = s.tenantID
	}
	return events, err
}

// headsOf reads the heads of all runs whose logs a page of seals covers. A run that ends after this read counts as
// open. That is harmless: its last event is then newer than sealedWithin.
func (s *Audits) headsOf(ctx context.Context, links []store.AuditLink) (map[string]store.Head, error) {
	if len(links) == 0 {
		return nil, nil //nolint:nilnil // no run has a head
	}
	ids := make([]string, len(links))
	for i, l := range links {
		ids[i] = l.Row.RunID
	}
	slices.Sort(ids)
	heads, err := s.logs.Heads(ctx, slices.Compact(ids))
	return heads.ByRun, err
}

// checkUnsealed returns a problem when events follow the newest seal of a log, although the run had ended at that seal.
// The projector seals every event of a run that ended, so dvt did not write them.
func (s *Audits) checkUnsealed(ctx context.Context, l store.AuditLink, seal store.LogSeal, ended bool) (problem string,
	err error) {
	row := *l.Row
	newest, err := s.logs.LastLogSeal(ctx, row.TenantID, row.RunID, maxSeq)
	if err != nil || newest.Seq != seal.Seq {
		return "", err
	}
	next, err := s.logs.Events(ctx, row.RunID, seal.Seq, 1)
	if err != nil || len(next) == 0 || s.now().Sub(next[0].PersistedAt).Abs() < sealedWithin {
		return "", err
	}
	last, err := s.logs.Events(ctx, row.RunID, seal.Seq-1, 1)
	if err != nil || !ended && (len(last) == 0 || !last[0].Type.EndsRun()) {
		return "", err
	}
	return fmt.Sprintf("the log of run %s, %s, has events after its end at %d that dvt did not seal", row.RunID,
		sealOf(l), seal.Seq), nil
}

// maxSeq is larger than the seq of every event: seals have twelve digits.
const maxSeq run.Seq = 999_999_999_999
