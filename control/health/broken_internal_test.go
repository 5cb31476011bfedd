package health

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestMeasureHealth_LogsABrokenPartOnceAndItsRecovery(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, b, at := slog.New(slog.NewTextHandler(&out, nil)), brokenChecks{}, time.Unix(1_700_000_000, 0)
	for i, status := range []string{"HEALTHY", "UNHEALTHY", "UNHEALTHY", "UNHEALTHY", "HEALTHY", "HEALTHY"} {
		b.note(t.Context(), Health{Checks: []HealthCheck{{Name: CheckTemporal, Status: status, Message: "No answer."},
			{Name: CheckBus, Status: status}}}, at.Add(time.Duration(i)*15*time.Second), log)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "temporal-namespace") ||
		!strings.Contains(lines[1], "level=INFO") || !strings.Contains(lines[1], "after=45s") {
		t.Errorf("the log is %q, want one warning with what to do, and one line after 45 s", lines)
	}
}
