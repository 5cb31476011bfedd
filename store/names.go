package store

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
