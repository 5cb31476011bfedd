package run_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/dvt-engine/dvt/run"
)

func TestText_MakesTextFitForARow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in string
		limit    int
		want     string
	}{
		{"plain", "because", 100, "because"},
		{"tab and line feed stay", "a\tb\nc", 100, "a\tb\nc"},
		{"NUL", "probe\x00", 100, "probe\uFFFD"},
		{"escape sequence", "\x1b]52;c;eA==\x07", 100, "\uFFFD]52;c;eA==\uFFFD"},
		{"C1 control", "a\u009bb", 100, "a\uFFFDb"},
		{"broken UTF-8", "a\xc3", 100, "a\uFFFD"},
		{"override of direction", "a\u202eb", 100, "a\uFFFDb"},
		{"cut between characters", strings.Repeat("a", 999) + "é", 1000, strings.Repeat("a", 999)},
		{"cut after a character", strings.Repeat("a", 998) + "éx", 1000, strings.Repeat("a", 998) + "é"},
		{"no room", "é", 0, ""},
	} {
		if got := run.Text(c.in, c.limit); got != c.want {
			t.Errorf("%s: Text() = %q, want %q", c.name, got, c.want)
		}
	}
}

func TestText_IsValidBoundedAndStable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "bytes")) + rapid.String().Draw(t, "letters")
		limit := rapid.IntRange(0, 100).Draw(t, "limit")
		out := run.Text(in, limit)
		if !utf8.ValidString(out) || !run.IsText(out) || len(out) > limit || run.Text(out, limit) != out {
			t.Fatalf("Text(%q, %d) = %q, want valid text within the limit that Text does not change", in, limit, out)
		}
		if run.IsText(in) && len(in) <= limit && out != in {
			t.Fatalf("Text() changed the valid text %q to %q", in, out)
		}
	})
}
