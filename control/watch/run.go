// Package watch has the streams: of a run, its events, receipts and step logs, of lists of runs, and of the inbox of a
// person. Each stream checks the rights of its viewer while it is open.
package watch

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// WatchRun asks to follow one run. After and Epoch resume a stream.
type WatchRun struct {
	RunID string
	After *run.Seq
	Epoch string
}

// WatchStore reads runs that are watched.
type WatchStore interface {
	Get(ctx context.Context, runID string) (store.Run, error)
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
}

// Watcher opens streams of runs and of lists of runs. It is safe for concurrent use.
type Watcher struct {
	rights     *control.Rights
	hub        *live.Hub
	lists      *live.Lists
	store      WatchStore
	background *control.Background
	identities identities
}

// NewWatcher makes a Watcher.
func NewWatcher(rights *control.Rights, hub *live.Hub, lists *live.Lists, store WatchStore,
	background *control.Background) *Watcher {
	return &Watcher{rights: rights, hub: hub, lists: lists, store: store, background: background,
		identities: identities{kept: control.NewLRU[run.Identity](maxIdentities)}}
}

// WatchRun returns a stream of one run's state; see live.Frame for what a frame promises. Error: NOT_FOUND.
func (s *Watcher) WatchRun(ctx context.Context, p authz.Principal, in WatchRun) (control.Stream[live.Frame], error) {
	id, err := s.checkWatchable(ctx, p, in.RunID)
	if err != nil {
		return nil, err
	}
	frames, err := s.hub.Watch(ctx, in.RunID, in.After, in.Epoch)
	if err != nil {
		return nil, control.Translate(err)
	}
	return &runStream{guard: s.rights.GuardRun(p, id), frames: frames}, nil
}

type runStream struct {
	guard  control.Guard
	frames *live.Stream
}

func (r *runStream) Next(ctx context.Context) (f live.Frame, err error) {
	err = r.guard.Wait(ctx, func(ctx context.Context) (err error) {
		f, err = r.frames.Next(ctx)
		return err
	})
	return f, err
}

func (r *runStream) Close() { r.frames.Close() }
