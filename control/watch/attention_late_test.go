package watch_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// heldSearch is a store whose first search for late runs lasts until release is closed.
type heldSearch struct {
	store.Store
	held, release chan struct{}
	searches      atomic.Int64
}

func holdSearch(h *heldSearch) func(*usecases.Config) {
	h.held, h.release = make(chan struct{}), make(chan struct{})
	return func(c *usecases.Config) { h.Store, c.Store = c.Store, h }
}

func (h *heldSearch) List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error) {
	if !f.Ascending || !slices.Equal(f.Statuses, []run.Status{run.Running}) {
		return h.Store.List(ctx, f)
	}
	if h.searches.Add(1) == 1 {
		close(h.held)
		select {
		case <-h.release:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return h.Store.List(ctx, f)
}

// attentionIn reads what needs the attention of p in another goroutine.
func (w *world) attentionIn(ctx context.Context, p authz.Principal) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := w.Attention(ctx, p, 0, "")
		done <- err
	}()
	return done
}

// A store that answers slowly for one scope does not hold the viewers of another.
func TestAttention_ScopeThatWaitsDoesNotHoldAnother(t *testing.T) {
	t.Parallel()
	h := &heldSearch{}
	w := newWorld(t, holdSearch(h))
	lab := w.GrantTo("dev-operator", controltest.ViewerOf("lab", "*"))
	first := w.attentionIn(t.Context(), w.Engineer())
	<-h.held
	select {
	case err := <-w.attentionIn(t.Context(), lab):
		if err != nil {
			t.Errorf("attention of a viewer of lab: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("a viewer of lab waits for the search of another scope")
	}
	close(h.release)
	if err := <-first; err != nil {
		t.Errorf("attention of the engineer: %v", err)
	}
}

// Viewers of one scope share a search. It goes on for the others when the viewer leaves who caused it.
func TestAttention_ViewersOfAScopeShareASearch(t *testing.T) {
	t.Parallel()
	h := &heldSearch{}
	w := newWorld(t, holdSearch(h))
	leaving, leave := context.WithCancel(t.Context())
	first := w.attentionIn(leaving, w.Engineer())
	<-h.held
	second := w.attentionIn(t.Context(), w.Engineer())
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the viewer who left got %v, want context.Canceled", err)
	}
	close(h.release)
	if err := <-second; err != nil {
		t.Errorf("the viewer who stayed got %v", err)
	}
	if n := h.searches.Load(); n != 1 {
		t.Errorf("%d searches for two viewers of one scope, want 1", n)
	}
	if _, err := w.Attention(t.Context(), w.Engineer(), 0, ""); err != nil || h.searches.Load() != 1 {
		t.Errorf("%d searches after a third viewer came (%v), want 1", h.searches.Load(), err)
	}
}

// A run without earlier runs is late as soon as the deadline of its plan has passed.
func TestAttention_ARunThatMissedItsDeadlineIsLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunningPlan("due", controltest.Document(controltest.M{
		"metadata.deadline": controltest.M{"within": "10m"}}, "s1"))
	controltest.Eventually(t, "the projected run", func() bool {
		w.Clock.Advance(time.Minute)
		return len(w.attention(w.Engineer())) == 1
	})
	item := controltest.Must[watch.AttentionPage](t)(w.Attention(t.Context(), w.Engineer(), 0, "")).Items[0]
	if item.Kind != watch.Late || item.RunID != id || item.Code != string(run.CodeRunLate) {
		t.Errorf("the item is %s of %s with code %q, want LATE of %s with RUN_LATE", item.Kind, item.RunID, item.Code, id)
	}
	if item.ExpectedBy == nil || item.ExpectedBy.Sub(item.Since) != 10*time.Minute {
		t.Errorf("the run was expected by %v after its start at %v, want 10 minutes", item.ExpectedBy, item.Since)
	}
}
