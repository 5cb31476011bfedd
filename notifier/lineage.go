package notifier

import (
	"context"
	"errors"
	"log/slog"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/internal/sizedlru"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/lineage"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/feed"
)

// Bounds of what lineage keeps in memory.
const (
	maxBuilders       = 1_000
	maxBuilderWeight  = 200_000 // steps and nodes of a destination
	maxManifests      = 16
	maxManifestsBytes = 128 << 20
)

// lineageLane and a run name a lane, so that the events of a run arrive in order.
const lineageLane = "lineage/"

// LineageStore is the feed, and the part of a store that lineage reads beside it.
type LineageStore interface {
	feed.Store
	Get(ctx context.Context, runID string) (store.Run, error)
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
}

// lineageReader is the lineage that a session has derived from the feed and not yet put into lanes. The events of one
// step can be thousands, so they wait here as references to their manifest, and become messages when there is room.
type lineageReader struct {
	builders *sizedlru.Cache[*lineage.Builder]
	id       run.Identity // of the run of pending
	pending  []lineage.Event
	batch    *batch // holds the position while something is pending
	waiting  bool   // for a manifest that cannot be read
}

// deriveLineage derives the events of lineage from a batch of the feed.
func (s *session) deriveLineage(ctx context.Context, part *batch, b feed.Batch) error {
	if len(b.Events) == 0 || !s.takesLineageOf(b.Events[0].Identity) {
		return nil
	}
	builder, err := s.builderOf(ctx, b)
	if err != nil || builder == nil {
		return err
	}
	found := builder.Add(b.Events)
	s.lineage.builders.Put(b.RunID, builder, builder.Weight())
	if len(found) > 0 {
		part.left++
		s.lineage.pending, s.lineage.batch, s.lineage.id = found, part, b.Events[0].Identity
	}
	return nil
}

// takesLineageOf reports whether the destination takes any lineage of a run.
func (s *session) takesLineageOf(id run.Identity) bool {
	c := s.dest
	c.Route.Types = nil
	return c.Selects(destination.Message{Topic: destination.Lineage, TenantID: id.TenantID, ProjectID: id.ProjectID})
}

// builderOf returns the builder of a run at the event before the batch, or after it when the feed repeats events. It is
// nil when the run no longer exists.
func (s *session) builderOf(ctx context.Context, b feed.Batch) (*lineage.Builder, error) {
	before := b.Events[0].Seq - 1
	if builder, found := s.lineage.builders.Get(b.RunID); found && builder.Seq() >= before {
		return builder, nil
	}
	r, err := s.cfg.Store.Get(ctx, b.RunID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is nothing to derive
	}
	if err != nil {
		return nil, err
	}
	builder := lineage.New(r.Identity, s.at.Since)
	for builder.Seq() < before {
		events, err := s.cfg.Store.Events(ctx, b.RunID, builder.Seq(), int(min(before-builder.Seq(), store.MaxPage)))
		if err != nil {
			return nil, err
		}
		if len(events) == 0 {
			break // the log is shorter since a restore; the feed says so next
		}
		builder.Add(events) // their lineage was delivered before, or is derived again
	}
	return builder, nil
}

// putLineage moves pending events into lanes while there is room. It returns false while some are left.
func (s *session) putLineage(ctx context.Context) (done bool, err error) {
	l := &s.lineage
	for len(l.pending) > 0 && s.hasRoom() {
		e := &l.pending[0]
		m, err := s.lineageMessage(ctx, l.id, e)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err != nil {
			if !l.waiting {
				s.log.WarnContext(ctx, "lineage waits for a manifest of dbt that cannot be read",
					slog.String("destination", s.dest.Name), slog.String("runId", l.id.RunID), slog.Any("error", err))
			}
			l.waiting = true
			return false, nil // it is read again at the next look
		}
		l.waiting = false
		if len(m.Data) > 0 {
			s.add(l.batch, lineageLane+l.id.RunID, m)
		}
		l.pending = l.pending[1:]
	}
	if len(l.pending) > 0 {
		return false, nil
	}
	if l.batch != nil {
		l.batch.left--
		l.batch, l.pending = nil, nil
	}
	return true, nil
}

// lineageMessage returns the message of an event. It has no data for an event that says nothing.
func (s *session) lineageMessage(ctx context.Context, id run.Identity, e *lineage.Event) (destination.Message, error) {
	var manifest *lineage.Manifest
	if e.Manifest != nil {
		var err error
		if manifest, err = s.manifestOf(ctx, id, *e.Manifest); err != nil {
			return destination.Message{}, err
		}
	}
	doc, err := e.Encode(manifest, largestData)
	return destination.Message{
		ID: e.ID, Topic: destination.Lineage, Type: "Lineage" + string(e.State), At: e.At, TenantID: id.TenantID,
		ProjectID: id.ProjectID, EnvironmentID: id.EnvironmentID, PlanID: id.PlanID, RunID: id.RunID, Seq: uint64(e.Seq),
		Data: doc,
	}, err
}

// manifestOf returns a manifest, or nil for one that does not exist any more or cannot be understood.
func (n *Notifier) manifestOf(ctx context.Context, id run.Identity, ref run.ArtifactRef) (*lineage.Manifest, error) {
	if n.cfg.ReadManifest == nil {
		return nil, nil //nolint:nilnil // nothing is known of datasets
	}
	key := id.RunID + " " + ref.URI + "#" + ref.SHA256
	if m, found := n.manifests.Get(key); found {
		return m, nil
	}
	m, err := n.cfg.ReadManifest(ctx, id, ref)
	if err != nil {
		return nil, err
	}
	n.manifests.Put(key, m, m.Weight())
	return m, nil
}
