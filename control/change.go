package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Change is the receipt of a change that is no signal, as the server that carried it out knows it. Its record in the
// audit has the same Action and RequestID. The zero Change means that the request changed nothing.
type Change struct {
	Action    string // as the audit names it
	RequestID string
	Actor     string
	At        time.Time
	// Version is the version of the document that the change made; the one before is Version - 1. It is 0 for a change
	// of something that has no versions.
	Version int64
}

// ReuseHistory is the number of newest versions of a document in which a reused request id is looked for.
const ReuseHistory = 20

// DocumentVersion is one version of a document of a tenant.
type DocumentVersion struct {
	Version  int64
	Document any // decoded, so that two ways to write the same JSON are equal
}

// CheckReuse compares the version that an earlier request made with the one that a compare-and-set request of the same
// actor with the same request id asks to make. It returns nil when they are equal: the request is a repetition, changes
// nothing, and is answered with the earlier version. Otherwise it returns REQUEST_ID_CONFLICT, because the caller would
// take the earlier answer for the effect of the new request.
func CheckReuse(earlier, asked DocumentVersion) error {
	was, err := json.Marshal(earlier.Document)
	if err != nil {
		return Translate(err)
	}
	now, err := json.Marshal(asked.Document)
	if err != nil {
		return Translate(err)
	}
	if earlier.Version != asked.Version || !bytes.Equal(was, now) {
		return Refuse(run.CodeRequestConflict,
			"This requestId was used for another change, which made version %d. Use a new request id.", earlier.Version)
	}
	return nil
}

// IsStale returns the refusal of a compare-and-set request that an earlier change caused: moved, the code of the
// document for a version that is no longer the newest, or REQUEST_ID_CONFLICT. Such refusals are audited.
func IsStale(err error, moved run.Code) (*Error, bool) {
	own, ok := errors.AsType[*Error](err)
	return own, ok && (own.Code == moved || own.Code == run.CodeRequestConflict)
}
