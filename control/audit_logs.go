package control

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// checkedEvents is how many events one page of CheckAudit hashes before it ends; the seal that reaches it is finished.
// Seals lie about 1,000 events apart.
const checkedEvents = 20_000

// checkLogs compares the logs of runs with their seals, in the order of the tenant's chain. Each log is hashed from the
// seal before, so all pages together read each sealed event once.
func (s *Service) checkLogs(ctx context.Context, tenantID string, kind int, after string) (AuditCheckPage, error) {
	f := store.AuditFilter{TenantID: tenantID, Action: store.ActionSealLog, Outcome: "ACCEPTED", Limit: CheckedObjects}
	if after != "" {
		no, err := strconv.ParseInt(after, 10, 64)
		if err != nil || no < 1 {
			return AuditCheckPage{}, cursorInvalid()
		}
		f.After = no
	}
	links, err := s.cfg.Store.AuditLinks(ctx, f)
	if err != nil {
		return AuditCheckPage{}, translate(err)
	}
	var out AuditCheckPage
	var read int64
	for i, l := range links {
		problem, events, err := s.checkLog(ctx, *l.Row)
		if err != nil {
			return AuditCheckPage{}, translate(err)
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
func (s *Service) checkLog(ctx context.Context, row store.AuditRow) (problem string, events int64, err error) {
	seal, err := store.ParseLogSeal(row.Object, row.Digest)
	if err != nil || row.Object != store.LogSealObject(row.RunID, seal.Seq) {
		return fmt.Sprintf("audit row %s names no log that dvt sealed", row.ID), 0, nil
	}
	before, err := s.cfg.Store.LastLogSeal(ctx, row.TenantID, row.RunID, seal.Seq)
	if err != nil {
		return "", 0, err
	}
	events = int64(seal.Seq - before.Seq)
	now, err := store.LogHash(ctx, s.cfg.Store, row.RunID, before, seal.Seq)
	switch sealed := row.At.UTC().Format(time.RFC3339); {
	case errors.Is(err, store.ErrLogShort):
		return fmt.Sprintf("the log of run %s lacks events between %d and %d, which were sealed at %s", row.RunID, before.Seq+1, seal.Seq, sealed), events, nil
	case err != nil:
		return "", 0, err
	case now.Hash != seal.Hash:
		return fmt.Sprintf("the log of run %s is not as it was sealed at %s: an event between %d and %d was changed",
			row.RunID, sealed, before.Seq+1, seal.Seq), events, nil
	}
	return "", events, nil
}
