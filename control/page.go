package control

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

// Stream is pulled by one reader until Next returns an error, which is a *Error
// that names why the stream ended, or ctx's.
type Stream[T any] interface {
	Next(ctx context.Context) (T, error)
	Close()
}

// EncodeCursor returns the cursor of a position in a list of runs.
func EncodeCursor(p store.RunPos) string {
	return base64.RawURLEncoding.EncodeToString([]byte(p.CreatedAt.UTC().Format(time.RFC3339Nano) + " " + p.RunID))
}

// DecodeCursor returns the position of a cursor; nil for the beginning. Error: CURSOR_INVALID.
func DecodeCursor(c string) (*store.RunPos, error) {
	if c == "" {
		return nil, nil //nolint:nilnil // no cursor is a place too: the beginning
	}
	raw, err := base64.RawURLEncoding.DecodeString(c)
	at, id, ok := strings.Cut(string(raw), " ")
	t, terr := time.Parse(time.RFC3339Nano, at)
	if err != nil || !ok || terr != nil || id == "" {
		return nil, CursorInvalid()
	}
	return &store.RunPos{CreatedAt: t, RunID: id}, nil
}

// MaxPageSize of every list that the API gives (api.md §2).
const MaxPageSize = 200

// PageSize is how many rows first asks for, usual when it is 0: BAD_USER_INPUT.
func PageSize(first, usual int) (int, error) {
	n, _, err := PageEnd(first, 0, usual)
	return n, err
}

// PageEnd is pageSize of a list that can be read backward too: by last, instead of first.
func PageEnd(first, last, usual int) (n int, backward bool, err error) {
	var vs []plan.Violation
	for _, c := range []struct {
		path string
		n    int
	}{{"first", first}, {"last", last}} {
		if c.n < 0 || c.n > MaxPageSize {
			vs = append(vs, plan.Violation{Path: c.path, Code: plan.CodeRange, Message: fmt.Sprintf("must be from 1 to %d",
				MaxPageSize)})
		}
	}
	if first > 0 && last > 0 {
		vs = append(vs, plan.Violation{Path: "last", Code: "INVALID", Message: "give first or last, not both"})
	}
	switch {
	case len(vs) > 0:
		return 0, false, BadInput(vs)
	case last > 0:
		return last, true, nil
	case first > 0:
		return first, false, nil
	}
	return usual, false, nil
}

// PageOf shows the first n of rows; true: there are more.
func PageOf[R, V any](rows []R, n int, show func(R) (V, error)) ([]V, bool, error) {
	var out []V
	for _, row := range rows[:min(n, len(rows))] {
		v, err := show(row)
		if err != nil {
			return nil, false, err
		}
		out = append(out, v)
	}
	return out, len(rows) > n, nil
}

// PageError is translate for a page after a row.
func PageError(after string, err error) error {
	if after != "" && errors.Is(err, store.ErrNotFound) {
		return CursorInvalid()
	}
	return Translate(err)
}

// ReadOn reads rows, behind the last one that was read or from the start, until n of them are kept or there are no
// more; true: there are more that are kept. It is for what a store does not filter by.
func ReadOn[R any](n int, read func(last *R, limit int) ([]R, error), keep func(R) (bool, error)) (out []R, more bool,
	err error) {
	var last *R
	for limit := n + 1; ; limit = store.MaxPage {
		rows, err := read(last, limit)
		if err != nil {
			return nil, false, err
		}
		for _, row := range rows {
			kept, err := keep(row)
			switch {
			case err != nil:
				return nil, false, err
			case kept && len(out) == n:
				return out, true, nil
			case kept:
				out = append(out, row)
			}
		}
		if len(rows) < limit {
			return out, false, nil
		}
		last = &rows[len(rows)-1]
	}
}
