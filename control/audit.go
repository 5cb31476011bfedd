package control

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/store"
)

// AuditQuery asks for a page of the audit of the caller's tenant.
type AuditQuery struct {
	Filter store.AuditFilter // its TenantID, numbers and Limit are ignored
	First  int
	After  string // cursor: the number of the link before the page
	Loose  bool   // count the rows without a link, over the whole audit of the tenant
}

// AuditPage is a page of the tenant's chain of audit rows.
type AuditPage struct {
	Links   []store.AuditLink
	HasNext bool
	// Waiting rows were committed a moment ago and have no link yet. Stray ones never
	// get one: they did not come through dvt. Counted only when AuditQuery.Loose asks for it.
	Waiting, Stray int64
}

// AuditCursor is the cursor of a link.
func AuditCursor(l store.AuditLink) string { return strconv.FormatInt(l.No, 10) }

// Audit reads who did or was refused what (T208), newest first or from the first row
// on. It takes READ_AUDIT on the whole tenant. FORBIDDEN, CURSOR_INVALID.
func (s *Service) Audit(ctx context.Context, p authz.Principal, q AuditQuery) (AuditPage, error) {
	n, err := pageSize(q.First, 50)
	if err != nil {
		return AuditPage{}, err
	}
	if err := s.mayOperate(ctx, p, store.AuditRow{Action: string(authz.ReadAudit)}); err != nil {
		return AuditPage{}, err
	}
	f := q.Filter
	f.TenantID, f.After, f.Before, f.Limit = p.TenantID, 0, 0, n+1
	if q.After != "" {
		no, err := strconv.ParseInt(q.After, 10, 64)
		switch {
		case err != nil || no < 1:
			return AuditPage{}, cursorInvalid()
		case f.Newest:
			f.Before = no
		default:
			f.After = no
		}
	}
	links, err := s.cfg.Store.AuditLinks(ctx, f)
	if err != nil {
		return AuditPage{}, translate(err)
	}
	out := AuditPage{Links: links[:min(n, len(links))], HasNext: len(links) > n}
	if q.Loose {
		out.Waiting, out.Stray, err = s.cfg.Store.AuditLoose(ctx, p.TenantID)
	}
	return out, translate(err)
}

// Times of LinkAudit: between two looks, and after one that failed.
const (
	linkEvery = time.Second
	linkRetry = 5 * time.Second
)

// LinkAudit links audit rows to the chains of their tenants, within about a second
// after they were committed, until ctx ends. Any number of servers may do it.
func (s *Service) LinkAudit(ctx context.Context) error {
	for {
		wait := linkEvery
		switch n, err := s.cfg.Store.LinkAudit(ctx, store.MaxPage); {
		case err != nil && ctx.Err() == nil:
			if !errors.Is(err, store.ErrUnavailable) {
				s.cfg.Logger.WarnContext(ctx, "audit rows were not linked", slog.Any("error", err))
			}
			wait = linkRetry
		case n == store.MaxPage:
			wait = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}
