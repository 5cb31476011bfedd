package live

import (
	"context"
	"sync"

	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/store"
)

// ListSource is the part of a store that Lists read.
type ListSource interface {
	Heads(ctx context.Context, runIDs []string) (store.Heads, error)
	ListChanged(ctx context.Context, f store.RunFilter, cursor string) ([]store.RunRow, string, error)
	List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error)
}

// promptSource returns when ctx ends, even if the driver does not.
type promptSource struct {
	src    ListSource
	group  *sync.WaitGroup
	panics *contain.Guard
}

func (s promptSource) Heads(ctx context.Context, runIDs []string) (store.Heads, error) {
	return promptly(ctx, s.group, s.panics, func(ctx context.Context) (store.Heads,
		error) {
		return s.src.Heads(ctx, runIDs)
	})
}

func (s promptSource) ListChanged(ctx context.Context, f store.RunFilter, cursor string) ([]store.RunRow, string,
	error) {
	type changed struct {
		rows []store.RunRow
		next string
	}
	c, err := promptly(ctx, s.group, s.panics, func(ctx context.Context) (changed, error) {
		rows, next, err := s.src.ListChanged(ctx, f, cursor)
		return changed{rows, next}, err
	})
	return c.rows, c.next, err
}

func (s promptSource) List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error) {
	return promptly(ctx, s.group, s.panics, func(ctx context.Context) ([]store.RunRow,
		error) {
		return s.src.List(ctx, f)
	})
}
