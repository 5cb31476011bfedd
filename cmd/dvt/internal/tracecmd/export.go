// Package tracecmd exports the trace of a run, which it derives from the log that the API returns.
package tracecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/Khan/genqlient/graphql"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/otlp"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/trace"
)

// Session is what the command needs of the session of a client. It may be used only while the command runs.
type Session struct {
	Client  func() graphql.Client
	Out     func() io.Writer
	Version string // of dvt
}

// Export returns the command export.
func Export(s Session) *cobra.Command {
	var send bool
	c := &cobra.Command{
		Use: "export RUN", Short: "Print the trace of a run as OTLP JSON, or send it", Args: cmdline.ExactArgs(1),
		Long: `Print the trace of a run as OTLP JSON, or send it to an OpenTelemetry receiver.

The trace is derived from the run's log, so that it can be exported for any run,
however old, and is always the same: it replaces what a server exported. A run
that has not ended gives the spans that are finished, without the root.

--send uses the receiver of the OTEL_EXPORTER_OTLP_ENDPOINT variable and the
others of OpenTelemetry: docs/operations.md lists them.`,
		RunE: func(c *cobra.Command, args []string) error {
			if send && !otlp.IsEnabled(os.Getenv) {
				return cmdline.Usage(errors.New("--send: set OTEL_EXPORTER_OTLP_ENDPOINT to the address of the receiver"))
			}
			spans, err := read(c.Context(), s.Client(), args[0])
			if err != nil {
				return err
			}
			if send {
				return sendTrace(c.Context(), s, spans)
			}
			doc, err := otlp.JSON(os.Getenv, s.Version, spans)
			if err != nil {
				return err
			}
			_, err = console.Verbatim(s.Out()).Write(append(doc, '\n'))
			return err
		},
	}
	c.Flags().BoolVar(&send, "send", false, "send the trace to the receiver that the environment names")
	return c
}

// read reads the whole log of a run, page by page, and returns its finished spans.
func read(ctx context.Context, from graphql.Client, runID string) ([]trace.Span, error) {
	head, err := client.ShowTrace(ctx, from, runID)
	if err != nil {
		return nil, cmdline.Failure(err)
	}
	if head.Run == nil {
		return nil, cmdline.NotFound("run")
	}
	r := head.Run
	id := run.Identity{RunID: r.RunId, TenantID: r.TenantId, ProjectID: r.ProjectId, EnvironmentID: r.EnvironmentId,
		PlanID: r.Plan.PlanId, PlanVersion: r.Plan.PlanVersion}
	requested := r.CreatedAt
	if r.RequestedAt != nil {
		requested = *r.RequestedAt
	}
	b := trace.New(id, requested)
	var spans []trace.Span
	for size, after := pageOfEvents, int64(0); ; {
		out, err := client.ReadEvents(ctx, from, r.RunId, &size, &after, nil)
		if err != nil {
			return nil, cmdline.Failure(err)
		}
		if out.Run == nil {
			return nil, cmdline.NotFound("run")
		}
		for _, e := range out.Run.Events.Edges {
			after = e.Node.RunSeq
			spans = append(spans, b.Add([]run.Event{eventOf(id, e.Node)})...)
		}
		if !out.Run.Events.PageInfo.HasNextPage {
			return spans, nil
		}
	}
}

// eventOf returns the event of a row. Its identity is that of the run.
func eventOf(id run.Identity, e client.EventRow) run.Event {
	out := run.Event{Identity: id, EventID: e.EventId, Type: run.EventType(e.EventType), Seq: run.Seq(e.RunSeq),
		StepID: runtext.Deref(e.StepId), LogicalAttempt: e.LogicalAttemptId, EngineAttempt: e.EngineAttemptId,
		EmittedAt: e.EmittedAt, PersistedAt: e.PersistedAt}
	if e.Payload != nil {
		out.Payload = *e.Payload
	}
	return out
}

// The most events of one page of the API, and the most spans of one request to the receiver.
const (
	pageOfEvents = 200
	sentSpans    = 512
)

func sendTrace(ctx context.Context, s Session, spans []trace.Span) error {
	to, err := otlp.Open(ctx, os.Getenv, s.Version, slog.Default())
	if err != nil {
		return cmdline.Usage(err)
	}
	defer to.Close(context.WithoutCancel(ctx))
	for i := 0; i < len(spans); i += sentSpans {
		if err := to.Send(ctx, spans[i:min(i+sentSpans, len(spans))]); err != nil {
			return fmt.Errorf("%d of %d spans were sent, then the receiver failed: %w; repeat the command to send all",
				i, len(spans), err)
		}
	}
	fmt.Fprintf(s.Out(), "sent %d spans of trace %s\n", len(spans), traceIDOf(spans))
	return nil
}

func traceIDOf(spans []trace.Span) string {
	if len(spans) == 0 {
		return "(no span is finished yet)"
	}
	return spans[0].Trace.String()
}
