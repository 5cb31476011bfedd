package store

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// AuditObjectKind is a kind of objects that only an audited action makes.
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

// ActionImport is the action of rows that dvt store import writes for its runs and receipts.
const ActionImport = "IMPORT"

// AuditObjectFilter selects objects of one kind and tenant.
type AuditObjectFilter struct {
	Kind     AuditObjectKind
	TenantID string
	After    string // cursor of the object before; "": from the first
	Limit    int    // 1..MaxPage
}

// AuditObject is an object of the store beside the audit row that made it.
type AuditObject struct {
	Cursor   string
	TenantID string
	Object   string // as AuditRow.Object
	Digest   string // of the content that the store holds now
	Made     string // digest that the row recorded; "": no row made the object
	// Revoked says that a token has ended, and Revocation that a row ended it.
	Revoked, Revocation bool
	// Uncovered is true when the row comes from an earlier version and recorded no digest. Such an object is compared
	// only by what the row names.
	Uncovered bool
	// Differences are the facts that the row names and the store holds otherwise.
	Differences []AuditDifference
}

// AuditDifference is a fact that the store holds otherwise than an audit row recorded it.
type AuditDifference struct {
	Fact             string // in words
	Stored, Recorded string
}

// madeBy returns the row as the row that made an object.
func madeBy(row AuditRow, object string, parts ...string) AuditRow {
	sum := Digest(parts...)
	row.Object, row.Digest = object, hex.EncodeToString(sum[:])
	return row
}

// MadeToken returns row as the row that made t.
func MadeToken(row AuditRow, t StoredToken) AuditRow {
	kind := t.Kind
	if kind == "" {
		kind = TokenAPI
	}
	return madeBy(row, "token/"+t.ID, "token", t.ID, string(kind), t.TenantID, t.Name, t.Principal, t.Provider,
		strings.Join(t.Groups, "\x1f"),
		t.SHA256, string(t.Grants), t.CreatedBy, strconv.FormatInt(t.ExpiresAt.UnixMicro(), 10))
}

// RevokedToken returns row as the row that revoked the token id.
func RevokedToken(row AuditRow, id string) AuditRow {
	return madeBy(row, "revocation/"+id, "revocation", id)
}

// MadePolicy returns row as the row that made p.
func MadePolicy(row AuditRow, p StoredPolicy) AuditRow {
	version := strconv.FormatInt(p.Version, 10)
	return madeBy(row, "policy/"+version, "policy", p.TenantID, version, string(p.Doc), p.Actor, p.Reason, p.RequestID)
}

// MadeSetting returns row as the row that made v.
func MadeSetting(row AuditRow, v StoredSetting) AuditRow {
	version := strconv.FormatInt(v.Version, 10)
	return madeBy(row, "setting/"+string(v.Kind)+"/"+v.TenantID+"/"+version,
		"setting", string(v.Kind), v.TenantID, version, string(v.Doc), v.Actor, v.Reason, v.RequestID)
}

// MadeDecision returns row as the row that made the decision d about a run.
func MadeDecision(row AuditRow, runID string, d ApprovalDecision) AuditRow {
	return madeBy(row, "decision/"+runID+"/"+d.Principal,
		"decision", runID, d.Principal, strconv.FormatBool(d.Approved), d.Reason, d.RequestID)
}
