// Package auditdoc has the JSON document of one link of the audit, as exports and destinations of the audit show it.
// Its names are those of the API's type AuditEntry and do not change; new ones may come.
package auditdoc

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Doc is one link of a tenant's chain.
type Doc struct {
	No   int64  `json:"no"`
	ID   string `json:"id"`
	Hash string `json:"hash"` // in hex
	// Previous is the hash of the link before, "" for the first one.
	Previous string `json:"previous"`
	// Tenant is the tenant of the chain, also where the row was removed.
	Tenant string `json:"tenantId"`
	// Row is null when somebody removed the row.
	Row *Row `json:"row"`
	// Cut says that the retention removed the row, and those before it that are missing.
	Cut bool `json:"cut,omitempty"`
	// Redacted says that personal fields of others were left out, so that the hash cannot be computed.
	Redacted bool `json:"redacted,omitempty"`
}

// Row is the row of a link. Names are opened as an auditor reads them; Sealed has the stored texts that the hash
// covers.
type Row struct {
	At         string  `json:"at"` // RFC 3339 in UTC with six digits
	TenantID   string  `json:"tenantId"`
	Actor      string  `json:"actor"`
	Action     string  `json:"action"`
	RunID      string  `json:"runId"`
	SignalID   string  `json:"signalId"`
	Outcome    string  `json:"outcome"`
	Code       string  `json:"code"`
	Reason     string  `json:"reason"`
	RequestID  string  `json:"requestId"`
	Detail     string  `json:"detail"` // a JSON document as text, because the hash covers its bytes
	Format     int     `json:"format"`
	Credential string  `json:"credential"`
	Address    string  `json:"address"`
	Via        string  `json:"via"`
	Object     string  `json:"object"`
	Digest     string  `json:"digest"`
	Sealed     *Sealed `json:"sealed,omitempty"`
}

// Sealed are the stored texts of a row whose names are sealed.
type Sealed struct {
	Actor   string `json:"actor"`
	Reason  string `json:"reason"`
	Address string `json:"address"`
}

const timeForm = "2006-01-02T15:04:05.000000Z"

// Of returns the document of a link of a tenant. previous is the hash of the link before, zero for the first one, and
// cut is the number up to which the retention cut the chain.
func Of(tenantID string, l store.AuditLink, previous [32]byte, cut int64) Doc {
	out := Doc{No: l.No, ID: l.ID, Hash: hex.EncodeToString(l.Hash[:]), Tenant: tenantID,
		Cut: l.Row == nil && l.No <= cut}
	if l.No > 1 {
		out.Previous = hex.EncodeToString(previous[:])
	}
	if r := l.Row; r != nil {
		out.Row = &Row{At: r.At.UTC().Format(timeForm), TenantID: r.TenantID, Actor: r.Actor, Action: r.Action,
			RunID: r.RunID, SignalID: r.SignalID, Outcome: r.Outcome, Code: string(r.Code), Reason: r.Reason,
			RequestID: r.RequestID, Detail: string(r.Detail), Format: r.Format, Credential: r.Credential,
			Address: r.Address, Via: r.Via, Object: r.Object, Digest: r.Digest}
		if s := r.Sealed; s != nil {
			out.Row.Sealed = &Sealed{s.Actor, s.Reason, s.Address}
		}
	}
	return out
}

// Errors of Verify.
var (
	ErrRemoved = errors.New("the row was removed")
	ErrChanged = errors.New("the row was changed or moved")
)

// Verify computes the hash of a link from its row and Previous, and compares them. A redacted document and a
// cut one give nil.
func (d Doc) Verify() error {
	if d.Redacted || d.Cut && d.Row == nil {
		return nil
	}
	if d.Row == nil {
		return ErrRemoved
	}
	r := d.Row
	at, err := time.Parse(timeForm, r.At)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrChanged, err)
	}
	row := store.AuditRow{ID: d.ID, At: at, TenantID: r.TenantID, Actor: r.Actor, Action: r.Action, RunID: r.RunID,
		SignalID: r.SignalID, Outcome: r.Outcome, Code: run.Code(r.Code), Reason: r.Reason, RequestID: r.RequestID,
		Detail: json.RawMessage(r.Detail), Format: r.Format, Credential: r.Credential, Address: r.Address, Via: r.Via,
		Object: r.Object, Digest: r.Digest}
	if s := r.Sealed; s != nil {
		row.Sealed = &store.SealedTexts{Actor: s.Actor, Reason: s.Reason, Address: s.Address}
	}
	var previous [32]byte
	if d.No > 1 {
		raw, err := hex.DecodeString(d.Previous)
		if err != nil || len(raw) != len(previous) {
			return ErrChanged
		}
		previous = [32]byte(raw)
	}
	if got := row.Link(previous, d.No); hex.EncodeToString(got[:]) != d.Hash || d.Tenant != r.TenantID {
		return ErrChanged
	}
	return nil
}
