package model_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// FuzzScalars reads JSON values as scalars. A scalar rejects a value with BAD_USER_INPUT, or accepts a value within its
// range that stays the same when it is written and read again.
func FuzzScalars(f *testing.F) {
	for _, s := range []string{
		`"0000-01-01T00:00:00+23:59"`, `"0001-01-01T00:00:00+00:01"`, `"9999-12-31T23:59:59-00:01"`,
		"0", "-1", "9007199254740991", "9007199254740992", "1e3", "1.5", "1e400", "-0", `"7"`, `"-7"`, `"1e3"`, "null",
		"true", "[]", `{"a":{"b":[1,"\ud800"]}}`,
		`"2026-11-21T03:12:07.123Z"`, `"2026-11-21T03:12:07+14:00"`, `"0000-01-01T00:00:00Z"`, `"9999-12-31T23:59:60Z"`,
		"123456789012345678901234567890",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		v, ok := decode(doc)
		if !ok {
			return
		}
		isRejected := func(err error) bool {
			if err == nil {
				return false
			}
			if e, ok := errors.AsType[*control.Error](err); !ok || e.Code != run.CodeBadInput ||
				strings.ContainsAny(e.Message, "%\n") {
				t.Fatalf("%s was rejected with %v, want BAD_USER_INPUT", doc, err)
			}
			return true
		}
		if n, err := model.UnmarshalSeq(v); !isRejected(err) && (n < 0 || n > run.MaxSeq) {
			t.Fatalf("%s became the Seq %d, want at most 2^53-1", doc, n)
		}
		if n, err := model.UnmarshalInt(v); !isRejected(err) && int(int32(n)) != n { //nolint:gosec // looks for an overflow
			t.Fatalf("%s became the Int %d, want 32 bits", doc, n)
		}
		if d, err := model.UnmarshalDuration(v); !isRejected(err) {
			back, ok := decode(model.AppendDuration(nil, d))
			if again, err := model.UnmarshalDuration(back); !ok || err != nil || again != d {
				t.Fatalf("%s became the Duration %s, which is read again as %s (%v)", doc, d, again, err)
			}
		}
		if at, err := model.UnmarshalTime(v); !isRejected(err) {
			if at.Year() < 1 || at.Year() > 9999 {
				t.Fatalf("%s became the Time %s, want the years 1 to 9999", doc, at)
			}
			back, ok := decode(model.AppendTime(nil, at))
			if again, err := model.UnmarshalTime(back); !ok || err != nil || at.Sub(again).Abs() >= 1e6 {
				t.Fatalf("%s became the Time %s, which is read again as %s (%v)", doc, at, again, err)
			}
		}
		if raw, err := model.UnmarshalJSON(v); !isRejected(err) {
			again, ok := decode(raw)
			if twice, err := model.UnmarshalJSON(again); !ok || err != nil || !bytes.Equal(twice, raw) {
				t.Fatalf("%s became the JSON %s, which is read again as %s (%v)", doc, raw, twice, err)
			}
		}
	})
}

// decode decodes JSON as the transports do.
func decode(doc []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	return v, d.Decode(&v) == nil
}
