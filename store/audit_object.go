package store

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// AuditObjectKind is a kind of objects that are made only by audited actions.
type AuditObjectKind string

// Kinds of AuditObject.
const (
	AuditToken    AuditObjectKind = "token"    // an API token or a session
	AuditPolicy   AuditObjectKind = "policy"   // a version of a policy; a break-glass grant is one
	AuditSetting  AuditObjectKind = "setting"  // a version of a quota, a freeze or an engine mode
	AuditDecision AuditObjectKind = "decision" // of a person about a run that waits for approval
	AuditRun      AuditObjectKind = "run"      // who requested a run, its scope, its params and its stored plan
	AuditSignal   AuditObjectKind = "signal"   // a receipt; completions of manual steps and signals of bulks have one too
)

// AuditObjectKinds lists every kind.
func AuditObjectKinds() []AuditObjectKind {
	return []AuditObjectKind{AuditToken, AuditPolicy, AuditSetting, AuditDecision, AuditRun, AuditSignal}
}

// ActionImport is the action of the audit rows that dvt store import writes for imported runs and receipts.
const ActionImport = "IMPORT"

// AuditObjectFilter selects objects of one kind and tenant.
type AuditObjectFilter struct {
	Kind     AuditObjectKind
	TenantID string
	After    string // cursor of an object: only objects after it; "": from the first
	Limit    int    // 1..MaxPage
	// OperatorsTenant is the tenant whose audit rows may also vouch for a setting, because operators set the engine mode
	// and freeze other tenants. "": none.
	OperatorsTenant string
}

// AuditObject compares an object of the store with the audit row that made it. The object is unchanged when Digest
// equals Made and there are no Differences.
type AuditObject struct {
	Cursor   string // for AuditObjectFilter.After
	TenantID string
	Object   string // as AuditRow.Object
	Digest   string // of the content in the store
	Made     string // digest that the row recorded; "": no row made the object
	MadeNo   int64  // number of the row in the tenant's chain; 0 while it has no link
	// Revoked says that the store has the token as revoked, Revocation that an audit row revoked it.
	Revoked, Revocation bool
	// Differences are the facts whose values in the store and in the row differ.
	Differences []AuditDifference
}

// AuditDifference is a fact whose values in the store and in an audit row differ.
type AuditDifference struct {
	Fact             string // in words, for people
	Stored, Recorded string
	Note             string // a clause that replaces the others, where there are no two values
}

// SetMade sets the digest and the number of the row that made o from the text NUMBER/DIGEST that adapters read; "" when
// no row made o.
func (o *AuditObject) SetMade(text string) {
	no, digest, _ := strings.Cut(text, "/")
	o.MadeNo, _ = strconv.ParseInt(no, 10, 64)
	o.Made = digest
}

// auditRowOf returns row with the name of an object and the digest of its parts.
func auditRowOf(row AuditRow, object string, parts ...string) AuditRow {
	sum := Digest(parts...)
	row.Object, row.Digest = object, hex.EncodeToString(sum[:])
	return row
}

// AuditRowOfToken returns row as the audit row that made t: with the name of t and the digest of its content.
func AuditRowOfToken(row AuditRow, t StoredToken) AuditRow {
	kind := t.Kind
	if kind == "" {
		kind = TokenAPI
	}
	return auditRowOf(row, "token/"+t.ID, "token", t.ID, string(kind), t.TenantID, t.Name, t.Principal, t.Provider,
		strings.Join(t.Groups, "\x1f"),
		t.SHA256, string(t.Grants), t.CreatedBy, strconv.FormatInt(t.ExpiresAt.UnixMicro(), 10))
}

// AuditRowOfRevocation returns row as the audit row that revoked the token id.
func AuditRowOfRevocation(row AuditRow, id string) AuditRow {
	return auditRowOf(row, "revocation/"+id, "revocation", id)
}

// AuditRowOfPolicy returns row as the audit row that made p.
func AuditRowOfPolicy(row AuditRow, p StoredPolicy) AuditRow {
	version := strconv.FormatInt(p.Version, 10)
	return auditRowOf(row, "policy/"+version, "policy", p.TenantID, version, string(p.Doc), p.Actor, p.Reason, p.RequestID)
}

// AuditRowOfSetting returns row as the audit row that made v.
func AuditRowOfSetting(row AuditRow, v StoredSetting) AuditRow {
	version := strconv.FormatInt(v.Version, 10)
	return auditRowOf(row, "setting/"+string(v.Kind)+"/"+v.TenantID+"/"+version,
		"setting", string(v.Kind), v.TenantID, version, string(v.Doc), v.Actor, v.Reason, v.RequestID)
}

// AuditRowOfDecision returns row as the audit row that made the decision d about a run.
func AuditRowOfDecision(row AuditRow, runID string, d ApprovalDecision) AuditRow {
	return auditRowOf(row, "decision/"+runID+"/"+d.Principal,
		"decision", runID, d.Principal, strconv.FormatBool(d.Approved), d.Reason, d.RequestID)
}
