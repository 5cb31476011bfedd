package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/otlp"
	"github.com/dvt-engine/dvt/otlp/otlptest"
	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/run/trace"
)

// The trace from the API equals the trace from the store, which the exporter of a server reads: a backend that got both
// has one trace.
// contract: R400
func TestTraceExport_EqualsTheTraceOfTheStore(t *testing.T) {
	receiver := otlptest.New(t)
	address, s := serveWatched(t)
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.StepFailedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.SignalRejected, "sig-1", 1))
	append1(t, s, runtest.Draft(log.RunFailed, "", 1))

	events, err := s.Events(t.Context(), "r1", 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	facts, err := s.Get(t.Context(), "r1")
	if err != nil {
		t.Fatal(err)
	}
	spans := trace.Of(facts.Identity, facts.CreatedAt, events)
	want, err := otlp.JSON(os.Getenv, version, spans)
	if err != nil {
		t.Fatal(err)
	}
	out, status, err := dvt(t, address, "dev-viewer", "trace", "export", "r1")
	if status != 0 || err != nil {
		t.Fatalf("status %d, %v: %s", status, err, out)
	}
	if diff := cmp.Diff(string(want)+"\n", out); diff != "" {
		t.Errorf("the exported trace (-of the store +of the command):\n%s", diff)
	}
	if _, status, _ := dvt(t, address, "dev-mallory", "trace", "export", "r1"); status != 4 {
		t.Errorf("the trace of another tenant's run: status %d, want 4", status)
	}
	if out, status, _ := dvt(t, address, "dev-viewer", "run", "show", "r1", "-o", "wide"); status != 0 ||
		!strings.Contains(out, "trace "+trace.IDOf("r1").String()) {
		t.Errorf("run show, status %d, does not name the trace:\n%s", status, out)
	}

	if _, status, err := dvt(t, address, "dev-viewer", "trace", "export", "r1", "--send"); status != usageStatus ||
		!strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_ENDPOINT") {
		t.Errorf("without an endpoint: status %d, %v, want a usage error that names the variable", status, err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	for range 2 { // a repetition changes nothing
		if out, status, err := dvt(t, address, "dev-viewer", "trace", "export", "r1", "--send"); status != 0 {
			t.Fatalf("status %d, %v: %s", status, err, out)
		}
	}
	if n := len(receiver.Trace(trace.IDOf("r1").String())); n != len(spans) || len(receiver.Contradictions()) > 0 {
		t.Errorf("the receiver has %d spans, want %d, and contradictions %v", n, len(spans), receiver.Contradictions())
	}
}
