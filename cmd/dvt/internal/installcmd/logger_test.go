package installcmd

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// A collector of logs reads JSON; a file or a pipe is no terminal.
func TestNewLogger_WritesJSONUnlessItIsATerminal(t *testing.T) {
	t.Parallel()
	for format, isJSON := range map[string]bool{"": true, "json": true, "text": false} {
		var out bytes.Buffer
		log, err := newLogger(&out, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("started", "runId", "r1")
		if json.Valid(out.Bytes()) != isJSON || !strings.Contains(out.String(), "runId") {
			t.Errorf("format %q wrote %q, want JSON: %t", format, out.String(), isJSON)
		}
	}
	if _, err := newLogger(&bytes.Buffer{}, "info", "xml"); err == nil || !strings.Contains(err.Error(), "log-format") {
		t.Errorf("the error is %v, want one that names log-format", err)
	}
}
