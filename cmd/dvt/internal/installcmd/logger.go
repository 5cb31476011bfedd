package installcmd

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
)

// newLogger returns a logger that writes records of the level and above to w. format is json or text. With "" it is
// text on a terminal, for people, and json elsewhere, for collectors of logs.
func newLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, cmdline.Usage(fmt.Errorf("log-level must be debug, info, warn or error, not %q", level))
	}
	options := &slog.HandlerOptions{Level: l}
	if format == "" {
		format = "json"
		if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			format = "text"
		}
	}
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	}
	return nil, cmdline.Usage(fmt.Errorf("log-format must be json or text, not %q", format))
}
