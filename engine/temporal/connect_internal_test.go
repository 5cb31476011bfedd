package temporal

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
)

func TestSDKLogger_ShowsFaultsAndHidesStops(t *testing.T) {
	var out bytes.Buffer
	log := sdklog.With(sdkLogger{sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(&out, nil)))}, "Queue", "q")
	log.Error("Activity error.", "Error", temporal.NewCanceledError())
	if out.Len() > 0 {
		t.Errorf("a stop has the line %q, want none", out.String())
	}
	log.Error("Activity error.", "Error", errors.New("the journal refused"))
	if !strings.Contains(out.String(), "level=ERROR") || !strings.Contains(out.String(), "the journal refused") {
		t.Errorf("a fault has the lines %q, want one at ERROR", out.String())
	}
}
