package runs

import (
	"errors"
	"testing"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
)

// FuzzCursors checks that a cursor is decoded or refused with CURSOR_INVALID, and that encoding it again does not
// change it.
func FuzzCursors(f *testing.F) {
	for _, s := range []string{
		"", "x", "MjAyNi0xMS0yMVQwMDowMDowMFogcjE", "2026-11-21T00:00:00Z r1 s1", "2026-11-21T00:00:00Z  s1",
		"9999999-01-01T00:00:00Z a b", "\x00 \x00 \x00",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		valid := func(err error) bool {
			if own, ok := errors.AsType[*control.Error](err); err != nil && (!ok || own.Code != run.CodeCursorInvalid) {
				t.Fatalf("%q is refused with %v, want CURSOR_INVALID", s, err)
			}
			return err == nil && s != ""
		}
		if at, err := control.DecodeCursor(s); valid(err) {
			if again, err := control.DecodeCursor(control.EncodeCursor(*at)); err != nil ||
				!again.CreatedAt.Equal(at.CreatedAt) ||
				again.RunID != at.RunID {
				t.Fatalf("%q is %+v, and again %+v (%v)", s, at, again, err)
			}
		}
		if at, err := decodeWait(s); valid(err) {
			if again, err := decodeWait(encodeWait(*at)); err != nil || !again.Since.Equal(at.Since) ||
				again.RunID != at.RunID || again.StepID != at.StepID {
				t.Fatalf("%q is %+v, and again %+v (%v)", s, at, again, err)
			}
		}
	})
}
