package graph

import (
	"encoding/base64"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// The mapping functions turn what control answers into the types of the public
// schema, whole: nothing is read after them.

// enum is a generated enum.
type enum interface {
	~string
	IsValid() bool
}

// enumOf keeps a stored word that the schema does not know from breaking typed
// clients: it becomes UNKNOWN, with the word itself in the field beside it (T153).
func enumOf[E enum, S ~string](s S) E {
	if e := E(s); e.IsValid() {
		return e
	}
	return "UNKNOWN"
}

// optionalEnum is enumOf with nothing for the empty word.
func optionalEnum[E enum, S ~string](s S) *E {
	if s == "" {
		return nil
	}
	return new(enumOf[E](s))
}

// knownEnums keeps the words that the schema has.
func knownEnums[E enum, S ~string](words []S) []E {
	out := make([]E, 0, len(words))
	for _, s := range words {
		if e := E(s); e.IsValid() {
			out = append(out, e)
		}
	}
	return out
}

// optional is nil for the zero value.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func text[S ~string](s S) *string { return optional(string(s)) }

// given is p itself, or nil where it points to the zero value: for what lies in a
// state, which never changes.
func given[T comparable](p *T) *T {
	var zero T
	if *p == zero {
		return nil
	}
	return p
}

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// each maps a list; the result is never nil, for the schema has no null lists.
func each[A, B any](in []A, f func(A) B) []B {
	out := make([]B, len(in))
	for i, a := range in {
		out[i] = f(a)
	}
	return out
}

func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// Opaque ids of nodes: base64 of the type and what names it.
const (
	runNode        = "Run"
	signalNode     = "Signal"
	deadLetterNode = "DeadLetter"
	bulkNode       = "Bulk"
)

func nodeID(kind string, parts ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + ":" + strings.Join(parts, "/")))
}

// parseNodeID gives what nodeID was made of; an id that dvt did not make has no kind.
func parseNodeID(id string) (kind string, parts []string) {
	raw, err := base64.RawURLEncoding.DecodeString(id)
	kind, rest, ok := strings.Cut(string(raw), ":")
	if err != nil || !ok {
		return "", nil
	}
	return kind, strings.Split(rest, "/")
}

func encodeCursor(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

func decodeCursor(cursor *string) (string, error) {
	key, err := base64.RawURLEncoding.DecodeString(orZero(cursor))
	if err != nil {
		return "", &control.Error{Code: run.CodeCursorInvalid,
			Message: "This cursor cannot be read. Start from the first page."}
	}
	return string(key), nil
}

func pageInfo[E any](edges []E, cursor func(E) string, hasNext, hasPrev bool) *model.PageInfo {
	p := &model.PageInfo{HasNextPage: hasNext, HasPreviousPage: hasPrev}
	if n := len(edges); n > 0 {
		p.StartCursor, p.EndCursor = new(cursor(edges[0])), new(cursor(edges[n-1]))
	}
	return p
}
