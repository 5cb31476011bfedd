// Package mapping converts results of the use cases into the types of the public schema. It does no I/O. The caller
// passes functions for medians and actions, which are called only when an operation selects them.
package mapping

import (
	"encoding/base64"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// enum is the constraint of generated enums.
type enum interface {
	~string
	IsValid() bool
}

// enumOf returns the enum value of a stored word, or UNKNOWN for a word that the schema does not have. A newer version
// may have stored it, and it must not break typed clients. The field …Raw has the word itself (contract T153).
func enumOf[E enum, S ~string](s S) E {
	if e := E(s); e.IsValid() {
		return e
	}
	return "UNKNOWN"
}

// optionalEnum is enumOf that returns nil for the empty word.
func optionalEnum[E enum, S ~string](s S) *E {
	if s == "" {
		return nil
	}
	return new(enumOf[E](s))
}

// knownEnums returns the words that the schema has and drops the others.
func knownEnums[E enum, S ~string](words []S) []E {
	out := make([]E, 0, len(words))
	for _, s := range words {
		if e := E(s); e.IsValid() {
			out = append(out, e)
		}
	}
	return out
}

// Optional returns a pointer to v, or nil for the zero value.
func Optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Text returns a pointer to s, or nil for the empty string.
func Text[S ~string](s S) *string { return Optional(string(s)) }

// nonZero returns p, or nil when p points to the zero value. It does not copy, because states are immutable.
func nonZero[T comparable](p *T) *T {
	var zero T
	if *p == zero {
		return nil
	}
	return p
}

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// MapSlice maps a list. The result is never nil, because the schema has no null lists.
func MapSlice[A, B any](in []A, f func(A) B) []B {
	out := make([]B, len(in))
	for i, a := range in {
		out[i] = f(a)
	}
	return out
}

// OrZero returns *p, or the zero value when p is nil.
func OrZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// These are the kinds of node ids. A node id is opaque for clients: base64 of "kind:part/part".
const (
	RunNode        = "Run"
	SignalNode     = "Signal"
	DeadLetterNode = "DeadLetter"
	BulkNode       = "Bulk"
)

func nodeID(kind string, parts ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + ":" + strings.Join(parts, "/")))
}

// ParseNodeID returns the kind and the parts that a node id was made from. The kind of an id that dvt did not make is
// "".
func ParseNodeID(id string) (kind string, parts []string) {
	raw, err := base64.RawURLEncoding.DecodeString(id)
	kind, rest, ok := strings.Cut(string(raw), ":")
	if err != nil || !ok {
		return "", nil
	}
	return kind, strings.Split(rest, "/")
}

// EncodeCursor returns the opaque cursor of a key.
func EncodeCursor(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

// DecodeCursor returns the key of a cursor, "" of nil. Its error is CURSOR_INVALID.
func DecodeCursor(cursor *string) (string, error) {
	key, err := base64.RawURLEncoding.DecodeString(OrZero(cursor))
	if err != nil {
		return "", &control.Error{Code: run.CodeCursorInvalid,
			Message: "This cursor cannot be read. Start from the first page."}
	}
	return string(key), nil
}

// PageInfo returns the page info of edges; cursor returns the cursor of one of them.
func PageInfo[E any](edges []E, cursor func(E) string, hasNext, hasPrev bool) *model.PageInfo {
	p := &model.PageInfo{HasNextPage: hasNext, HasPreviousPage: hasPrev}
	if n := len(edges); n > 0 {
		p.StartCursor, p.EndCursor = new(cursor(edges[0])), new(cursor(edges[n-1]))
	}
	return p
}
