package installcmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// A collector of logs reads JSON; a file or a pipe is no terminal.
func TestNewLogger_WritesJSONUnlessItIsATerminal(t *testing.T) {
	for format, isJSON := range map[string]bool{"": true, "json": true, "text": false} {
		var out bytes.Buffer
		lines, _, err := newLogger(&out, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		lines.Info("started", "runId", "r1")
		if json.Valid(out.Bytes()) != isJSON || !strings.Contains(out.String(), "runId") {
			t.Errorf("format %q wrote %q, want JSON: %t", format, out.String(), isJSON)
		}
	}
	if _, _, err := newLogger(&bytes.Buffer{}, "info", "xml"); err == nil || !strings.Contains(err.Error(), "log-format") {
		t.Errorf("the error is %v, want one that names log-format", err)
	}
}

// Names come from authors of plans and from callers. A line stays one line of printable text, and its JSON has the name
// unchanged.
func TestNewLogger_LetsNoNameReachTheTerminal(t *testing.T) {
	names := []string{"a\nlevel=ERROR msg=forged", "\x1b]0;title\x07", "\x1b[2J", "\u009b31m", "\u202egnp.exe", "\x7f\r",
		"\u2028", "\U000e0041", "\xff\xfe", "ü and 木 stay"}
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		log, _, err := newLogger(&out, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			out.Reset()
			log.Info(name, slog.String(name, name), slog.Any("error", errors.New(name)), slog.Any("names", []string{name}))
			line := strings.TrimSuffix(out.String(), "\n")
			for _, r := range line {
				if !unicode.IsPrint(r) {
					t.Errorf("%s: the line %q of the name %q has the rune %U", format, line, name, r)
				}
			}
			var back map[string]any
			if format == "json" && utf8.ValidString(name) {
				if err := json.Unmarshal([]byte(line), &back); err != nil || back[name] != name || back["msg"] != name {
					t.Errorf("the line %s does not give the name %q back: %v", line, name, err)
				}
			}
		}
		if !strings.Contains(out.String(), "ü and 木 stay") {
			t.Errorf("%s: the line is %q, want letters of all languages unchanged", format, out.String())
		}
	}
}

// A library that uses Go's own logger writes no line past the format.
func TestNewLogger_TakesTheLinesOfGosLogger(t *testing.T) {
	var out bytes.Buffer
	if _, _, err := newLogger(&out, "info", "json"); err != nil {
		t.Fatal(err)
	}
	log.Print("a library speaks")
	if !json.Valid(out.Bytes()) || !strings.Contains(out.String(), "a library speaks") {
		t.Errorf("Go's logger wrote %q, want one line of JSON", out.String())
	}
}
