package otlp_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/dvt-engine/dvt/otlp"
	"github.com/dvt-engine/dvt/otlp/otlptest"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/run/trace"
)

func clientOf(t *testing.T, url string, pairs ...string) *otlp.Client {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	for i := 0; i < len(pairs); i += 2 {
		t.Setenv(pairs[i], pairs[i+1])
	}
	c, err := otlp.Open(t.Context(), env(pairs...), "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// An answer costs bounded memory and time, and its text in an error is short and on one line.
func TestSend_BearsAHostileReceiver(t *testing.T) {
	endless := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			w.WriteHeader(status)
			chunk := []byte(strings.Repeat("line one\nline two \x1b[2Jline three ", 1000))
			for range 4 << 30 / len(chunk) {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}
	}
	long := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, strings.Repeat("forged\nline\x1b[2J", 50_000))
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"4 GB with 200": endless(200), "4 GB with 500": endless(500), "a long 500": long(500), "a long 400": long(400),
		"hangs": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // so that the server sees the end of the connection
			<-r.Context().Done()
		},
		"closes": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"closes within": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "some")
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(h)
			defer srv.Close()
			defer srv.CloseClientConnections()
			c := clientOf(t, srv.URL)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			err := c.Send(ctx, spans())
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Fatal("the spans count as received, want an error")
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the call took %s, want an end by the deadline of 2 s", took)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
				t.Errorf("the call took %d MB of memory, want at most 64", used>>20)
			}
			if text := err.Error(); len(text) > 400 || strings.ContainsFunc(text, unicode.IsControl) {
				t.Errorf("the error has %d bytes and may break a line: %.500q", len(text), text)
			}
		})
	}
}

// A receiver may answer with the request. Neither its key nor the path of its address, which is a key with some
// services, may stand in the error, which goes to the log.
func TestSend_AReceiverThatEchoesShowsNoKey(t *testing.T) {
	const key, path = "hunter2/is secret", "/v1/key-of-the-path"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, r.Header.Get("Authorization")+"\n\x1b[2J"+r.URL.Path+strings.Repeat("x", 100_000))
	}))
	defer srv.Close()
	c := clientOf(t, srv.URL+path, "OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL+path, "OTEL_EXPORTER_OTLP_HEADERS",
		"authorization=Bearer%20hunter2%2Fis%20secret")
	sdk := sdktrace.NewTracerProvider()
	_, span := sdk.Tracer("test").Start(t.Context(), "request")
	span.End()
	for name, err := range map[string]error{
		"spans of runs":     c.Send(t.Context(), spans()),
		"spans of requests": c.Exporter().ExportSpans(t.Context(), []sdktrace.ReadOnlySpan{span.(sdktrace.ReadOnlySpan)}),
	} {
		switch {
		case err == nil:
			t.Errorf("%s were received, want an error", name)
		case strings.Contains(err.Error(), "hunter2"), strings.Contains(err.Error(), key),
			strings.Contains(err.Error(), path):
			t.Errorf("the error about %s shows a key: %.400q", name, err.Error())
		case len(err.Error()) > 400 || strings.ContainsFunc(err.Error(), unicode.IsControl):
			t.Errorf("the error about %s has %d bytes and may break a line: %.400q", name, len(err.Error()), err.Error())
		case !strings.Contains(err.Error(), "500"):
			t.Errorf("the error about %s is %.400q, want the status", name, err.Error())
		}
	}
}

// A redirect would show the key of the receiver to a stranger, and its answer would count as the receipt.
func TestSend_FollowsNoRedirect(t *testing.T) {
	var strangers atomic.Int64
	stranger := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strangers.Add(1) }))
	defer stranger.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		srv := httptest.NewServer(http.RedirectHandler(stranger.URL, status))
		c := clientOf(t, srv.URL, "OTEL_EXPORTER_OTLP_HEADERS", "api-key=hunter2")
		if err := c.Send(t.Context(), spans()); err == nil || !strings.Contains(err.Error(), "redirect") {
			t.Errorf("status %d: the error is %v, want one that names the redirect", status, err)
		}
		srv.Close()
	}
	if n := strangers.Load(); n != 0 {
		t.Errorf("the stranger got %d requests, want none", n)
	}
}

// Bytes in the environment that are no UTF-8 would make every request fail, for ever.
func TestSend_ReachesTheReceiverWhateverTheResourceSays(t *testing.T) {
	for _, value := range []string{"team=%ff%fe", "team=\xff", "\xff=\xff,=,==,a", strings.Repeat("k=v,", 10_000)} {
		r := otlptest.New(t)
		c := clientOf(t, r.URL, "OTEL_RESOURCE_ATTRIBUTES", value, "OTEL_SERVICE_NAME", "d\xffvt")
		if err := c.Send(t.Context(), spans()); err != nil {
			t.Errorf("%.20q: %v", value, err)
		}
		if n := len(r.Trace(trace.IDOf(runtest.ID.RunID).String())); n != len(spans()) {
			t.Errorf("%.20q: the receiver has %d spans, want %d", value, n, len(spans()))
		}
	}
}

// Wrong values of the other variables cost no start.
func TestOpen_BearsAHostileEnvironment(t *testing.T) {
	for _, pair := range [][2]string{
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "-1"}, {"OTEL_EXPORTER_OTLP_TIMEOUT", "0"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "999999999999999999999"}, {"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere"}, {"OTEL_EXPORTER_OTLP_CLIENT_KEY", "/dev/zero-not"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=b\r\nInjected: yes"}, {"OTEL_EXPORTER_OTLP_INSECURE", "perhaps"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://[::1"}, {"OTEL_EXPORTER_OTLP_ENDPOINT", "gopher://x"},
	} {
		for _, protocol := range []string{"grpc", "http/protobuf"} {
			t.Run(pair[0]+"="+pair[1]+" "+protocol, func(t *testing.T) {
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer ln.Close()
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+ln.Addr().String())
				t.Setenv(pair[0], pair[1])
				c, err := otlp.Open(t.Context(), env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol), "test",
					slog.New(slog.DiscardHandler))
				if err != nil {
					return // it says what is wrong
				}
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				if err := c.Send(ctx, spans()); err == nil {
					t.Error("a receiver that never answers accepted the spans")
				}
				_ = c.Close(t.Context())
			})
		}
	}
}

// The library encodes JSON by the types of the protocol.
func TestSend_SendsJSON(t *testing.T) {
	var got struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []json.RawMessage }
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
	}))
	defer srv.Close()
	c := clientOf(t, srv.URL, "OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	if err := c.Send(t.Context(), spans()); err != nil {
		t.Fatal(err)
	}
	if n := len(got.ResourceSpans[0].ScopeSpans[0].Spans); n != len(spans()) {
		t.Errorf("the receiver has %d spans, want %d", n, len(spans()))
	}
}
