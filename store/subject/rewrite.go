package subject

import (
	"context"
	"crypto/hmac"
	"encoding/json"

	"github.com/dvt-engine/dvt/store"
)

// proof is the detail of the audit row of a rewrite.
type proof struct {
	Erasure string `json:"erasure"`
	Made    string `json:"made"` // id of the audit row that made the object
	Key     string `json:"key"`  // id of the installation's key
	Proof   string `json:"proof"`
}

// Links reads audit rows that are in a chain.
type Links interface {
	AuditLinks(ctx context.Context, f store.AuditFilter) ([]store.AuditLink, error)
}

// RewriteRow returns the audit row that vouches for a rewrite, without an id and a run. It carries a keyed hash by the
// first key of the installation, so that nobody who can only write to the database can justify a change by such a row.
func (k *Keyring) RewriteRow(r store.Rewrite) store.AuditRow {
	detail, _ := json.Marshal(proof{r.Erasure, r.Made, k.own[0].id, prove(k.own[0], r)}) // texts have a JSON form
	return store.AuditRow{TenantID: r.TenantID, Actor: "dvt", Action: store.ActionEraseNames, Outcome: "ACCEPTED",
		Object: store.RewrittenObject(r.Object), Digest: r.Digest, Detail: detail}
}

func prove(by installationKey, r store.Rewrite) string {
	return keyedHash(by.derive(purposeProof), r.TenantID, r.Object, r.Digest, r.Erasure, r.Made)
}

// Rewritten lists what erasures made of an object of a tenant, the newest last. Rows without a valid keyed hash are no
// rewrites: without keys there are none.
func (k *Keyring) Rewritten(ctx context.Context, links Links, tenantID, object string) (out []store.Rewrite,
	err error) {
	if k == nil {
		return nil, nil
	}
	f := store.AuditFilter{TenantID: tenantID, Object: store.RewrittenObject(object), Action: store.ActionEraseNames,
		Outcome: "ACCEPTED", Limit: store.MaxPage}
	for {
		page, err := links.AuditLinks(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, l := range page {
			f.After = l.No
			if r, ok := k.readRewrite(l.Row, object); ok {
				out = append(out, r)
			}
		}
		if len(page) < f.Limit {
			return out, nil
		}
	}
}

// readRewrite reads the rewrite of an object from its audit row; ok is false for a row that the installation did not
// write.
func (k *Keyring) readRewrite(row *store.AuditRow, object string) (r store.Rewrite, ok bool) {
	var p proof
	if row == nil || json.Unmarshal(row.Detail, &p) != nil {
		return r, false
	}
	by, ok := k.byID(p.Key)
	r = store.Rewrite{TenantID: row.TenantID, Object: object, Digest: row.Digest, Erasure: p.Erasure, Made: p.Made}
	return r, ok && hmac.Equal([]byte(prove(by, r)), []byte(p.Proof))
}

// Resolve replaces the hash of a seal by that of the log after the newest erasure that rewrote it.
func (k *Keyring) Resolve(ctx context.Context, links Links, tenantID, runID string, seal store.LogSeal) (store.LogSeal,
	error) {
	if seal.Seq == 0 {
		return seal, nil
	}
	object := store.LogSealObject(runID, seal.Seq)
	found, err := k.Rewritten(ctx, links, tenantID, object)
	if err != nil || len(found) == 0 {
		return seal, err
	}
	return store.ParseLogSeal(object, found[len(found)-1].Digest)
}
