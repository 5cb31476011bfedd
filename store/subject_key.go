package store

import (
	"context"
	"strings"
	"time"
)

// ErasedSubject is the text that readers see in place of the name of an actor whose keys were destroyed.
const ErasedSubject = "erased subject"

// Beginnings of the stored texts of a sealed audit row. The id of the key follows: 32 hexadecimal digits.
const (
	SealedActor = "subject:" // stands in AuditRow.Actor; the name lies in the key's row
	SealedText  = "sealed:"  // of AuditRow.Reason and AuditRow.Address; the sealed text follows after a colon
)

// SubjectKey is a key that seals the personal fields of audit rows of one actor in one tenant. An actor may have many
// keys, because each process makes its own. When all of them are destroyed, the actor is erased from the audit:
// the rows keep their bytes, so that the hash chain holds, and nobody can read who acted and why.
type SubjectKey struct {
	ID       string // 32 hexadecimal digits, random
	TenantID string
	Lookup   string // keyed hash of tenant and actor: finds the keys of an actor without the name
	Name     string // the actor's name, sealed by the key; "" once the key is destroyed
	Wrapped  string // the key, sealed by a key of the installation; "" once the key is destroyed
	MadeAt   time.Time
	ErasedAt *time.Time
}

// SubjectKeyFilter selects keys. Empty fields do not restrict.
type SubjectKeyFilter struct {
	TenantID    string
	IDs         []string // at most MaxPage
	After       string   // only keys with a larger id
	Live        bool     // only keys that are not destroyed
	ErasedAfter time.Time
	Limit       int // 1..MaxPage
}

// SubjectKeys reads the keys of data subjects. They are written with the first audit row that they seal, in the same
// transaction, see AuditRow.Key. No method of a server destroys one: that needs the rights of the store's owner.
type SubjectKeys interface {
	// SubjectKeys lists keys by id.
	SubjectKeys(ctx context.Context, f SubjectKeyFilter) ([]SubjectKey, error)
}

// SealedTexts are the texts of a sealed audit row as they are stored. The hash of its link covers them.
type SealedTexts struct{ Actor, Reason, Address string }

// KeyOfActor returns the id of the key that sealed the actor of a row, or "" when the stored text is a plain name.
func KeyOfActor(stored string) string {
	id, ok := strings.CutPrefix(stored, SealedActor)
	if !ok || !isKeyID(id) {
		return ""
	}
	return id
}

// KeyOfText returns the id of the key that sealed a text, and the sealed part; "" when the stored text is plain.
func KeyOfText(stored string) (id, sealed string) {
	rest, ok := strings.CutPrefix(stored, SealedText)
	id, sealed, found := strings.Cut(rest, ":")
	if !ok || !found || !isKeyID(id) {
		return "", ""
	}
	return id, sealed
}

func isKeyID(id string) bool {
	return len(id) == 32 && strings.Trim(id, "0123456789abcdef") == ""
}

// Keys returns the keys that rows bring with them, each once.
func Keys(rows []AuditRow) (out []SubjectKey) {
	seen := map[string]bool{}
	for _, r := range rows {
		if r.Key != nil && !seen[r.Key.ID] {
			seen[r.Key.ID] = true
			out = append(out, *r.Key)
		}
	}
	return out
}

// ActionEraseNames is the action of audit rows by which an erasure of a person vouches for what it rewrote: an object,
// or the log of a run up to a seal, whose digest changed with the name in it.
const ActionEraseNames = "ERASE_NAMES"

// Pseudonym returns the name that replaces the person of an erasure. It depends on the id of the erasure alone, so that
// nobody can compute it from the person, two people never share one, and a repeated erasure gives the same.
func Pseudonym(erasureID string) string { return "erased:" + erasureID }

// RewrittenObject returns the name under which an audit row vouches for the new content of an object.
func RewrittenObject(object string) string { return "erased/" + object }

// Rewrite says that an erasure changed an object and which digest the object has since.
type Rewrite struct {
	TenantID string
	Object   string // as AuditRow.Object of the row that made it, without the person's name
	Digest   string // of the content without the name
	Erasure  string
	Made     string // id of the audit row that made the object
}
