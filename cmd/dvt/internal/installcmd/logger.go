package installcmd

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/internal/logfold"
)

// newLogger returns a logger that writes records of the level and above to w, and folds repeated failures. The caller
// calls flush when the process has worked, for the failures that were not written yet. format is json or text. With ""
// it is text on a terminal, for people, and json elsewhere, for collectors of logs.
//
// The lines of libraries that use Go's standard logger go through it too.
func newLogger(w io.Writer, level, format string) (log *slog.Logger, flush func(), err error) {
	l := new(slog.LevelVar)
	if err := setLevel(l, level); err != nil {
		return nil, nil, err
	}
	return newLeveledLogger(w, l, format)
}

// setLevel sets a level from its name in the settings.
func setLevel(l *slog.LevelVar, name string) error {
	if err := l.UnmarshalText([]byte(name)); err != nil {
		return cmdline.Usage(fmt.Errorf("log-level must be debug, info, warn or error, not %q", name))
	}
	return nil
}

// newLeveledLogger is newLogger with a level that may change while the process runs.
func newLeveledLogger(w io.Writer, l *slog.LevelVar, format string) (log *slog.Logger, flush func(), err error) {
	options := &slog.HandlerOptions{Level: l}
	if format == "" {
		format = "json"
		if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			format = "text"
		}
	}
	var to slog.Handler
	switch format {
	case "json":
		to = slog.NewJSONHandler(escapingWriter{w}, options)
	case "text":
		to = slog.NewTextHandler(w, options) // quotes what a terminal would interpret
	default:
		return nil, nil, cmdline.Usage(fmt.Errorf("log-format must be json or text, not %q", format))
	}
	folded := logfold.New(to)
	log = slog.New(folded)
	slog.SetDefault(log)
	return log, folded.Flush, nil
}

// escapingWriter escapes the runes of JSON that a terminal may interpret or hide, such as the control characters after
// DEL and those that change the direction of text. A name that an author of plans chose may contain them.
type escapingWriter struct{ to io.Writer }

// Write implements io.Writer.
func (w escapingWriter) Write(line []byte) (int, error) {
	if bytes.IndexFunc(line, isHarmful) < 0 {
		return w.to.Write(line)
	}
	out := make([]byte, 0, len(line)+64)
	for _, r := range string(line) {
		switch {
		case !isHarmful(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	_, err := w.to.Write(out)
	return len(line), err
}

func isHarmful(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }
