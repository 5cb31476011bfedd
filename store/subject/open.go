package subject

import (
	"context"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// Texts in place of those that cannot be read.
const (
	erasedText = "(erased)"
	// unreadable stands for a text whose key the installation lacks, or that somebody changed.
	unreadable = "(cannot be read: its key is not among subject-keys, or the row was changed)"
)

// maxSearched bounds the keys of a tenant that a search for an actor reads.
const maxSearched = 10_000

// Open replaces the sealed texts of rows of a tenant by what was sealed, and keeps the stored texts in AuditRow.Sealed.
// The texts of a destroyed key become store.ErasedSubject and "(erased)". Keys are read from the store each time, so
// that an erasure has its effect at once. Rows without sealed texts do not change. A nil Keyring marks sealed texts as
// unreadable.
func (k *Keyring) Open(ctx context.Context, keys store.SubjectKeys, tenantID string, rows []*store.AuditRow) error {
	ids := map[string]bool{}
	for _, r := range rows {
		for _, id := range idsOf(r) {
			ids[id] = true
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found := map[string]store.SubjectKey{}
	var page []string
	read := func() error {
		out, err := keys.SubjectKeys(ctx, store.SubjectKeyFilter{TenantID: tenantID, IDs: page, Limit: store.MaxPage})
		for _, s := range out {
			found[s.ID] = s
		}
		page = page[:0]
		return err
	}
	for id := range ids {
		if page = append(page, id); len(page) == store.MaxPage {
			if err := read(); err != nil {
				return err
			}
		}
	}
	if err := read(); err != nil {
		return err
	}
	for _, r := range rows {
		k.openRow(r, found)
	}
	return nil
}

func idsOf(r *store.AuditRow) (out []string) {
	if id := store.KeyOfActor(r.Actor); id != "" {
		out = append(out, id)
	}
	for _, text := range []string{r.Reason, r.Address} {
		if id, _ := store.KeyOfText(text); id != "" {
			out = append(out, id)
		}
	}
	return out
}

// openRow opens the texts of one row. A text that names a key which the tenant does not have stays as it is: somebody
// wrote it that way.
func (k *Keyring) openRow(r *store.AuditRow, keys map[string]store.SubjectKey) {
	before := store.SealedTexts{Actor: r.Actor, Reason: r.Reason, Address: r.Address}
	if s, ok := keys[store.KeyOfActor(r.Actor)]; ok {
		r.Actor = k.openText(s, "name "+s.ID, s.Name, store.ErasedSubject)
	}
	for field, text := range map[string]*string{"reason": &r.Reason, "address": &r.Address} {
		id, sealed := store.KeyOfText(*text)
		if s, ok := keys[id]; ok {
			*text = k.openText(s, field+" "+s.ID, sealed, erasedText)
		}
	}
	if before != (store.SealedTexts{Actor: r.Actor, Reason: r.Reason, Address: r.Address}) {
		r.Sealed = &before
	}
}

func (k *Keyring) openText(s store.SubjectKey, context, sealed, erased string) string {
	if s.Wrapped == "" {
		return erased
	}
	if k == nil {
		return unreadable
	}
	key, err := k.unwrap(s)
	if err != nil {
		return unreadable
	}
	text, err := unseal(key.aead, context, sealed)
	if err != nil {
		return unreadable
	}
	return string(text)
}

// NameOf returns the name that a live key seals; "" when it cannot be read.
func (k *Keyring) NameOf(s store.SubjectKey) string {
	key, err := k.unwrap(s)
	if err != nil || key == nil {
		return ""
	}
	name, err := unseal(key.aead, "name "+s.ID, s.Name)
	if err != nil {
		return ""
	}
	return string(name)
}

// StoredActors returns the stored texts of the tenant's actors whose names contain part, which is in lower case. It
// reads at most 10,000 keys.
func (k *Keyring) StoredActors(ctx context.Context, keys store.SubjectKeys, tenantID, part string) (out []string,
	err error) {
	if k == nil || part == "" {
		return nil, nil
	}
	f := store.SubjectKeyFilter{TenantID: tenantID, Live: true, Limit: store.MaxPage}
	for range maxSearched / store.MaxPage {
		page, err := keys.SubjectKeys(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, s := range page {
			if name := k.openText(s, "name "+s.ID, s.Name, ""); strings.Contains(strings.ToLower(name), part) {
				out = append(out, store.SealedActor+s.ID)
			}
			f.After = s.ID
		}
		if len(page) < f.Limit {
			break
		}
	}
	return out, nil
}

// Load remembers the live keys of the store, at most 10,000, so that a process that starts does not make a new key for
// each actor.
func (k *Keyring) Load(ctx context.Context, keys store.SubjectKeys) error {
	if k == nil {
		return nil
	}
	f := store.SubjectKeyFilter{Live: true, Limit: store.MaxPage}
	for range maxKeys / store.MaxPage {
		page, err := keys.SubjectKeys(ctx, f)
		if err != nil {
			return err
		}
		k.mu.Lock()
		for _, s := range page {
			if key, err := k.unwrap(s); err == nil && key != nil {
				k.remember(s.Lookup, key)
			}
			f.After = s.ID
		}
		k.mu.Unlock()
		if len(page) < f.Limit {
			break
		}
	}
	return nil
}

// Forget drops the keys that were destroyed since a time, so that an actor who acts again gets a new key.
func (k *Keyring) Forget(ctx context.Context, keys store.SubjectKeys, since time.Time) error {
	if k == nil {
		return nil
	}
	f := store.SubjectKeyFilter{ErasedAfter: since, Limit: store.MaxPage}
	for {
		page, err := keys.SubjectKeys(ctx, f)
		if err != nil {
			return err
		}
		k.mu.Lock()
		for _, s := range page {
			for lookup, key := range k.known {
				if key.stored.ID == s.ID {
					delete(k.known, lookup)
				}
			}
			f.After = s.ID
		}
		k.mu.Unlock()
		if len(page) < f.Limit {
			return nil
		}
	}
}
