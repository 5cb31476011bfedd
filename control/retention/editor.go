package retention

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// ActionSetRetention is the action in audit rows about the policy. It needs the right SET_POLICY, because the policy
// decides what dvt deletes by itself.
const ActionSetRetention = "SET_RETENTION"

// estimateLimit bounds the runs of each status that a preview counts.
const estimateLimit = 20_000

// PolicyStore reads and writes the versions of policies, and counts what they would delete.
type PolicyStore interface {
	PutSetting(ctx context.Context, s store.StoredSetting, audit store.AuditRow) (store.StoredSetting, error)
	SettingHistory(ctx context.Context, kind store.SettingKind, tenantID string, before int64,
		limit int) ([]store.StoredSetting, error)
	EstimateEnded(ctx context.Context, tenantID string, before time.Time, limit int) (store.RetentionEstimate, error)
	EstimateArchived(ctx context.Context, tenantID string, before time.Time, limit int) (store.RetentionEstimate, error)
	RetentionPass(ctx context.Context, tenantID string) (json.RawMessage, error)
	store.AuditCuts
}

// Editor reads and changes the policies of tenants. It is safe for concurrent use.
type Editor struct {
	rights    *control.Rights
	store     PolicyStore
	installed Installation
	now       func() time.Time
}

// NewEditor makes an Editor.
func NewEditor(rights *control.Rights, s PolicyStore, installed Installation, now func() time.Time) *Editor {
	return &Editor{rights: rights, store: s, installed: installed, now: now}
}

// Policy is one version of the policy of the caller's tenant.
type Policy struct {
	Version   int64 // 0: the tenant set nothing
	Document  Document
	Effective Days
	Actor     string
	Reason    string
	RequestID string
	At        time.Time // zero for version 0
	Changed   []string  // as control.ChangedLines; RetentionHistory and SetRetention fill it in
	// LastPass is what the last pass did; only RetentionPolicy fills it in. Nil before the first pass.
	LastPass *Pass
}

// SetRetention asks to replace the policy.
type SetRetention struct {
	RequestID       string
	ExpectedVersion int64 // the version that Document was made from
	Document        Document
	Reason          string
}

// PolicyPage is a page of versions, newest first.
type PolicyPage struct {
	Policies []Policy
	HasNext  bool
}

// Effect is what a policy would do now.
type Effect struct {
	Changed  []string
	Warnings []string
	Archive  store.RetentionEstimate // runs that would be archived
	Delete   store.RetentionEstimate // runs that would be deleted for good, from the store and from the archive
}

// RetentionPolicy reads the newest version. Error: FORBIDDEN without READ_POLICY on the whole tenant.
func (s *Editor) RetentionPolicy(ctx context.Context, p authz.Principal) (Policy, error) {
	if err := s.rights.MayOperate(ctx, p, store.AuditRow{Action: string(authz.ReadPolicy)}); err != nil {
		return Policy{}, err
	}
	out, err := s.newest(ctx, p.TenantID)
	if err != nil {
		return Policy{}, control.Translate(err)
	}
	doc, err := s.store.RetentionPass(ctx, p.TenantID)
	if errors.Is(err, store.ErrNotFound) {
		return out, nil
	}
	if err == nil {
		err = json.Unmarshal(doc, &out.LastPass)
	}
	return out, control.Translate(err)
}

// newest reads the newest version of a tenant.
func (s *Editor) newest(ctx context.Context, tenantID string) (Policy, error) {
	rows, err := s.store.SettingHistory(ctx, store.SettingRetention, tenantID, 0, 1)
	if err != nil {
		return Policy{}, err
	}
	if len(rows) == 0 {
		return Policy{Effective: s.installed.effective(Document{})}, nil
	}
	return s.version(rows[0])
}

func (s *Editor) version(v store.StoredSetting) (Policy, error) {
	out := Policy{Version: v.Version, Actor: v.Actor, Reason: v.Reason, RequestID: v.RequestID, At: v.At}
	if err := json.Unmarshal(v.Doc, &out.Document); err != nil {
		return out, fmt.Errorf("control: retention %d of %s: %w", v.Version, v.TenantID, err)
	}
	out.Effective = s.installed.effective(out.Document)
	return out, nil
}

// RetentionHistory reads the versions below before, or from the newest when before is 0, newest first. Errors:
// FORBIDDEN, BAD_USER_INPUT.
func (s *Editor) RetentionHistory(ctx context.Context, p authz.Principal, first int, before int64) (PolicyPage, error) {
	n, err := control.PageSize(first, 20)
	if err != nil {
		return PolicyPage{}, err
	}
	if err := s.rights.MayOperate(ctx, p, store.AuditRow{Action: string(authz.ReadPolicy)}); err != nil {
		return PolicyPage{}, err
	}
	rows, err := s.store.SettingHistory(ctx, store.SettingRetention, p.TenantID, before, n+1)
	if err != nil {
		return PolicyPage{}, control.Translate(err)
	}
	all, _, err := control.PageOf(rows, len(rows), s.version)
	if err != nil {
		return PolicyPage{}, control.Translate(err)
	}
	for i := range all {
		var older Document
		if i+1 < len(all) {
			older = all[i+1].Document
		}
		all[i].Changed = control.ChangedLines(s.installed.lines(older), s.installed.lines(all[i].Document))
	}
	return PolicyPage{Policies: all[:min(n, len(all))], HasNext: len(all) > n}, nil
}

// PreviewRetention returns what doc would do as the next policy of the caller's tenant. It changes nothing. Errors:
// FORBIDDEN without READ_POLICY on the whole tenant; BAD_USER_INPUT with all violations, as SetRetention.
func (s *Editor) PreviewRetention(ctx context.Context, p authz.Principal, doc Document) (Effect, error) {
	now, err := s.RetentionPolicy(ctx, p)
	if err != nil {
		return Effect{}, err
	}
	if vs := s.installed.check(doc); len(vs) > 0 {
		return Effect{}, control.BadInput(vs)
	}
	out, err := s.effect(ctx, p.TenantID, now.Document, doc)
	return out, control.Translate(err)
}

// effect compares two valid documents and counts what the second one would archive and delete now.
func (s *Editor) effect(ctx context.Context, tenantID string, old, doc Document) (out Effect, err error) {
	out.Changed = control.ChangedLines(s.installed.lines(old), s.installed.lines(doc))
	d := s.installed.effective(doc)
	warn := func(format string, args ...any) { out.Warnings = append(out.Warnings, fmt.Sprintf(format, args...)) }
	if at := before(s.now(), d.ArchiveRuns); !at.IsZero() {
		if out.Archive, err = s.store.EstimateEnded(ctx, tenantID, at, estimateLimit); err != nil {
			return out, err
		}
	}
	if e := out.Archive; e.Runs > 0 {
		warn("The next pass moves %s of about %s into the archive.", atLeast(e), bytesText(e.Bytes))
	}
	archived := store.RetentionEstimate{}
	if at := before(s.now(), d.DeleteArchive); !at.IsZero() {
		if out.Delete, err = s.store.EstimateEnded(ctx, tenantID, at, estimateLimit); err != nil {
			return out, err
		}
		if archived, err = s.store.EstimateArchived(ctx, tenantID, at, estimateLimit); err != nil {
			return out, err
		}
	}
	if e := out.Delete; e.Runs > 0 {
		warn("Of these it deletes %s for good.", atLeast(e))
	}
	if archived.Runs > 0 {
		warn("The next pass deletes %s of %s in the archive for good.", atLeast(archived), bytesText(archived.Bytes))
	}
	out.Delete = sum(out.Delete, archived)
	if held := out.Archive.Held + archived.Held; held > 0 {
		warn("%s on hold and stay.", control.Plural(int(held), "run is", "runs are"))
	}
	lost, err := s.shortened(ctx, tenantID, s.installed.effective(old), d)
	out.Warnings = append(out.Warnings, lost...)
	if err != nil {
		return out, err
	}
	records, err := s.auditWarnings(ctx, tenantID, s.installed.effective(old), d)
	out.Warnings = append(out.Warnings, records...)
	return out, err
}

// shortened says what the next pass removes besides whole runs because its days in d are fewer than in old.
func (s *Editor) shortened(ctx context.Context, tenantID string, old, d Days) (warnings []string, err error) {
	type change struct {
		what     string
		old, now int
	}
	objects := []change{{"the step logs", old.StepLogs, d.StepLogs}}
	for _, kind := range kinds {
		objects = append(objects, change{"the artifacts of kind " + kind, old.Artifacts[kind], d.Artifacts[kind]})
	}
	for _, o := range objects {
		if !isShorter(o.old, o.now) {
			continue
		}
		more, err := s.endedBefore(ctx, tenantID, o.now)
		if err != nil {
			return nil, err
		}
		less, err := s.endedBefore(ctx, tenantID, o.old)
		if err != nil {
			return nil, err
		}
		if more.Runs -= less.Runs; more.Runs > 0 {
			warnings = append(warnings, fmt.Sprintf("The next pass removes %s of %s for good.", o.what, atLeast(more)))
		}
	}
	if isShorter(old.DeadLetters, d.DeadLetters) {
		warnings = append(warnings, fmt.Sprintf("The next pass deletes the dead letters that are older than %s.",
			control.Plural(d.DeadLetters, "day", "days")))
	}
	if isShorter(old.Alerts, d.Alerts) {
		warnings = append(warnings, fmt.Sprintf("The next pass deletes the alerts that were resolved, and the incidents "+
			"that were closed, more than %s ago.", control.Plural(d.Alerts, "day", "days")))
	}
	return warnings, nil
}

// isShorter reports whether days keeps things for a shorter time than old; 0 keeps them for ever.
func isShorter(old, days int) bool { return days > 0 && (old == 0 || days < old) }

// endedBefore counts the runs that ended at least that number of days ago, in the store and in the archive. For 0 it
// counts none.
func (s *Editor) endedBefore(ctx context.Context, tenantID string, days int) (store.RetentionEstimate, error) {
	at := before(s.now(), days)
	if at.IsZero() {
		return store.RetentionEstimate{}, nil
	}
	kept, err := s.store.EstimateEnded(ctx, tenantID, at, estimateLimit)
	if err != nil {
		return store.RetentionEstimate{}, err
	}
	archived, err := s.store.EstimateArchived(ctx, tenantID, at, estimateLimit)
	return sum(kept, archived), err
}

func sum(a, b store.RetentionEstimate) store.RetentionEstimate {
	return store.RetentionEstimate{Runs: a.Runs + b.Runs, Events: a.Events + b.Events, Bytes: a.Bytes + b.Bytes,
		Held: a.Held + b.Held, More: a.More || b.More}
}

// atLeast says how many runs an estimate found.
func atLeast(e store.RetentionEstimate) string {
	words := control.Plural(int(e.Runs), "run", "runs")
	if e.More {
		return "at least " + words
	}
	return words
}

// bytesText returns a size in words, with one decimal.
func bytesText(n int64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	size, exp := float64(n), 0
	for size >= unit && exp < 5 {
		size /= unit
		exp++
	}
	return fmt.Sprintf("%.1f %cB", size, "kMGTP"[exp-1])
}

// SetRetention puts a new policy in force: the next pass follows it. It is safe to repeat. Errors: FORBIDDEN without
// SET_POLICY on the whole tenant; RETENTION_MOVED when the policy is not at ExpectedVersion; REQUEST_ID_CONFLICT when
// the request id made another change; BAD_USER_INPUT with all violations. Accepted and refused changes are audited.
func (s *Editor) SetRetention(ctx context.Context, p authz.Principal, in SetRetention) (Policy, Effect, error) {
	vs := control.CheckReason(control.CheckID(nil, "requestId", in.RequestID), in.Reason)
	if in.ExpectedVersion < 0 {
		vs = append(vs, plan.Violation{Path: "expectedVersion", Code: "RANGE", Message: "must not be below 0"})
	}
	row := store.AuditRow{Action: ActionSetRetention, Reason: control.Clip(in.Reason), RequestID: in.RequestID}
	tenant := authz.Object{TenantID: p.TenantID, ProjectID: "*", EnvironmentID: "*"}
	if err := s.rights.MayOperateAs(ctx, p, authz.SetPolicy, row, tenant); err != nil {
		return Policy{}, Effect{}, err
	}
	if vs = append(vs, s.installed.check(in.Document)...); len(vs) > 0 {
		return Policy{}, Effect{}, s.rights.AuditRefused(ctx, p, row, control.BadInput(vs))
	}
	var old Document
	if in.ExpectedVersion > 0 {
		rows, err := s.store.SettingHistory(ctx, store.SettingRetention, p.TenantID, in.ExpectedVersion+1, 1)
		if err != nil {
			return Policy{}, Effect{}, control.Translate(err)
		}
		if len(rows) == 1 && rows[0].Version == in.ExpectedVersion {
			v, err := s.version(rows[0])
			if err != nil {
				return Policy{}, Effect{}, control.Translate(err)
			}
			old = v.Document
		}
	}
	effect, err := s.effect(ctx, p.TenantID, old, in.Document)
	if err != nil {
		return Policy{}, Effect{}, control.Translate(err)
	}
	out, err := s.put(ctx, p, in, row, effect.Changed)
	if own, ok := control.IsStale(err, run.CodeRetentionMoved); ok {
		return Policy{}, Effect{}, s.rights.AuditRefused(ctx, p, row, own)
	}
	out.Changed = effect.Changed
	return out, effect, err
}

// put writes the next version.
func (s *Editor) put(ctx context.Context, p authz.Principal, in SetRetention, row store.AuditRow,
	changed []string) (Policy, error) {
	doc, err := json.Marshal(in.Document)
	if err != nil {
		return Policy{}, control.Translate(err)
	}
	version := in.ExpectedVersion + 1
	detail, err := json.Marshal(map[string]any{"policyVersion": s.rights.Authz.PolicyVersion(p.TenantID),
		"retentionVersion": version, "changed": control.ClipLines(changed)})
	if err != nil {
		return Policy{}, control.Translate(err)
	}
	s.rights.Stamp(p, &row, "ACCEPTED", string(detail))
	out, repeated, err := s.repeated(ctx, p, in, 0, control.ReuseHistory)
	if err != nil || repeated {
		return out, control.Translate(err)
	}
	stored, err := s.store.PutSetting(ctx, store.StoredSetting{
		Kind: store.SettingRetention, TenantID: p.TenantID, Version: version, Doc: doc, Actor: p.ID, Reason: in.Reason,
		RequestID: in.RequestID,
	}, row)
	switch {
	case errors.Is(err, store.ErrConflict):
		if out, repeated, err = s.repeated(ctx, p, in, version+1, 1); err == nil && !repeated {
			err = s.moved(ctx, p.TenantID, in.ExpectedVersion)
		}
	case err == nil:
		out, err = s.version(stored)
	}
	return out, control.Translate(err)
}

// repeated returns the version that an earlier identical request wrote, and false without one among the newest limit
// versions below before. Error: REQUEST_ID_CONFLICT, as control.CheckReuse.
func (s *Editor) repeated(ctx context.Context, p authz.Principal, in SetRetention, before int64,
	limit int) (Policy, bool, error) {
	rows, err := s.store.SettingHistory(ctx, store.SettingRetention, p.TenantID, before, limit)
	if err != nil {
		return Policy{}, false, err
	}
	for _, row := range rows {
		if row.RequestID != in.RequestID || row.Actor != p.ID {
			continue
		}
		out, err := s.version(row)
		if err != nil {
			return Policy{}, false, err
		}
		return out, true, control.CheckReuse(control.DocumentVersion{Version: out.Version, Document: out.Document},
			control.DocumentVersion{Version: in.ExpectedVersion + 1, Document: in.Document})
	}
	return Policy{}, false, nil
}

// moved returns RETENTION_MOVED with the newest version.
func (s *Editor) moved(ctx context.Context, tenantID string, expected int64) error {
	newest, err := s.newest(ctx, tenantID)
	if err != nil {
		return err
	}
	return control.Refuse(run.CodeRetentionMoved, "The policy is at version %d, not %d. Look at it and decide again.",
		newest.Version, expected)
}
