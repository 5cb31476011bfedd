package control

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

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

// AuditStore reads the chains of audit rows.
type AuditStore interface {
	AuditLinks(ctx context.Context, f store.AuditFilter) ([]store.AuditLink, error)
	AuditLoose(ctx context.Context, tenantID string) (waiting, stray int64, err error)
	AuditBacklog(ctx context.Context, limit int) ([]store.AuditBacklog, error)
	AuditObjects(ctx context.Context, f store.AuditObjectFilter) ([]store.AuditObject, error)
	AuditMissing(ctx context.Context, tenantID string, after int64, limit int) ([]store.AuditLink, error)
}

// SealedLogs reads the logs of runs and the seals of those that ended.
type SealedLogs interface {
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
	Heads(ctx context.Context, runIDs []string) (store.Heads, error)
	LastLogSeal(ctx context.Context, tenantID, runID string, before run.Seq) (store.LogSeal, error)
}

// Audits reads and checks the audit of tenants.
type Audits struct {
	rights    *Rights
	store     AuditStore
	logs      SealedLogs
	operators string
	now       func() time.Time
}

// NewAudits makes Audits; operators is the tenant that has the objects of the installation, or "".
func NewAudits(r *Rights, s AuditStore, logs SealedLogs, operators string, now func() time.Time) *Audits {
	return &Audits{rights: r, store: s, logs: logs, operators: operators, now: now}
}

// Audit reads who did or was refused what (T208), newest first or from the first row
// on. It takes READ_AUDIT on the whole tenant. FORBIDDEN, CURSOR_INVALID.
func (s *Audits) Audit(ctx context.Context, p authz.Principal, q AuditQuery) (AuditPage, error) {
	n, err := PageSize(q.First, 50)
	if err != nil {
		return AuditPage{}, err
	}
	if err := s.rights.MayOperate(ctx, p, store.AuditRow{Action: string(authz.ReadAudit)}); err != nil {
		return AuditPage{}, err
	}
	f := q.Filter
	f.TenantID, f.After, f.Before, f.Limit = p.TenantID, 0, 0, n+1
	if q.After != "" {
		no, err := strconv.ParseInt(q.After, 10, 64)
		switch {
		case err != nil || no < 1:
			return AuditPage{}, CursorInvalid()
		case f.Newest:
			f.Before = no
		default:
			f.After = no
		}
	}
	links, err := s.store.AuditLinks(ctx, f)
	if err != nil {
		return AuditPage{}, Translate(err)
	}
	out := AuditPage{Links: links[:min(n, len(links))], HasNext: len(links) > n}
	if q.Loose {
		if out.Waiting, out.Stray, err = s.store.AuditLoose(ctx, p.TenantID); err == nil {
			out.Oldest, err = s.oldestUnlinked(ctx, p.TenantID)
		}
	}
	return out, Translate(err)
}

// oldestUnlinked is how long the oldest row of a tenant waits for its link. It looks at the tenants with the longest
// waits only: beyond store.MaxPage of them the audit stands still for all.
func (s *Audits) oldestUnlinked(ctx context.Context, tenantID string) (time.Duration, error) {
	backlog, err := s.store.AuditBacklog(ctx, store.MaxPage)
	for _, b := range backlog {
		if b.TenantID == tenantID {
			return b.Waiting, err
		}
	}
	return 0, err
}

// AuditCheckPage is what one page of objects showed.
type AuditCheckPage struct {
	Checked int // objects
	// Uncovered objects have a row of an earlier version, which recorded no digest. They are compared by what the row
	// names, and are no problem.
	Uncovered int
	Problems  []string // in words, one for each object that no row accounts for
	Next      string   // cursor of the next page; "": there is none
}

// CheckAudit compares a page of the tenant's tokens, policies, settings, decisions, runs and signals with the audit
// rows that made them, and the plans of runs with their digests. Then it looks for objects that are gone, and compares
// the logs of runs with their seals. The operators' tenant has the objects of the installation beside its own.
// FORBIDDEN, CURSOR_INVALID.
func (s *Audits) CheckAudit(ctx context.Context, p authz.Principal, after string) (AuditCheckPage, error) {
	if err := s.rights.MayOperate(ctx, p, store.AuditRow{Action: string(authz.ReadAudit)}); err != nil {
		return AuditCheckPage{}, err
	}
	parts, kind, cursor := s.checkedParts(p.TenantID), 0, ""
	if after != "" {
		number, rest, ok := strings.Cut(after, ":")
		n, err := strconv.Atoi(number)
		if kind, cursor = n, rest; !ok || err != nil || n < 0 || n > len(parts)+1 {
			return AuditCheckPage{}, CursorInvalid()
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
	if f.Kind == store.AuditRun {
		f.Limit = store.MaxCheckedRuns
	}
	objects, err := s.store.AuditObjects(ctx, f)
	if err != nil {
		return AuditCheckPage{}, Translate(err)
	}
	out := AuditCheckPage{Checked: len(objects)}
	for _, o := range objects {
		if problem := unaccounted(f.Kind, o); problem != "" {
			out.Problems = append(out.Problems, problem)
		} else if o.Uncovered {
			out.Uncovered++
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
func (s *Audits) checkedParts(tenantID string) (out []store.AuditObjectFilter) {
	for _, kind := range store.AuditObjectKinds() {
		out = append(out, store.AuditObjectFilter{Kind: kind, TenantID: tenantID})
	}
	if tenantID == s.operators && tenantID != "" {
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
	case o.Made == "" && !o.Uncovered:
		return fmt.Sprintf("%s of %s has no row that created it", name, whose)
	case len(o.Differences) > 0:
		return fmt.Sprintf("%s of %s is not as the row that created it recorded it: %s", name, whose,
			inWords(o.Differences))
	case o.Uncovered:
		return ""
	case o.Made != o.Digest && (kind == store.AuditRun || kind == store.AuditSignal):
		return fmt.Sprintf("%s of %s is not as the row that created it recorded it: its content has the digest %s, recorded "+
			"as %s", name, whose, o.Digest, o.Made)
	case o.Made != o.Digest:
		return fmt.Sprintf("%s of %s is not as the row that created it recorded it", name, whose)
	case o.Revoked && !o.Revocation:
		return fmt.Sprintf("%s of %s was revoked, and no row says so", name, whose)
	case !o.Revoked && o.Revocation:
		return fmt.Sprintf("%s of %s is good although a row revoked it", name, whose)
	}
	return ""
}

// maxNamedFact bounds each text of a difference in a problem, in bytes.
const maxNamedFact = 200

// inWords names each fact with both values.
func inWords(differences []store.AuditDifference) string {
	out := make([]string, len(differences))
	for i, d := range differences {
		out[i] = fmt.Sprintf("the %s is %q, recorded as %q", d.Fact, run.Text(d.Stored, maxNamedFact),
			run.Text(d.Recorded, maxNamedFact))
	}
	return strings.Join(out, "; ")
}
