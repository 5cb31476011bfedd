package export

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/auditdoc"
)

// auditCursor is the position in the chain.
type auditCursor struct {
	No   int64  `json:"no"`
	Hash string `json:"hash"`
}

// writeAudit writes the chain of the tenant up to the record of this export, or the links by and about a person.
func (e *exporter) writeAudit(ctx context.Context) error {
	s := &e.work.state
	for {
		var at auditCursor
		if s.Cursor != nil {
			if err := json.Unmarshal(s.Cursor, &at); err != nil {
				return err
			}
		}
		if at.No >= s.AuditNo {
			return nil
		}
		f, err := e.work.create(ctx, rowsPath("audit/audit", s.File))
		if err != nil {
			return err
		}
		end, err := e.auditFile(ctx, f, at)
		if err != nil {
			f.drop()
			return err
		}
		s.AuditHash = end.Hash
		s.AuditRows += f.Rows
		if f.Rows == 0 { // nothing of the person
			f.drop()
			if s.Cursor, err = json.Marshal(end); err != nil {
				return err
			}
			continue
		}
		if err := e.endRows(f, end); err != nil {
			return err
		}
	}
}

// auditFile fills a file with links after a position, and returns the position behind them.
func (e *exporter) auditFile(ctx context.Context, f *out, at auditCursor) (auditCursor, error) {
	before := e.work.state.AuditNo + 1
	cut, err := e.Store.AuditCut(ctx, e.Of.TenantID)
	if err != nil {
		return at, err
	}
	for f.Bytes < e.FileBytes && at.No < e.work.state.AuditNo {
		links, err := e.Store.AuditLinks(ctx, store.AuditFilter{TenantID: e.Of.TenantID, After: at.No, Before: before,
			Limit: auditPage, WithMissingRows: true})
		if err != nil {
			return at, err
		}
		if len(links) == 0 { // somebody removed links; dvt audit verify says which
			at.No = e.work.state.AuditNo
			return at, nil
		}
		var rows []*store.AuditRow
		for _, l := range links {
			if l.Row != nil {
				rows = append(rows, l.Row)
			}
		}
		if err := e.Keys.Open(ctx, e.Store, e.Of.TenantID, rows); err != nil {
			return at, err
		}
		for _, l := range links {
			doc := auditdoc.Of(e.Of.TenantID, l, previous(at), cut.No)
			if e.Of.Subject == "" || e.isAbout(&doc) {
				if err := f.encode(doc); err != nil {
					return at, err
				}
			}
			if at = (auditCursor{l.No, doc.Hash}); f.Bytes >= e.FileBytes {
				break
			}
		}
	}
	return at, nil
}

func previous(at auditCursor) (out [sha256.Size]byte) {
	raw, err := hex.DecodeString(at.Hash)
	if err == nil && len(raw) == len(out) {
		out = [sha256.Size]byte(raw)
	}
	return out
}

// isAbout reports whether the person of this export made a row or is named by its detail. It removes from a row of
// somebody else what that person wrote, and where from.
func (e *exporter) isAbout(d *auditdoc.Doc) bool {
	if d.Row == nil {
		return false
	}
	if d.Row.Actor == e.Of.Subject {
		return true
	}
	var detail any
	if json.Unmarshal([]byte(d.Row.Detail), &detail) != nil || !names(detail, e.Of.Subject) {
		return false
	}
	d.Redacted = true
	d.Row.Reason, d.Row.Address, d.Row.Credential, d.Row.Sealed = "", "", "", nil
	kept, _ := json.Marshal(only(detail, e.Of.Subject)) // it was JSON
	d.Row.Detail = string(kept)
	return true
}

// names reports whether a document has a text as a value or a name.
func names(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return v == text
	case []any:
		return slices.ContainsFunc(v, func(v any) bool { return names(v, text) })
	case map[string]any:
		for name, v := range v {
			if name == text || names(v, text) {
				return true
			}
		}
	}
	return false
}

// only returns the document without the elements of lists that do not name a text, where others of the list do.
func only(v any, text string) any {
	switch v := v.(type) {
	case []any:
		if !names(v, text) {
			return []any{}
		}
		var out []any
		for _, element := range v {
			if names(element, text) {
				out = append(out, only(element, text))
			}
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, element := range v {
			if _, list := element.([]any); list || names(element, text) || isPlain(element) {
				out[name] = only(element, text)
			}
		}
		return out
	}
	return v
}

func isPlain(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return false
	}
	return true
}

// writeGrants writes the parts of the tenant's policy that name the person.
func (e *exporter) writeGrants(ctx context.Context) error {
	if e.work.state.Cursor != nil {
		return nil
	}
	policies, err := e.Store.PolicyHistory(ctx, e.Of.TenantID, 0, 1)
	if err != nil {
		return err
	}
	f, err := e.work.create(ctx, rowsPath("grants/policy", 0))
	if err != nil {
		return err
	}
	for _, p := range policies {
		var doc any
		if err = json.Unmarshal(p.Doc, &doc); err == nil && names(doc, e.Of.Subject) {
			err = f.encode(map[string]any{"version": p.Version, "at": p.At, "policy": only(doc, e.Of.Subject)})
		}
		if err != nil {
			f.drop()
			return err
		}
	}
	return e.endRows(f, "done")
}
