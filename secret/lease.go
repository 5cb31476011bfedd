package secret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	// A lease is renewed after a third of its life, and at least once a minute, because that renews the worker's login
	// too.
	renewEach     = 3
	renewAtLeast  = time.Minute
	revokeTimeout = 5 * time.Second
	sweepEvery    = 5 * time.Second
	maxHeldFile   = 64 << 10
)

// Set is what Resolve has read for one attempt.
type Set struct {
	Values   []Value // in the order of the refs
	Reads    []Read  // in the order of the refs
	resolver *Resolver
	scope    Scope
	leases   []*held
}

// held is a lease of this process. Its note names the provider and the lease, and contains no value.
type held struct {
	Provider string
	Lease    string
	life     time.Duration
	note     string
	unlock   func() // the note
}

func (s *Set) hold(provider string, l Lease) {
	h := &held{Provider: provider, Lease: l.ID, life: l.Life, unlock: func() {}}
	s.resolver.write(h)
	s.leases = append(s.leases, h)
}

// Keep renews the leases until ctx ends. It calls failed once for each lease that cannot be renewed; the secret then
// stops working when its life ends.
func (s *Set) Keep(ctx context.Context, failed func(error)) {
	var all sync.WaitGroup
	for _, h := range s.leases {
		all.Go(func() {
			if err := s.resolver.keep(ctx, h); err != nil && ctx.Err() == nil {
				failed(fmt.Errorf("a lease of the provider %q could not be renewed: %w", h.Provider, err))
			}
		})
	}
	all.Wait()
}

func (r *Resolver) keep(ctx context.Context, h *held) error {
	source := r.sources[h.Provider]
	lender, ok := source.Provider.(Lender)
	for ok && h.life > 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(h.life/renewEach, renewAtLeast)):
		}
		call, cancel := context.WithTimeout(ctx, source.Timeout)
		life, err := lender.Renew(call, h.Lease)
		cancel()
		if err == nil && life <= 0 {
			err = errors.New("it has reached its longest life")
		}
		if err != nil {
			return err
		}
		h.life = life
	}
	return nil
}

// Release ends the leases of the set, within five seconds. The error says which could not be ended; Sweep ends them
// later, or the end of their life does.
func (s *Set) Release(ctx context.Context) error {
	s.resolver.loseTrack(s)
	errs := make([]error, len(s.leases))
	var all sync.WaitGroup
	for i, h := range s.leases {
		all.Go(func() {
			if err := s.resolver.end(ctx, h); err != nil {
				errs[i] = fmt.Errorf("a lease of the provider %q was not ended yet: %w", h.Provider, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// end revokes a lease and removes its note.
func (r *Resolver) end(ctx context.Context, h *held) error {
	source := r.sources[h.Provider]
	if source == nil {
		return fmt.Errorf("no provider %q", h.Provider)
	}
	lender, ok := source.Provider.(Lender)
	if !ok {
		return fmt.Errorf("the provider %q has no leases", h.Provider)
	}
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	err := lender.Revoke(ctx, h.Lease)
	source.revoked(err)
	defer h.unlock()
	if err != nil {
		_ = os.Rename(h.note, h.note+orphan) // this process no longer cares for it
		return err
	}
	_ = os.Remove(h.note)
	return nil
}

// orphan is the end of the name of a note whose lease nobody holds any more.
const orphan = ".orphan"

// write notes a lease. Without a directory, or when it cannot be written, the lease ends by its life at the latest.
func (r *Resolver) write(h *held) {
	if r.Held == "" {
		return
	}
	doc, err := json.Marshal(h)
	if err != nil || os.MkdirAll(r.Held, 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(r.Held, FreshPattern)
	if err != nil {
		return
	}
	defer f.Close()
	path, unlock, err := Hold(f.Name())
	if err != nil {
		_ = os.Remove(f.Name())
		return
	}
	h.note, h.unlock = path, unlock
	_, _ = f.Write(doc)
}

// Sweep ends the leases that no process holds: those of killed ones, at once and every five seconds until ctx ends.
// failed gets what could not be ended; it is tried again.
func (r *Resolver) Sweep(ctx context.Context, failed func(error)) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for r.Held != "" {
		if err := r.sweep(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (r *Resolver) sweep(ctx context.Context) error {
	entries, err := os.ReadDir(r.Held)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		path := filepath.Join(r.Held, e.Name())
		lives, known := HolderLives(path)
		if !known || lives && filepath.Ext(path) != orphan {
			continue
		}
		doc, err := os.ReadFile(path)
		var h held
		if err != nil || len(doc) > maxHeldFile || json.Unmarshal(doc, &h) != nil {
			_ = os.Remove(path) // a process was killed while it wrote
			continue
		}
		h.note, h.unlock = path, func() {}
		errs = append(errs, r.end(ctx, &h))
	}
	return errors.Join(errs...)
}
