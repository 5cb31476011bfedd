package otlp

import (
	"context"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Limits of the text of an error, in bytes.
const (
	maxSearched = 64 << 10 // the part that is searched for secrets
	maxAnswer   = 300      // the part that is shown
	// minSecret is the length from which the value of a header is hidden. Shorter ones, such as "1", stand everywhere.
	minSecret = 4
)

// answerError is an error with the answer of a receiver, which may have megabytes, control characters, and the headers
// that it got.
type answerError struct {
	cause   error
	secrets []string
}

// answered returns an error whose text may be shown.
func (c *Client) answered(err error) error { return &answerError{err, c.secrets} }

// address finds addresses. Some services want a key in the path or the query.
var address = regexp.MustCompile(`(https?://[^/?#\s"]*)[/?#][^\s"]*`)

// Error implements error.
func (e *answerError) Error() string {
	text := e.cause.Error()
	text = text[:min(len(text), maxSearched)]
	for _, secret := range e.secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	text = address.ReplaceAllString(text, "$1")
	text = text[:min(len(text), maxAnswer)]
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// Unwrap returns the cause.
func (e *answerError) Unwrap() error { return e.cause }

// secretsOf returns the values of the headers that requests have, which are often keys, and the parts of the address
// that may be one. A value of two words, such as "Bearer KEY", is also hidden by its words.
func secretsOf(getenv func(string) string) (out []string) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		u, err := url.Parse(getenv(name))
		if err != nil {
			continue
		}
		for _, part := range []string{strings.TrimSuffix(u.Path, "/"), u.RawQuery} {
			if len(part) >= minSecret {
				out = append(out, part)
			}
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		for pair := range strings.SplitSeq(getenv(name), ",") {
			_, value, _ := strings.Cut(pair, "=")
			raw := strings.TrimSpace(value)
			words := strings.Fields(raw)
			if text, err := url.PathUnescape(raw); err == nil {
				words = append(words, text)
				words = append(words, strings.Fields(text)...)
			}
			for _, word := range append(words, raw) {
				if len(word) >= minSecret {
					out = append(out, word)
				}
			}
		}
	}
	return out
}

// exporter gives the errors of an exporter texts that may be shown.
type exporter struct {
	sdktrace.SpanExporter
	client *Client
}

func (x exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := x.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	return x.client.answered(err)
}
