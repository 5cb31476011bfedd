package control

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

// Stream is read by one goroutine until Next returns an error. The error is a *Error that says why the stream ended, or
// the error of ctx.
type Stream[T any] interface {
	Next(ctx context.Context) (T, error)
	Close()
}

// EncodeCursor returns the cursor of a position in a list of runs.
func EncodeCursor(p store.RunPos) string {
	return base64.RawURLEncoding.EncodeToString([]byte(p.CreatedAt.UTC().Format(time.RFC3339Nano) + " " + p.RunID))
}

// DecodeCursor returns the position of a cursor; nil for "", the beginning. Error: CURSOR_INVALID.
func DecodeCursor(c string) (*store.RunPos, error) {
	if c == "" {
		return nil, nil //nolint:nilnil // no cursor means the beginning
	}
	raw, err := base64.RawURLEncoding.DecodeString(c)
	at, id, ok := strings.Cut(string(raw), " ")
	t, terr := CursorTime(at)
	if err != nil || !ok || terr != nil || id == "" {
		return nil, CursorInvalid()
	}
	return &store.RunPos{CreatedAt: t, RunID: id}, nil
}

// CursorTime reads the time of a cursor. Error: CURSOR_INVALID, also for a time that no cursor can hold: an offset can
// move the years 0 and 9999 to ones that RFC 3339 cannot write.
func CursorTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if year := t.UTC().Year(); err != nil || year < 0 || year > 9999 {
		return time.Time{}, CursorInvalid()
	}
	return t, nil
}

// EncodeSortedCursor returns the cursor of a position in a list of runs. It names the order of the list, so that a list
// in another order refuses it.
func EncodeSortedCursor(by RunSort, p store.RunPos) string {
	if by == "" {
		return EncodeCursor(p)
	}
	text := fmt.Sprintf("%s %d %d %s", by, p.CreatedAt.UnixMicro(), p.Took.Microseconds(), p.RunID)
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// DecodeSortedCursor returns the position of a cursor of a list in that order; nil for "", the beginning. Error:
// CURSOR_INVALID, also for a cursor of another order.
func DecodeSortedCursor(by RunSort, c string) (*store.RunPos, error) {
	if c == "" || by == "" {
		return DecodeCursor(c)
	}
	raw, err := base64.RawURLEncoding.DecodeString(c)
	parts := strings.SplitN(string(raw), " ", sortedCursorParts)
	if err != nil || len(parts) < sortedCursorParts || parts[0] != string(by) || parts[3] == "" {
		return nil, CursorInvalid()
	}
	at, aerr := strconv.ParseInt(parts[1], 10, 64)
	took, terr := strconv.ParseInt(parts[2], 10, 64)
	if aerr != nil || terr != nil {
		return nil, CursorInvalid()
	}
	pos := store.RunPos{CreatedAt: time.UnixMicro(at).UTC(), Took: time.Duration(took) * time.Microsecond, RunID: parts[3]}
	return &pos, nil
}

const sortedCursorParts = 4

// MaxPageSize is the maximum page size of every list in the API.
const MaxPageSize = 200

// OutOfRange returns the violation of a number that is not from 1 to most.
func OutOfRange(path string, most int) plan.Violation {
	return plan.Violation{Path: path, Code: plan.CodeRange, Message: fmt.Sprintf("must be from 1 to %d", most)}
}

// PageSize returns the number of rows that first asks for, usual when first is 0. Error: BAD_USER_INPUT.
func PageSize(first, usual int) (int, error) {
	n, _, err := PageEnd(first, 0, usual)
	return n, err
}

// PageEnd is PageSize for a list that can also be read backward, with last instead of first. Error: BAD_USER_INPUT,
// also when both are given.
func PageEnd(first, last, usual int) (n int, backward bool, err error) {
	var vs []plan.Violation
	for _, c := range []struct {
		path string
		n    int
	}{{"first", first}, {"last", last}} {
		if c.n < 0 || c.n > MaxPageSize {
			vs = append(vs, OutOfRange(c.path, MaxPageSize))
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

// PageOf converts the first n of rows with show. It returns true when rows has more than n.
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

// PageError is Translate for reading a page after a row. It returns CURSOR_INVALID when that row does not exist.
func PageError(after string, err error) error {
	if after != "" && errors.Is(err, store.ErrNotFound) {
		return CursorInvalid()
	}
	return Translate(err)
}

// ReadOn reads rows until keep has accepted n of them or no rows are left. It returns true when keep accepts a further
// row. It is for conditions that the store cannot filter by. read returns at most limit rows after last; last is nil at
// the start. Fewer than limit rows mean that no rows are left.
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
