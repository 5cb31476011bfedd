package control

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/subject"
)

// AuditQuery asks for a page of the audit of the caller's tenant. The texts match as people type them: Actor and
// Action are parts of the names in any case, "retry step" stands for RETRY_STEP, and Run is an id or its beginning.
type AuditQuery struct {
	Filter             store.AuditFilter // TenantID, Actor, Action, RunID, After, Before and Limit are ignored
	Actor, Action, Run string
	First              int
	After              string // cursor: the number of the link before the page
	Loose              bool   // count the rows without a link, over the whole audit of the tenant
}

// AuditPage is a page of the tenant's chain of audit rows.
type AuditPage struct {
	Links   []store.AuditLink
	HasNext bool
	// Waiting counts the rows that were committed a moment ago and have no link yet. Stray counts the rows that never
	// get one, because they were not written by dvt. Both are counted only when AuditQuery.Loose asks for it.
	Waiting, Stray int64
	Oldest         time.Duration // how long the oldest waiting row waits; counted with Waiting
	// Next is the cursor of the next page when HasNext.
	Next string
	// SearchedFrom and SearchedTo are the numbers that a page with a filter searched; 0 without a filter.
	SearchedFrom, SearchedTo int64
}

// AuditSearchRows bounds the links that one page with a filter searches, because most filters have no index. A page may
// have no link and yet a next page.
const AuditSearchRows = 50_000

// MaxAuditText bounds each text of an AuditQuery, in bytes.
const MaxAuditText = 200

// AuditCursor returns the cursor of a link.
func AuditCursor(l store.AuditLink) string { return strconv.FormatInt(l.No, 10) }

// AuditStore reads the chains of audit rows.
type AuditStore interface {
	AuditLinks(ctx context.Context, f store.AuditFilter) ([]store.AuditLink, error)
	CountUnlinked(ctx context.Context, tenantID string) (waiting, stray int64, err error)
	AuditBacklog(ctx context.Context, limit int) ([]store.AuditBacklog, error)
	AuditObjects(ctx context.Context, f store.AuditObjectFilter) ([]store.AuditObject, error)
	AuditMissing(ctx context.Context, tenantID string, after int64, limit int) ([]store.AuditLink, error)
	store.SubjectKeys
}

// RowOpener opens the sealed texts of audit rows, and finds the stored texts of actors by a part of their names.
type RowOpener interface {
	Open(ctx context.Context, keys store.SubjectKeys, tenantID string, rows []*store.AuditRow) error
	StoredActors(ctx context.Context, keys store.SubjectKeys, tenantID, part string) ([]string, error)
	// Rewritten lists what erasures made of an object, and proved by the keys of the installation.
	Rewritten(ctx context.Context, links subject.Links, tenantID, object string) ([]store.Rewrite, error)
	// Resolve replaces the hash of a seal by that of the log after the newest erasure that rewrote it.
	Resolve(ctx context.Context, links subject.Links, tenantID, runID string, seal store.LogSeal) (store.LogSeal, error)
}

// SealedLogs reads the logs of runs, their heads, and their seals.
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
	opener    RowOpener
	operators string
	now       func() time.Time
}

// NewAudits makes Audits. operators is the tenant that also checks the objects of the installation, or "".
func NewAudits(r *Rights, s AuditStore, logs SealedLogs, opener RowOpener, operators string,
	now func() time.Time) *Audits {
	return &Audits{rights: r, store: s, logs: logs, opener: opener, operators: operators, now: now}
}

// Audit reads who did what and whose requests were refused (contract T208), in the order that the filter asks for. The
// caller needs READ_AUDIT on the whole tenant. Errors: FORBIDDEN, CURSOR_INVALID, BAD_USER_INPUT.
func (s *Audits) Audit(ctx context.Context, p authz.Principal, q AuditQuery) (AuditPage, error) {
	n, err := PageSize(q.First, 50)
	if err != nil {
		return AuditPage{}, err
	}
	if err := s.rights.MayOperate(ctx, p, store.AuditRow{Action: string(authz.ReadAudit)}); err != nil {
		return AuditPage{}, err
	}
	f, err := q.filter(p.TenantID)
	if err != nil {
		return AuditPage{}, err
	}
	f.Limit = n + 1
	if f.StoredActors, err = s.opener.StoredActors(ctx, s.store, p.TenantID, f.ActorPart); err != nil {
		return AuditPage{}, Translate(err)
	}
	out := AuditPage{}
	if end, err := s.bound(ctx, &f, &out); err != nil || end {
		return out, Translate(err)
	}
	links, err := s.store.AuditLinks(ctx, f)
	if err != nil {
		return AuditPage{}, Translate(err)
	}
	out.Links = links[:min(n, len(links))]
	if err := s.open(ctx, p.TenantID, out.Links); err != nil {
		return AuditPage{}, Translate(err)
	}
	if len(links) > n {
		last := links[n-1]
		out.HasNext, out.Next = true, AuditCursor(last)
		if out.SearchedTo > 0 && f.Newest {
			out.SearchedFrom = last.No
		} else if out.SearchedTo > 0 {
			out.SearchedTo = last.No
		}
	}
	if q.Loose {
		if out.Waiting, out.Stray, err = s.store.CountUnlinked(ctx, p.TenantID); err == nil {
			out.Oldest, err = s.oldestUnlinked(ctx, p.TenantID)
		}
	}
	return out, Translate(err)
}

// open opens the sealed texts of the rows of links.
func (s *Audits) open(ctx context.Context, tenantID string, links []store.AuditLink) error {
	var rows []*store.AuditRow
	for _, l := range links {
		if l.Row != nil {
			rows = append(rows, l.Row)
		}
	}
	return s.opener.Open(ctx, s.store, tenantID, rows)
}

// filter returns the filter of the store for a query.
func (q AuditQuery) filter(tenantID string) (store.AuditFilter, error) {
	f := q.Filter
	f.TenantID, f.Actor, f.Action, f.RunID, f.After, f.Before = tenantID, "", "", "", 0, 0
	var vs []plan.Violation
	for _, t := range []struct{ path, text string }{{"actor", q.Actor}, {"action", q.Action}, {"runId", q.Run},
		{"requestId", q.Filter.RequestID}} {
		if len(t.text) > MaxAuditText {
			vs = append(vs, plan.Violation{Path: "filter." + t.path, Code: "RANGE",
				Message: fmt.Sprintf("must have at most %d bytes", MaxAuditText)})
		}
	}
	if len(vs) > 0 {
		return f, BadInput(vs)
	}
	f.ActorPart = strings.ToLower(strings.TrimSpace(q.Actor))
	f.ActionPart = strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(strings.TrimSpace(q.Action)))
	if id := strings.ToLower(strings.TrimSpace(q.Run)); len(id) == len(uuid.Nil.String()) {
		f.RunID = id // has an index
	} else {
		f.RunPrefix = id
	}
	if q.After == "" {
		return f, nil
	}
	no, err := strconv.ParseInt(q.After, 10, 64)
	switch {
	case err != nil || no < 1:
		return f, CursorInvalid()
	case f.Newest:
		f.Before = no
	default:
		f.After = no
	}
	return f, nil
}

// bound limits the numbers that a filter searches to AuditSearchRows from its cursor on, and writes into out what is
// searched and where the next page begins. It returns true when there is nothing to search. A filter without
// restrictions is not bounded: its page ends after Limit links.
func (s *Audits) bound(ctx context.Context, f *store.AuditFilter, out *AuditPage) (bool, error) {
	if f.ActorPart == "" && f.ActionPart == "" && f.RunPrefix == "" && f.Outcome == "" && f.RequestID == "" &&
		f.From.IsZero() && f.To.IsZero() {
		return false, nil
	}
	newest, err := s.store.AuditLinks(ctx, store.AuditFilter{TenantID: f.TenantID, Before: store.MaxAuditNo,
		Newest: true, WithMissingRows: true, Limit: 1})
	if err != nil || len(newest) == 0 {
		return true, err
	}
	head := newest[0].No
	if f.Newest {
		if f.Before == 0 || f.Before > head {
			f.Before = head + 1
		}
		f.After = max(f.Before-1-AuditSearchRows, 0)
		out.HasNext, out.Next = f.After > 0, strconv.FormatInt(f.After+1, 10)
	} else {
		f.Before = min(f.After+AuditSearchRows, head) + 1
		out.HasNext, out.Next = f.Before <= head, strconv.FormatInt(f.Before-1, 10)
	}
	out.SearchedFrom, out.SearchedTo = f.After+1, f.Before-1
	return out.SearchedTo < out.SearchedFrom, nil
}

// oldestUnlinked returns how long the oldest row of a tenant has waited for its link. It reads only the store.MaxPage
// tenants with the longest waits: when more tenants wait, the linking has stopped for all of them.
func (s *Audits) oldestUnlinked(ctx context.Context, tenantID string) (time.Duration, error) {
	backlog, err := s.store.AuditBacklog(ctx, store.MaxPage)
	for _, b := range backlog {
		if b.TenantID == tenantID {
			return b.Waiting, err
		}
	}
	return 0, err
}

// AuditCheckPage is the result of one page of CheckAudit.
type AuditCheckPage struct {
	Checked  int      // objects
	Problems []string // a sentence for each object that does not match its audit row
	Next     string   // cursor of the next page; "" after the last page
}

// CheckAudit compares a page of the tenant's tokens, policies, settings, decisions, runs and signals with the audit
// rows that created them, and the plans of runs with their digests. The last pages look for objects that were removed,
// and compare the logs of runs with their seals. The operators' tenant also checks the objects of the installation.
// A row that cannot be read is a problem, too. The check then goes on behind that row where the store can tell which
// row it is, otherwise with the next kind of objects. after is Next of the page before, "" for the first page. Errors:
// FORBIDDEN, CURSOR_INVALID, and those of a store that does not answer.
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
	var page AuditCheckPage
	var err error
	what := "removed objects"
	switch kind {
	case len(parts):
		page, err = s.checkMissing(ctx, p.TenantID, kind, cursor)
	case len(parts) + 1:
		what = "logs"
		page, err = s.checkLogs(ctx, p.TenantID, kind, cursor)
	default:
		what = string(parts[kind].Kind) + "s"
		page, err = s.checkObjects(ctx, parts[kind], kind, cursor)
	}
	if errors.Is(err, store.ErrCursor) {
		return AuditCheckPage{}, CursorInvalid()
	}
	if isDamage(err) {
		page = AuditCheckPage{Checked: 1, Problems: []string{stoppedProblem(what, cursor, err)}}
		if kind <= len(parts) {
			page.Next = fmt.Sprintf("%d:", kind+1)
		}
		return page, nil
	}
	return page, Translate(err)
}

// isDamage reports whether err says that the store answers and cannot read a row.
func isDamage(err error) bool {
	if err == nil {
		return false
	}
	var own *Error
	return errors.As(Translate(err), &own) && (own.Code == run.CodeInternal || errors.Is(err, store.ErrNotFound))
}

// stoppedProblem returns the sentence for a page that cannot be read. The objects behind it are not compared.
func stoppedProblem(what, cursor string, err error) string {
	where := "its start"
	if cursor != "" {
		where = run.Text(cursor, maxNamedFact)
	}
	return fmt.Sprintf("the check of %s stopped behind %s, because a row cannot be read: %s", what, where,
		run.Text(err.Error(), maxNamedFact))
}

// checkObjects compares a page of objects of one kind with their rows.
func (s *Audits) checkObjects(ctx context.Context, f store.AuditObjectFilter, kind int, after string) (AuditCheckPage,
	error) {
	f.After, f.Limit = after, CheckedObjects
	if f.Kind == store.AuditRun {
		f.Limit = store.MaxCheckedRuns
	}
	objects, err := s.store.AuditObjects(ctx, f)
	if err != nil {
		return AuditCheckPage{}, err
	}
	out := AuditCheckPage{Checked: len(objects), Next: fmt.Sprintf("%d:", kind+1)}
	for _, o := range objects {
		problem := describeMismatch(f.Kind, o)
		if problem != "" {
			if o, err = s.withoutName(ctx, f.TenantID, o); err != nil {
				return AuditCheckPage{}, err
			}
			problem = describeMismatch(f.Kind, o)
		}
		if problem != "" {
			out.Problems = append(out.Problems, problem)
		}
	}
	if len(objects) == f.Limit {
		out.Next = fmt.Sprintf("%d:%s", kind, objects[len(objects)-1].Cursor)
	}
	return out, nil
}

// CheckedObjects is the number of objects that one page of CheckAudit compares.
const CheckedObjects = 200

// checkedParts lists the kinds of objects that CheckAudit compares for a tenant.
func (s *Audits) checkedParts(tenantID string) (out []store.AuditObjectFilter) {
	for _, kind := range store.AuditObjectKinds() {
		out = append(out, store.AuditObjectFilter{Kind: kind, TenantID: tenantID, OperatorsTenant: s.operators})
	}
	if tenantID == s.operators && tenantID != "" {
		out = append(out, store.AuditObjectFilter{Kind: store.AuditSetting, OperatorsTenant: s.operators})
	}
	return out
}

// describeMismatch returns a sentence that says why an object does not match its audit row, "" when it does.
func describeMismatch(kind store.AuditObjectKind, o store.AuditObject) string {
	name := string(kind) + " " + strings.TrimPrefix(o.Object, string(kind)+"/")
	whose := "the installation"
	if o.TenantID != "" {
		whose = "tenant " + o.TenantID
	}
	row := "the row that created it"
	if o.MadeNo > 0 {
		row = fmt.Sprintf("the row that created it (number %d of the audit)", o.MadeNo)
	}
	differs := fmt.Sprintf("%s of %s differs from %s", name, whose, row)
	switch {
	case o.Made == "":
		return fmt.Sprintf("%s of %s has no row that created it", name, whose)
	case len(o.Differences) > 0:
		return differs + ": " + describeDifferences(o.Differences)
	case o.Made != o.Digest && (kind == store.AuditRun || kind == store.AuditSignal):
		return fmt.Sprintf("%s: its content has the digest %s, recorded as %s", differs, o.Digest, o.Made)
	case o.Made != o.Digest:
		return differs
	case o.Revoked && !o.Revocation:
		return fmt.Sprintf("%s of %s, see %s, was revoked, but no row says so", name, whose, row)
	case !o.Revoked && o.Revocation:
		return fmt.Sprintf("%s of %s, see %s, is still valid although a row says that it was revoked", name, whose, row)
	}
	return ""
}

// maxNamedFact bounds each value of a difference in a problem, in bytes.
const maxNamedFact = 200

// describeDifferences lists each difference with the stored and the recorded value.
func describeDifferences(differences []store.AuditDifference) string {
	out := make([]string, len(differences))
	for i, d := range differences {
		if d.Note != "" {
			out[i] = run.Text(d.Note, maxNamedFact)
			continue
		}
		out[i] = fmt.Sprintf("the %s is %q, recorded as %q", d.Fact, run.Text(d.Stored, maxNamedFact),
			run.Text(d.Recorded, maxNamedFact))
	}
	return strings.Join(out, "; ")
}
