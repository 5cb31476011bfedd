// Package otlp sends the spans of runs in the OpenTelemetry protocol, and writes them as OTLP JSON.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dvt-engine/dvt/run/trace"
)

// Client sends spans to the endpoint of the OTEL_EXPORTER_OTLP_… variables. It does not repeat a call that failed. It
// is safe for concurrent use. Create it with Open.
type Client struct {
	upload   otlptrace.Client
	resource *resourcepb.Resource
	version  string
	json     bool     // the protocol is http/json, whose encoder needs the types of the protocol
	secrets  []string // that errors must not show
}

// IsEnabled reports whether the environment names an endpoint for traces.
func IsEnabled(getenv func(string) string) bool {
	return !strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") && getenv("OTEL_TRACES_EXPORTER") != "none" &&
		(getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "")
}

// Open returns a client for the endpoint that the environment names. It does not connect yet. version is that of dvt.
// The lines of OpenTelemetry's libraries go to log.
func Open(ctx context.Context, getenv func(string) string, version string, log *slog.Logger) (*Client, error) {
	logLibrary(log)
	c := &Client{resource: resourceOf(getenv), version: version, secrets: secretsOf(getenv)}
	protocol := getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	switch protocol {
	case "grpc":
		c.upload = otlptracegrpc.NewClient(otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}))
	case "", "http/protobuf", "http/json":
		c.json = protocol == "http/json"
		c.upload = otlptracehttp.NewClient(otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}),
			otlptracehttp.WithProxy(proxyOf))
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: use grpc, http/protobuf or http/json", protocol)
	}
	return c, c.upload.Start(ctx)
}

// Close releases the connection.
func (c *Client) Close(ctx context.Context) error { return c.upload.Stop(ctx) }

// Exporter returns an exporter for the SDK of OpenTelemetry on the same connection. Its Shutdown does not close it.
func (c *Client) Exporter() sdktrace.SpanExporter {
	return exporter{otlptrace.NewUnstarted(c.upload), c}
}

// Resource returns the resource of the spans of this process.
func (c *Client) Resource() *resource.Resource {
	var attrs []attribute.KeyValue
	for _, a := range c.resource.Attributes {
		attrs = append(attrs, attribute.String(a.Key, a.Value.GetStringValue()))
	}
	return resource.NewSchemaless(attrs...)
}

// RefusedError says that the receiver will never accept the spans of a call, or did not accept some of them. Repeating
// the call is of no use. Spans is the number of refused spans.
type RefusedError struct {
	Spans int
	Cause error
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("the receiver refused %d spans: %v", e.Spans, e.Cause)
}

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Cause }

// Send sends spans in one request; without spans it asks whether the receiver accepts requests. It returns a
// *RefusedError when the receiver refused them for their content or size; any other error may be temporary. The text of
// an error has at most 300 printable bytes of the answer, and neither the path of the address nor values of headers.
func (c *Client) Send(ctx context.Context, spans []trace.Span) error {
	request := c.encode(spans)
	if c.json {
		var err error
		if request, err = typed(request); err != nil {
			return err
		}
	}
	err := c.upload.UploadTraces(ctx, []*tracepb.ResourceSpans{request})
	if err == nil {
		return nil
	}
	if some := partial.FindStringSubmatch(err.Error()); some != nil {
		if n, _ := strconv.Atoi(some[1]); n > 0 {
			return &RefusedError{Spans: n, Cause: c.answered(err)}
		}
		return nil // only a warning
	}
	if isRefusal(err) {
		return &RefusedError{Spans: len(spans), Cause: c.answered(err)}
	}
	return c.answered(err)
}

// proxyOf chooses the proxy by the environment, as the client does without it. It refuses the second request of a
// redirect: the client would turn it into a GET, take the answer for the receipt of the spans, and show the headers of
// the receiver, which may hold a key, to another one.
func proxyOf(r *http.Request) (*url.URL, error) {
	if r.Response != nil {
		return nil, errors.New("the receiver answers with a redirect, which is not followed: set its final address")
	}
	return http.ProxyFromEnvironment(r)
}

// The HTTP client of OpenTelemetry has no types for these errors, only texts. A test compares them with its texts; an
// error that does not match is treated as temporary, so that nothing is lost.
var (
	partial     = regexp.MustCompile(`OTLP partial success: .* \((\d+) spans rejected\)`)
	httpRefusal = regexp.MustCompile(`^failed to send to \S+: (400|413|422) `)
)

func isRefusal(err error) bool {
	if httpRefusal.MatchString(err.Error()) {
		return true
	}
	s, ok := status.FromError(err)
	return ok && s.Code() == codes.InvalidArgument
}

// resourceOf returns the resource of the variables OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
func resourceOf(getenv func(string) string) *resourcepb.Resource {
	name, out := strings.ToValidUTF8(getenv("OTEL_SERVICE_NAME"), "\uFFFD"), &resourcepb.Resource{}
	for pair := range strings.SplitSeq(getenv("OTEL_RESOURCE_ATTRIBUTES"), ",") {
		key, value, found := strings.Cut(strings.ToValidUTF8(pair, "\uFFFD"), "=")
		if key = strings.TrimSpace(key); !found || key == "" {
			continue
		}
		if text, err := url.PathUnescape(strings.TrimSpace(value)); err == nil {
			value = strings.ToValidUTF8(text, "\uFFFD") // a receiver refuses the whole request otherwise
		}
		if key == "service.name" {
			if name == "" {
				name = value
			}
			continue
		}
		out.Attributes = append(out.Attributes, textValue(key, value))
	}
	if name == "" {
		name = "dvt"
	}
	out.Attributes = append([]*commonpb.KeyValue{textValue("service.name", name)}, out.Attributes...)
	return out
}
