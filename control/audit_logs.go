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

// checkedEvents is how many events one page of CheckAudit hashes before it ends; the seal that reaches it is finished.
// Seals lie about 1,000 events apart.
const checkedEvents = 20_000

// sealedWithin is how soon after an event the projector has sealed the log of a run that ended, with room for an outage
// of the bus.
const sealedWithin = 5 * time.Minute

// checkMissing names the objects that a row made and that are gone: an older version of a policy would be in force.
func (s *Audits) checkMissing(ctx context.Context, tenantID string, kind int, after string) (AuditCheckPage, error) {
	no, err := numberIn(after)
	if err != nil {
		return AuditCheckPage{}, err
	}
	links, err := s.store.AuditMissing(ctx, tenantID, no, CheckedObjects)
	if err != nil {
		return AuditCheckPage{}, Translate(err)
	}
	out := AuditCheckPage{Next: fmt.Sprintf("%d:", kind+1)}
	for _, l := range links {
		out.Problems = append(out.Problems, fmt.Sprintf("%s was removed: %s made it by number %d of the audit",
			l.Row.Object,
			l.Row.Actor, l.No))
		out.Checked++
	}
	if len(links) == CheckedObjects {
		out.Next = fmt.Sprintf("%d:%d", kind, links[len(links)-1].No)
	}
	return out, nil
}

// numberIn reads the number of a link from a cursor; "" is 0. CURSOR_INVALID.
func numberIn(cursor string) (int64, error) {
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
// seal before, so all pages together read each sealed event once.
func (s *Audits) checkLogs(ctx context.Context, tenantID string, kind int, after string) (AuditCheckPage, error) {
	f := store.AuditFilter{TenantID: tenantID, Action: store.ActionSealLog, Outcome: "ACCEPTED", Limit: CheckedObjects}
	var err error
	if f.After, err = numberIn(after); err != nil {
		return AuditCheckPage{}, err
	}
	links, err := s.store.AuditLinks(ctx, f)
	if err != nil {
		return AuditCheckPage{}, Translate(err)
	}
	heads, err := s.headsOf(ctx, links)
	if err != nil {
		return AuditCheckPage{}, Translate(err)
	}
	var out AuditCheckPage
	var read int64
	for i, l := range links {
		problem, events, err := s.checkLog(ctx, *l.Row, heads)
		if err != nil {
			return AuditCheckPage{}, Translate(err)
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

// checkLog says why a log is not as a row sealed it, "" when it is, and how many events that took.
func (s *Audits) checkLog(ctx context.Context, row store.AuditRow, heads map[string]store.Head) (problem string,
	events int64, err error) {
	seal, err := store.ParseLogSeal(row.Object, row.Digest)
	if err != nil || row.Object != store.LogSealObject(row.RunID, seal.Seq) { //nolint:nilerr // the row is what is wrong
		return fmt.Sprintf("audit row %s names no log that dvt sealed", row.ID), 0, nil
	}
	before, err := s.logs.LastLogSeal(ctx, row.TenantID, row.RunID, seal.Seq)
	if err != nil {
		return "", 0, err
	}
	events = int64(seal.Seq - before.Seq)
	now, err := store.LogHash(ctx, s.logs, row.RunID, before, seal.Seq)
	switch sealed := row.At.UTC().Format(time.RFC3339); {
	case errors.Is(err, store.ErrLogShort):
		return fmt.Sprintf("the log of run %s lacks events between %d and %d, which were sealed at %s", row.RunID,
			before.Seq+
				1, seal.Seq, sealed), events, nil
	case err != nil:
		return "", 0, err
	case now.Hash != seal.Hash:
		return fmt.Sprintf("the log of run %s is not as it was sealed at %s: an event between %d and %d was changed",
			row.RunID, sealed, before.Seq+1, seal.Seq), events, nil
	}
	problem, err = s.checkUnsealed(ctx, row, seal, heads[row.RunID].Terminal)
	return problem, events, err
}

// headsOf reads the heads of all runs whose logs a page of seals covers. A run that ends after this read counts as
// open: its last event is then newer than sealedWithin.
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

// checkUnsealed says whether events stand behind the newest seal of a log that the projector would have sealed: those
// of a run that had ended before.
func (s *Audits) checkUnsealed(ctx context.Context, row store.AuditRow, seal store.LogSeal, ended bool) (problem string,
	err error) {
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
	return fmt.Sprintf("the log of run %s has events after its end at %d that dvt did not seal", row.RunID, seal.Seq), nil
}

// maxSeq lies behind every event: seals have twelve digits.
const maxSeq run.Seq = 999_999_999_999
