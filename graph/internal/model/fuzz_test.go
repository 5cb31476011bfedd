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

// FuzzScalars: whatever JSON a variable carries, a scalar takes it or refuses it with BAD_USER_INPUT,
// and what it takes is within its range and the same when it is written and read again.
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
		v, ok := decoded(doc)
		if !ok {
			return
		}
		refused := func(err error) bool {
			if err == nil {
				return false
			}
			if e, ok := errors.AsType[*control.Error](err); !ok || e.Code != run.CodeBadInput ||
				strings.ContainsAny(e.Message, "%\n") {
				t.Fatalf("%s is refused with %v", doc, err)
			}
			return true
		}
		if n, err := model.UnmarshalSeq(v); !refused(err) && (n < 0 || n > run.MaxSeq) {
			t.Fatalf("%s is the Seq %d", doc, n)
		}
		if n, err := model.UnmarshalInt(v); !refused(err) && int(int32(n)) != n { //nolint:gosec // what is looked for
			t.Fatalf("%s is the Int %d", doc, n)
		}
		if d, err := model.UnmarshalDuration(v); !refused(err) {
			back, ok := decoded(model.AppendDuration(nil, d))
			if again, err := model.UnmarshalDuration(back); !ok || err != nil || again != d {
				t.Fatalf("%s is the Duration %s, and again %s (%v)", doc, d, again, err)
			}
		}
		if at, err := model.UnmarshalTime(v); !refused(err) {
			if at.Year() < 1 || at.Year() > 9999 {
				t.Fatalf("%s is the Time %s, which no answer can write", doc, at)
			}
			back, ok := decoded(model.AppendTime(nil, at))
			if again, err := model.UnmarshalTime(back); !ok || err != nil || at.Sub(again).Abs() >= 1e6 {
				t.Fatalf("%s is the Time %s, and again %s (%v)", doc, at, again, err)
			}
		}
		if raw, err := model.UnmarshalJSON(v); !refused(err) {
			again, ok := decoded(raw)
			if twice, err := model.UnmarshalJSON(again); !ok || err != nil || !bytes.Equal(twice, raw) {
				t.Fatalf("%s is the JSON %s, and again %s (%v)", doc, raw, twice, err)
			}
		}
	})
}

// decoded is JSON as the transports read it.
func decoded(doc []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	return v, d.Decode(&v) == nil
}
