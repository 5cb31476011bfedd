package archive

import (
	"context"
	"errors"
	"math"
	"slices"

	"golang.org/x/sync/singleflight"

	"github.com/dvt-engine/dvt/internal/sizedlru"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
	"github.com/dvt-engine/dvt/storeadmin"
)

// Limits of what a Reading store keeps.
const (
	cacheRuns  = 256
	cacheBytes = 64 << 20 // of unpacked lines
	maxReading = 4        // objects that are unpacked at once
)

// Reading returns a store that reads from the archive what was deleted from s: events, states in the past and receipts.
// A read that finds everything in s costs nothing more. A read of an archived run that misses something costs one query
// and, unless the run is in the cache, one object; the cache has at most 64 MiB.
//
// damaged are called for each run whose events Tails leaves out because their archive is damaged.
func Reading(s store.Store, from Objects, damaged ...func(ctx context.Context, runID string, err error)) store.Store {
	tell := func(ctx context.Context, runID string, err error) {
		for _, f := range damaged {
			f(ctx, runID, err)
		}
	}
	return &reading{Store: s, from: from, damaged: tell, cache: sizedlru.New[storeadmin.RunFile](cacheRuns, cacheBytes),
		turns: make(chan struct{}, maxReading)}
}

type reading struct {
	store.Store
	from    Objects
	damaged func(ctx context.Context, runID string, err error)
	cache   *sizedlru.Cache[storeadmin.RunFile]
	calls   singleflight.Group
	turns   chan struct{}
}

// find returns the archive of a run; found is false when the run is not archived.
func (s *reading) find(ctx context.Context, runID string) (a store.ArchivedRun, file storeadmin.RunFile, found bool,
	err error) {
	list, err := s.FindArchived(ctx, runID)
	if err != nil || len(list) == 0 {
		return a, file, false, err
	}
	a = list[0]
	if file, ok := s.cache.Get(a.SHA256); ok {
		return a, file, true, nil
	}
	out, err, _ := s.calls.Do(a.SHA256, func() (any, error) {
		select {
		case s.turns <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		defer func() { <-s.turns }()
		file, err := Read(ctx, s.from, a)
		if err == nil {
			s.cache.Put(a.SHA256, file, file.Bytes)
		}
		return file, err
	})
	if err != nil {
		return a, file, false, err
	}
	file, _ = out.(storeadmin.RunFile)
	return a, file, true, nil
}

func pageSize(limit int) int {
	if limit <= 0 || limit > store.MaxPage {
		return store.MaxPage
	}
	return limit
}

// Events implements store.Log.
func (s *reading) Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error) {
	events, err := s.Store.Events(ctx, runID, after, limit)
	if err != nil || len(events) > 0 && events[0].Seq == after+1 {
		return events, err
	}
	a, file, found, err := s.find(ctx, runID)
	if err != nil || !found || after >= a.Head {
		return events, err
	}
	limit = pageSize(limit)
	out := eventsAfter(file.Events, after, limit)
	if len(out) < limit { // signals that came after the run was archived
		more, err := s.Store.Events(ctx, runID, a.Head, limit-len(out))
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// EventsBefore implements store.Log.
func (s *reading) EventsBefore(ctx context.Context, runID string, before run.Seq, limit int) ([]run.Event, error) {
	limit = pageSize(limit)
	events, err := s.Store.EventsBefore(ctx, runID, before, limit)
	if err != nil || len(events) == limit || before <= 1 || len(events) > 0 && events[len(events)-1].Seq <= 1 {
		return events, err
	}
	a, file, found, err := s.find(ctx, runID)
	if err != nil || !found {
		return events, err
	}
	out := slices.DeleteFunc(events, func(e run.Event) bool { return e.Seq <= a.Head })
	for _, e := range slices.Backward(file.Events) {
		if len(out) == limit {
			break
		}
		if e.Seq < before {
			out = append(out, cloneEvents([]run.Event{e})...)
		}
	}
	return out, nil
}

// Load implements store.States.
func (s *reading) Load(ctx context.Context, runID string) (store.Loaded, error) {
	l, err := s.Store.Load(ctx, runID)
	return s.complete(ctx, l, math.MaxInt64, err)
}

// At implements store.States.
func (s *reading) At(ctx context.Context, runID string, seq run.Seq) (store.Loaded, error) {
	l, err := s.Store.At(ctx, runID, seq)
	return s.complete(ctx, l, seq, err)
}

// Since implements store.States.
func (s *reading) Since(ctx context.Context, runID string, w run.Seq) (store.Loaded, run.Delta, error) {
	l, d, err := s.Store.Since(ctx, runID, w)
	if err != nil || !isShort(l, math.MaxInt64) {
		return l, d, err
	}
	l, err = s.complete(ctx, l, math.MaxInt64, err)
	return l, l.State.Since(w), err
}

// isShort reports whether the state of l may lack events up to seq. The fold of an ended run that did not begin with a
// checkpoint has a hole when the beginning of the log was deleted.
func isShort(l store.Loaded, seq run.Seq) bool {
	return l.State.Seq < min(seq, l.Head.LastSeq) || l.Head.Terminal && l.CheckpointAt == 0 && l.Head.LastSeq > 0
}

// complete returns l, or the state that is folded from the archive when l lacks events.
func (s *reading) complete(ctx context.Context, l store.Loaded, seq run.Seq, err error) (store.Loaded, error) {
	if err != nil || !isShort(l, seq) {
		return l, err
	}
	a, file, found, err := s.find(ctx, l.Head.RunID)
	if err != nil || !found {
		return l, err
	}
	events := file.Events
	if seq > a.Head && l.Head.LastSeq > a.Head {
		for after := a.Head; ; {
			more, err := s.Store.Events(ctx, a.RunID, after, store.MaxPage)
			if err != nil {
				return l, err
			}
			events = append(slices.Clip(events), more...)
			if len(more) < store.MaxPage {
				break
			}
			after = more[len(more)-1].Seq
		}
	}
	for len(events) > 0 && events[len(events)-1].Seq > seq {
		events = events[:len(events)-1]
	}
	return authority.Fold(l, authority.Base(file.Run), events), nil
}

// Tails implements store.Projection. Consumers of the feed that are late get the events from the archive, without those
// of a run whose archive is damaged: one lost object must not stop the messages of every other run.
func (s *reading) Tails(ctx context.Context, known []store.TailRequest) (store.Tails, error) {
	out, err := s.Store.Tails(ctx, known)
	if err != nil {
		return out, err
	}
	for _, k := range known {
		t, ok := out.ByRun[k.RunID]
		if !ok || !t.Head.Terminal || t.Head.LastSeq <= k.Seq || len(t.Events) > 0 && t.Events[0].Seq == k.Seq+1 {
			continue
		}
		t.Events, err = s.Events(ctx, k.RunID, k.Seq, store.MaxTail)
		if errors.Is(err, store.ErrArchiveDamaged) {
			s.damaged(ctx, k.RunID, err)
			t.Events, err = nil, nil
		}
		if err != nil {
			return out, err
		}
		out.ByRun[k.RunID] = t
	}
	return out, nil
}

// Receipt implements store.Signals.
func (s *reading) Receipt(ctx context.Context, runID, signalID string) (run.SignalReceipt, error) {
	r, err := s.Store.Receipt(ctx, runID, signalID)
	if !errors.Is(err, store.ErrNotFound) {
		return r, err
	}
	a, file, found, findErr := s.find(ctx, runID)
	if findErr != nil || !found || a.ReceiptsAt == nil {
		return r, errors.Join(err, findErr)
	}
	for _, r := range file.Receipts {
		if r.Signal.ID == signalID {
			return r, nil
		}
	}
	return r, err
}

// Receipts implements store.Signals.
func (s *reading) Receipts(ctx context.Context, runID, after string, limit int) ([]run.SignalReceipt, error) {
	list, err := s.Store.Receipts(ctx, runID, after, limit)
	limit = pageSize(limit)
	if err != nil || len(list) == limit {
		return list, err
	}
	a, file, found, err := s.find(ctx, runID)
	if err != nil || !found || a.ReceiptsAt == nil {
		return list, err
	}
	old := file.Receipts
	if i := slices.IndexFunc(old, func(r run.SignalReceipt) bool { return r.Signal.ID == after }); i >= 0 {
		old = old[i+1:]
	} else if after != "" { // a receipt that came after the run was archived
		return list, nil
	}
	out := slices.Concat(old, list)
	return out[:min(len(out), limit)], nil
}
