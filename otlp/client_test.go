package otlp_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/otlp"
	"github.com/dvt-engine/dvt/otlp/otlptest"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/run/trace"
)

func spans() []trace.Span {
	return trace.Of(runtest.ID, time.Time{}, runtest.Log(runtest.Draft(run.RunApproved, "", 1), runtest.Start("a"),
		runtest.Draft(run.StepStartedEvent, "a", 1), runtest.Draft(run.StepFailedEvent, "a", 1),
		runtest.Draft(run.RunFailed, "", 1)))
}

func env(pairs ...string) func(string) string {
	return func(key string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == key {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// The client of OpenTelemetry reads the environment of the process itself.
func TestSend_ReachesTheReceiver(t *testing.T) {
	r := otlptest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	c, err := otlp.Open(t.Context(), env(), "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(t.Context(), spans()); err != nil {
		t.Fatal(err)
	}
	got := r.Trace(trace.IDOf(runtest.ID.RunID).String())
	if len(got) != len(spans()) {
		t.Fatalf("the receiver has %d spans, want %d", len(got), len(spans()))
	}
	attempt := got[trace.AttemptSpan(runtest.ID.RunID, "a", 1).String()]
	if attempt == nil || attempt.Status.GetMessage() != "EXIT_STATUS" ||
		hex.EncodeToString(attempt.ParentSpanId) != trace.StepSpan(runtest.ID.RunID, "a").String() {
		t.Errorf("the span of the attempt is %v, want a failure EXIT_STATUS below its step", attempt)
	}
}

// The server is generated from the protocol of the OpenTelemetry project, as that of a collector is.
func TestSend_ReachesAReceiverOverGRPC(t *testing.T) {
	r := otlptest.NewGRPC(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	c, err := otlp.Open(t.Context(), env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for status, refused := range map[int]bool{400: true, 429: false, 503: false} {
		r.Answer(func() int { return status })
		err := c.Send(t.Context(), spans())
		var e *otlp.RefusedError
		if err == nil || errors.As(err, &e) != refused {
			t.Errorf("status %d: the error is %v, want a refusal: %t", status, err, refused)
		}
	}
	r.Answer(nil)
	if err := c.Send(t.Context(), spans()); err != nil {
		t.Fatal(err)
	}
	if calls, _ := r.Calls(); calls != 4 {
		t.Errorf("4 calls made %d requests, want no retry", calls)
	}
	if got := r.Trace(trace.IDOf(runtest.ID.RunID).String()); len(got) != len(spans()) {
		t.Errorf("the receiver has %d spans, want %d", len(got), len(spans()))
	}
}

// The libraries of OpenTelemetry write what they cannot read to standard error, with the secret in it.
func TestOpen_LetsNoSecretOfTheEnvironmentReachTheLog(t *testing.T) {
	const secret = "hunter2-is-secret"
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:"+secret+"@127.0.0.1:1/%zz")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://user:"+secret+"@127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key "+secret+",authorization=%zz"+secret)
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", secret)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = write
	var log bytes.Buffer
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		c, err := otlp.Open(t.Context(), env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol), "test",
			slog.New(slog.NewJSONHandler(&log, nil)))
		if err != nil {
			log.WriteString(err.Error())
			continue
		}
		if err := c.Send(t.Context(), spans()); err != nil {
			log.WriteString(err.Error())
		}
		_ = c.Close(t.Context())
	}
	os.Stderr = stderr
	_ = write.Close()
	_, _ = log.ReadFrom(read)
	if strings.Contains(log.String(), secret) {
		t.Errorf("the log has a secret of the environment:\n%s", log.String())
	}
	if !strings.Contains(log.String(), "check the OTEL_") {
		t.Errorf("the log is %q, want a line that says which setting is wrong", log.String())
	}
}

func TestSend_TellsRefusalsFromOutages(t *testing.T) {
	r := otlptest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	c, err := otlp.Open(t.Context(), env(), "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for status, refused := range map[int]bool{400: true, 413: true, 401: false, 404: false, 429: false, 500: false,
		503: false} {
		r.Answer(func() int { return status })
		err := c.Send(t.Context(), spans())
		var e *otlp.RefusedError
		if err == nil || errors.As(err, &e) != refused {
			t.Errorf("status %d: the error is %v, want a refusal: %t", status, err, refused)
		}
	}
	if calls, _ := r.Calls(); calls != 7 {
		t.Errorf("7 calls made %d requests, want no retry", calls)
	}
}

func TestOpen_RefusesAnUnknownProtocol(t *testing.T) {
	t.Parallel()
	_, err := otlp.Open(t.Context(), env("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier-pigeon"), "test",
		slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "use grpc, http/protobuf or http/json") {
		t.Errorf("the error is %v, want one that lists the protocols", err)
	}
}

func TestIsEnabled_OnlyWithAnEndpoint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  []string
		want bool
	}{
		"nothing":  {nil, false},
		"all":      {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://x"}, true},
		"traces":   {[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://x"}, true},
		"disabled": {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://x", "OTEL_SDK_DISABLED", "true"}, false},
		"none":     {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://x", "OTEL_TRACES_EXPORTER", "none"}, false},
	} {
		if got := otlp.IsEnabled(env(c.env...)); got != c.want {
			t.Errorf("%s: IsEnabled is %t, want %t", name, got, c.want)
		}
	}
}

func TestJSON_IsOTLPAndStable(t *testing.T) {
	t.Parallel()
	getenv := env("OTEL_SERVICE_NAME", "dvt-test", "OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=my%20lab")
	doc, err := otlp.JSON(getenv, "test", spans())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // protojson varies its white space
		again, err := otlp.JSON(getenv, "test", spans())
		if err != nil || !bytes.Equal(doc, again) {
			t.Fatalf("the same spans gave other bytes (%v)", err)
		}
	}
	var got struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes []struct{ Key string } }
			ScopeSpans []struct {
				Spans []struct{ TraceID, SpanID, ParentSpanID, StartTimeUnixNano string }
			}
		}
	}
	if err := json.Unmarshal(doc, &got); err != nil {
		t.Fatal(err)
	}
	root := got.ResourceSpans[0].ScopeSpans[0].Spans[len(spans())-1]
	if root.TraceID != trace.IDOf(runtest.ID.RunID).String() || root.ParentSpanID != "" ||
		root.SpanID != trace.RootSpan(runtest.ID.RunID).String() || root.StartTimeUnixNano == "" {
		t.Errorf("the root is %+v, want ids in hex and a time in nanoseconds", root)
	}
	if n := len(got.ResourceSpans[0].Resource.Attributes); n != 2 {
		t.Errorf("the resource has %d attributes, want the name of the service and the environment", n)
	}
}
