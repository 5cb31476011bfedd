package control

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
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
	Oldest         time.Duration // how long the oldest waiting row waits; counted with Waiting
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
		if out.Waiting, out.Stray, err = s.cfg.Store.AuditLoose(ctx, p.TenantID); err == nil {
			out.Oldest, err = s.oldestUnlinked(ctx, p.TenantID)
		}
	}
	return out, translate(err)
}

// oldestUnlinked is how long the oldest row of a tenant waits for its link. It looks at the tenants with the longest
// waits only: beyond store.MaxPage of them the audit stands still for all.
func (s *Service) oldestUnlinked(ctx context.Context, tenantID string) (time.Duration, error) {
	backlog, err := s.cfg.Store.AuditBacklog(ctx, store.MaxPage)
	for _, b := range backlog {
		if b.TenantID == tenantID {
			return b.Waiting, err
		}
	}
	return 0, err
}

// AuditCheckPage is what one page of objects showed.
type AuditCheckPage struct {
	Checked  int      // objects
	Problems []string // in words, one for each object that no row accounts for
	Next     string   // cursor of the next page; "": there is none
}

// CheckAudit compares a page of the tenant's tokens, policies, settings and decisions with the audit rows that made
// them, then looks for objects that are gone, and compares the logs of runs with their seals. The operators' tenant has
// the objects of the installation beside its own. FORBIDDEN, CURSOR_INVALID.
func (s *Service) CheckAudit(ctx context.Context, p authz.Principal, after string) (AuditCheckPage, error) {
	if err := s.mayOperate(ctx, p, store.AuditRow{Action: string(authz.ReadAudit)}); err != nil {
		return AuditCheckPage{}, err
	}
	parts, kind, cursor := s.checkedParts(p.TenantID), 0, ""
	if after != "" {
		number, rest, ok := strings.Cut(after, ":")
		n, err := strconv.Atoi(number)
		if kind, cursor = n, rest; !ok || err != nil || n < 0 || n > len(parts)+1 {
			return AuditCheckPage{}, cursorInvalid()
		}
	}
	switch kind {
	case len(parts):
		return s.checkMissing(ctx, p.TenantID, kind, cursor)
	case len(parts) + 1:
		return s.checkLogs(ctx, p.TenantID, kind, cursor)
	}
	f := parts[kind]
	f.After, f.Limit = cursor, CheckedObjects
	objects, err := s.cfg.Store.AuditObjects(ctx, f)
	if err != nil {
		return AuditCheckPage{}, translate(err)
	}
	out := AuditCheckPage{Checked: len(objects)}
	for _, o := range objects {
		if problem := unaccounted(f.Kind, o); problem != "" {
			out.Problems = append(out.Problems, problem)
		}
	}
	switch {
	case len(objects) == f.Limit:
		out.Next = fmt.Sprintf("%d:%s", kind, objects[len(objects)-1].Cursor)
	default:
		out.Next = fmt.Sprintf("%d:", kind+1)
	}
	return out, nil
}

// CheckedObjects is how many objects one page of CheckAudit compares.
const CheckedObjects = 200

// checkedParts lists what CheckAudit goes through for a tenant.
func (s *Service) checkedParts(tenantID string) (out []store.AuditObjectFilter) {
	for _, kind := range store.AuditObjectKinds() {
		out = append(out, store.AuditObjectFilter{Kind: kind, TenantID: tenantID})
	}
	if tenantID == s.cfg.OperatorsTenant && tenantID != "" {
		out = append(out, store.AuditObjectFilter{Kind: store.AuditSetting})
	}
	return out
}

// unaccounted says why no row accounts for an object; "" when one does.
func unaccounted(kind store.AuditObjectKind, o store.AuditObject) string {
	name := string(kind) + " " + strings.TrimPrefix(o.Object, string(kind)+"/")
	whose := "the installation"
	if o.TenantID != "" {
		whose = "tenant " + o.TenantID
	}
	switch {
	case o.Made == "":
		return fmt.Sprintf("%s of %s has no row that created it", name, whose)
	case o.Made != o.Digest:
		return fmt.Sprintf("%s of %s is not as the row that created it recorded it", name, whose)
	case o.Revoked && !o.Revocation:
		return fmt.Sprintf("%s of %s was revoked, and no row says so", name, whose)
	case !o.Revoked && o.Revocation:
		return fmt.Sprintf("%s of %s is good although a row revoked it", name, whose)
	}
	return ""
}

// Times of LinkAudit: between two looks, and after one that failed.
const (
	linkEvery = time.Second
	linkRetry = 5 * time.Second
	// unlinkedAlert is how old the oldest row without a link may get before people are told.
	unlinkedAlert = 10 * time.Second
	// backlogTenants bounds the tenants that one look tells of.
	backlogTenants = 100
)

// auditMetrics count what the audit refused, linked and could not link.
type auditMetrics struct {
	denials  *prometheus.CounterVec
	failures prometheus.Counter
	unlinked prometheus.Gauge
}

// otherAction is the label of an action that is in no table.
const otherAction = "OTHER"

func newAuditMetrics(r prometheus.Registerer) *auditMetrics {
	register := promauto.With(r)
	m := &auditMetrics{
		denials: register.NewCounterVec(prometheus.CounterOpts{
			Name: "dvt_denials_total", Help: "Actions that were denied, by action. Rows of the audit stand for several.",
		}, []string{"action"}),
		failures: register.NewCounter(prometheus.CounterOpts{
			Name: "dvt_audit_link_failures_total", Help: "Rounds in which audit rows of some tenant could not be linked.",
		}),
		unlinked: register.NewGauge(prometheus.GaugeOpts{
			Name: "dvt_audit_unlinked_seconds", Help: "Age of the oldest audit row that waits for its link; 0 when none does.",
		}),
	}
	for action := range deniable() {
		m.denials.WithLabelValues(action)
	}
	return m
}

// deniable yields each action that may be denied, as dvt_denials_total names it.
func deniable() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, a := range authz.Actions() {
			if !yield(string(a)) {
				return
			}
		}
		for _, a := range []string{actionSignIn, actionRevokeToken, string(actionBreakGlass), otherAction} {
			if !yield(a) {
				return
			}
		}
	}
}

// denied counts a denial. The actions of deniable are the labels, and callers choose none of them.
func (m *auditMetrics) denied(action string) {
	for known := range deniable() {
		if known == action {
			m.denials.WithLabelValues(action).Inc()
			return
		}
	}
	m.denials.WithLabelValues(otherAction).Inc()
}

// LinkAudit links audit rows to the chains of their tenants, within about a second
// after they were committed, until ctx ends. Any number of servers may do it. A row that waits for
// longer than ten seconds raises AUDIT_UNLINKED.
func (s *Service) LinkAudit(ctx context.Context) error {
	for {
		wait := linkEvery
		switch n, err := s.cfg.Store.LinkAudit(ctx, store.MaxPage); {
		case err != nil && ctx.Err() == nil:
			s.auditing.failures.Inc()
			if !errors.Is(err, store.ErrUnavailable) {
				s.cfg.Logger.WarnContext(ctx, "audit rows were not linked", slog.Any("error", err))
			}
			wait = linkRetry
		case n == store.MaxPage:
			wait = 0
		}
		if err := s.lookAtBacklog(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
			s.cfg.Logger.WarnContext(ctx, "the backlog of the audit was not read", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// lookAtBacklog measures how long audit rows wait for their links, and raises an alert for each tenant whose rows wait
// for too long: one an hour for each tenant, whichever server saw it.
func (s *Service) lookAtBacklog(ctx context.Context) error {
	backlog, err := s.cfg.Store.AuditBacklog(ctx, backlogTenants)
	if err != nil {
		return err
	}
	var oldest time.Duration
	for _, b := range backlog {
		oldest = max(oldest, b.Waiting)
		if b.Waiting < unlinkedAlert {
			continue
		}
		hour := s.cfg.Now().UTC().Format("2006-01-02T15")
		if w, known := s.trails.add("unlinked/" + b.TenantID + "/" + hour); known && w.n > 1 {
			continue
		}
		note := fmt.Sprintf(
			"An audit row of %s has no link after %s. Look for \"audit rows were not linked\" in the log of servers with the "+
				"duty sweep.",
			b.Oldest.UTC().Format(time.RFC3339), b.Waiting.Round(time.Second))
		if err := s.raise(ctx, store.Alert{
			ID: sweepID(b.TenantID, hour, "audit_unlinked"), TenantID: b.TenantID, Level: store.AlertHigh,
			Code: run.CodeAuditUnlinked, Note: note, Actor: sweepActor,
		}); err != nil {
			return err
		}
		s.cfg.Logger.WarnContext(ctx, "audit rows wait for their links", slog.String("tenant", b.TenantID),
			slog.Duration("waiting", b.Waiting))
	}
	s.auditing.unlinked.Set(oldest.Seconds())
	return nil
}
