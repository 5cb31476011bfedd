package control

import (
	"time"
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
