package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// saver saves the checkpoint of one run after each of its events.
type saver struct {
	rig.Writer
	store store.Store
	state run.State
}

func newSaver(ctx context.Context, s store.Store, id string, steps int) (*saver, error) {
	if err := rig.MakeRun(ctx, s, id, steps); err != nil {
		return nil, err
	}
	l, err := s.Load(ctx, id)
	return &saver{Writer: rig.Writer{Log: s, RunID: id, Steps: steps}, store: s, state: l.State}, err
}

// save appends an event and folds it, then times saving the one step that it changed.
func (s *saver) save(ctx context.Context, _ int) (time.Duration, error) {
	if _, err := s.Append(ctx, 1); err != nil {
		return 0, err
	}
	evs, err := s.store.Events(ctx, s.RunID, s.state.Seq, store.MaxPage)
	if err != nil {
		return 0, err
	}
	next, changes, _ := run.Fold(s.state, evs)
	if len(changes.Steps) != 1 {
		return 0, errors.New("an event of one step did not change exactly one step")
	}
	s.state = next
	return rig.Timed(func() error {
		wrote, err := s.store.Save(ctx, next, changes)
		if err == nil && !wrote {
			err = errors.New("a newer checkpoint was not written")
		}
		return err
	})
}

// compareSaves measures a save for a run of 1,000 steps against one of a run of 10.
func compareSaves(ctx context.Context, s store.Store) (*rig.Trial, error) {
	const rounds = 400
	large, err := newSaver(ctx, s, rig.RunName(0), 1000)
	if err != nil {
		return nil, err
	}
	small, err := newSaver(ctx, s, rig.RunName(1), 10)
	return &rig.Trial{Repeat: rig.Alternate(rounds, large.save, small.save), Done: s.Close}, err
}

func saveStep(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	s, _, err := r.Store(ctx, rig.NativeFlush, 2)
	if err != nil {
		return nil, err
	}
	return compareSaves(ctx, s)
}

func sqliteSaveStep(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	s, err := sqlite.Open(ctx, filepath.Join(r.Dir, "states.db"), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	return compareSaves(ctx, s)
}
