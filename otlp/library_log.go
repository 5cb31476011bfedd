package otlp

import (
	"log/slog"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
)

// logLibrary makes the libraries of OpenTelemetry, which have one logger for the process, write through log. By default
// they write to standard error, and a malformed OTEL_EXPORTER_OTLP_HEADERS with them, which is a secret. So a line has
// what failed, and neither values nor the text of the error, which quotes them.
func logLibrary(log *slog.Logger) {
	otel.SetLogger(logr.New(librarySink{log}))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("spans of requests were not exported; they are dropped", slog.Any("error", err))
	}))
}

type librarySink struct{ to *slog.Logger }

func (s librarySink) Init(logr.RuntimeInfo) {}

func (s librarySink) Enabled(int) bool { return false } // of Info

func (s librarySink) Info(int, string, ...any) {}

func (s librarySink) Error(_ error, msg string, _ ...any) {
	s.to.Warn("OpenTelemetry reported an error: check the OTEL_… variables", slog.String("what", msg))
}

func (s librarySink) WithValues(...any) logr.LogSink { return s }

func (s librarySink) WithName(string) logr.LogSink { return s }
