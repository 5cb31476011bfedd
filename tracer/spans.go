package tracer

import (
	"context"
	"errors"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/trace"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/feed"
)

// spansOf returns the spans that a batch finishes.
func (s *session) spansOf(ctx context.Context, b feed.Batch) ([]trace.Span, error) {
	for _, e := range b.Events {
		if e.Type.EndsRun() && e.PersistedAt.Before(s.at.Since) {
			return nil, nil // it ended before anybody asked for traces
		}
	}
	builder, err := s.builderOf(ctx, b)
	if err != nil || builder == nil {
		return nil, err
	}
	had := builder.Ended()
	spans := builder.Add(b.Events)
	s.builders.Put(b.RunID, builder, builder.Weight())
	if trace.IsSampled(trace.IDOf(b.RunID), s.cfg.Ratio) {
		return spans, nil
	}
	if had || !builder.Ended() || !builder.Failed() {
		return nil, nil
	}
	return s.wholeTrace(ctx, b.RunID, builder.Seq())
}

// builderOf returns the builder of a run at the event before the batch, or after it when the feed repeats events. It is
// nil when the run no longer exists.
func (s *session) builderOf(ctx context.Context, b feed.Batch) (*trace.Builder, error) {
	before := b.Events[0].Seq - 1
	if builder, found := s.builders.Get(b.RunID); found && builder.Seq() >= before {
		return builder, nil
	}
	builder, err := s.newBuilder(ctx, b.RunID)
	if err != nil || builder == nil {
		return nil, err
	}
	_, err = s.read(ctx, b.RunID, builder, before)
	return builder, err
}

// wholeTrace returns all spans of a run that is not sampled and has failed.
func (s *session) wholeTrace(ctx context.Context, runID string, to run.Seq) ([]trace.Span, error) {
	builder, err := s.newBuilder(ctx, runID)
	if err != nil || builder == nil {
		return nil, err
	}
	return s.read(ctx, runID, builder, to)
}

func (s *session) newBuilder(ctx context.Context, runID string) (*trace.Builder, error) {
	r, err := s.cfg.Store.Get(ctx, runID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is nothing to trace
	}
	if err != nil {
		return nil, err
	}
	return trace.New(r.Identity, r.CreatedAt), nil
}

// read reads the events of a run up to a seq into its builder.
func (s *session) read(ctx context.Context, runID string, builder *trace.Builder, to run.Seq) ([]trace.Span, error) {
	var spans []trace.Span
	for builder.Seq() < to {
		events, err := s.cfg.Store.Events(ctx, runID, builder.Seq(), int(min(to-builder.Seq(), store.MaxPage)))
		if err != nil {
			return nil, err
		}
		if len(events) == 0 {
			break // the log is shorter since a restore; the feed says so next
		}
		for len(events) > 0 && events[len(events)-1].Seq > to {
			events = events[:len(events)-1]
		}
		spans = append(spans, builder.Add(events)...)
	}
	return spans, nil
}
