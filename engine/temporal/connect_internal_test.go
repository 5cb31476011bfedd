package temporal

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
)

func TestSDKLogger_ShowsFaultsAndHidesStops(t *testing.T) {
	var out bytes.Buffer
	log := sdklog.With(newSDKLogger(slog.New(slog.NewTextHandler(&out, nil))), "Queue", "q")
	log.Error("Activity error.", "Error", temporal.NewCanceledError())
	if out.Len() > 0 {
		t.Errorf("a stop has the line %q, want none", out.String())
	}
	log.Error("Activity error.", "Error", errors.New("the journal refused"))
	if !strings.Contains(out.String(), "level=ERROR") || !strings.Contains(out.String(), "the journal refused") {
		t.Errorf("a fault has the lines %q, want one at ERROR", out.String())
	}
}

func TestSDKLogger_WritesTheSameFailureOnceAMinuteWithACount(t *testing.T) {
	var out bytes.Buffer
	l := newSDKLogger(slog.New(slog.NewTextHandler(&out, nil)))
	at := time.Unix(1_700_000_000, 0)
	l.repeats.now = func() time.Time { return at }
	log := sdklog.With(l, "Queue", "q")
	for range 40 {
		log.Warn("Failed to poll for task.", "Error", errors.New("connection refused"))
		at = at.Add(2 * time.Second)
	}
	log.Warn("Failed to poll for task.", "Error", errors.New("another reason"))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || strings.Contains(lines[0], "Repeated") || !strings.Contains(lines[1], "Repeated=29") ||
		!strings.Contains(lines[2], "another reason") {
		t.Errorf("80 s of one failure have the lines %q, want one a minute and one for the other failure", lines)
	}
}
