package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// newWideRun creates a run with n steps and a checkpoint at its head.
func newWideRun(t testing.TB, s *Store, runID string, n int) {
	t.Helper()
	id := runtest.ID
	id.RunID = runID
	steps := make([]string, n)
	for i := range steps {
		steps[i] = fmt.Sprintf("s%04d", i)
	}
	if _, _, err := s.CreateRun(t.Context(), store.NewRun{Run: store.Run{Identity: id},
		Events: []run.Draft{runtest.Start(steps...)}}); err != nil {
		t.Fatal(err)
	}
}

// statementsOf returns the number of statements that f executes.
func (s *Store) statementsOf(t testing.TB, f func() error) int64 {
	t.Helper()
	before := s.statements.Load()
	if err := f(); err != nil {
		t.Error(err)
	}
	return s.statements.Load() - before
}

// contract: T193
func TestReads_OneStatementForAnyNumberOfSteps(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "dvt.db"), Options{})
	for _, n := range []int{10, 1000} {
		id := fmt.Sprint("run-", n)
		newWideRun(t, s, id, n)
		for round := range 2 { // first with a checkpoint at the head, then with a tail
			reads := map[string]func(ctx context.Context) error{
				"Load":         func(ctx context.Context) error { _, err := s.Load(ctx, id); return err },
				"Since 0":      func(ctx context.Context) error { _, _, err := s.Since(ctx, id, 0); return err },
				"Since 1":      func(ctx context.Context) error { _, _, err := s.Since(ctx, id, 1); return err },
				"At":           func(ctx context.Context) error { _, err := s.At(ctx, id, 1); return err },
				"Events":       func(ctx context.Context) error { _, err := s.Events(ctx, id, 0, 10); return err },
				"EventsBefore": func(ctx context.Context) error { _, err := s.EventsBefore(ctx, id, 9, 10); return err },
				"Heads":        func(ctx context.Context) error { _, err := s.Heads(ctx, []string{id, "nobody"}); return err },
				"Get":          func(ctx context.Context) error { _, err := s.Get(ctx, id); return err },
				"Checkpoint":   func(ctx context.Context) error { _, err := s.Checkpoint(ctx, id); return err },
				"Epoch":        func(ctx context.Context) error { _, err := s.Epoch(ctx); return err },
				"AllRuns":      func(ctx context.Context) error { _, err := s.AllRuns(ctx, "", 10); return err },
				"Dirty":        func(ctx context.Context) error { _, err := s.Dirty(ctx, 0, 10); return err },
				"Receipts":     func(ctx context.Context) error { _, err := s.Receipts(ctx, id, "", 10); return err },
				"Tails": func(ctx context.Context) error {
					_, err := s.Tails(ctx,
						[]store.TailRequest{{RunID: id}})
					return err
				},
				"List": func(ctx context.Context) error {
					_, err := s.List(ctx, store.RunFilter{TenantID: runtest.ID.TenantID, Limit: 10})
					return err
				},
				"List of many": func(ctx context.Context) error {
					_, err := s.List(ctx, store.RunFilter{
						TenantID: runtest.ID.TenantID, ProjectIDs: []string{"p1", "p2", "p3"}, Statuses: []run.Status{run.Running,
							run.Failed}, Steps: true, Limit: 10,
					})
					return err
				},
				"Changed": func(ctx context.Context) error {
					_, _, err := s.ListChanged(ctx, store.RunFilter{TenantID: runtest.ID.TenantID, Limit: 10}, store.FeedStart)
					return err
				},
				"DeadLetters": func(ctx context.Context) error {
					_, err := s.DeadLetters(ctx, store.DeadLetterFilter{TenantID: runtest.ID.TenantID})
					return err
				},
			}
			for name, read := range reads {
				if got := s.statementsOf(t, func() error { return read(t.Context()) }); got != 1 {
					t.Errorf("%s of a run with %d steps, round %d: %d statements, want 1", name, n, round, got)
				}
			}
			if _, err := s.Append(
				t.Context(), store.Append{
					RunID: id, Events: []run.Draft{runtest.Draft(run.StepStartedEvent, "s0003", 1)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// contract: T212
func TestSince_ReadsOnlyChangedSteps(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "dvt.db"), Options{})
	newWideRun(t, s, "run", 100)
	since := func(w run.Seq) (store.Loaded, run.Delta) {
		t.Helper()
		l, d, err := s.Since(t.Context(), "run", w)
		if err != nil {
			t.Fatal(err)
		}
		return l, d
	}
	if _, err := s.Append(
		t.Context(), store.Append{
			RunID: "run", Events: []run.Draft{runtest.Draft(run.StepStartedEvent, "s0003", 1)}}); err != nil {
		t.Fatal(err)
	}
	l, want := since(1)
	if len(l.State.Steps) != 100 || len(want.Steps) != 1 || want.Steps[0].StepID != "s0003" {
		t.Fatalf("with a tail: %d steps, %d changed; want 100 and s0003", len(l.State.Steps), len(want.Steps))
	}
	if _, err := s.Save(t.Context(), l.State, l.Changes); err != nil {
		t.Fatal(err)
	}
	brief, got := since(1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("delta (-want +got):\n%s", diff)
	}
	if brief.State.Steps != nil || brief.CheckpointAt != 2 {
		t.Errorf("brief state with %d steps and the checkpoint at %d, want none and 2", len(brief.State.Steps),
			brief.CheckpointAt)
	}
	if diff := cmp.Diff(l.State.Header, brief.State.Header); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	if whole, d := since(0); len(whole.State.Steps) != 100 || len(d.Steps) != 100 {
		t.Errorf("since 0: %d steps, %d changed; want 100 and 100", len(whole.State.Steps), len(d.Steps))
	}
	queryValue(t, s, `DELETE FROM step_state WHERE ord = 3`) // makes the checkpoint incomplete
	if full, d := since(1); len(full.State.Steps) != 100 || cmp.Diff(want, d) != "" || full.CheckpointAt != 0 {
		t.Errorf("with a lost step: %d steps, checkpoint at %d; want 100 and 0", len(full.State.Steps), full.CheckpointAt)
	}
}

// contract: T212
func TestSave_CostFollowsTheChange(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "dvt.db"), Options{})
	cost := map[int]int64{}
	for _, n := range []int{10, 1000} {
		id := fmt.Sprint("run-", n)
		newWideRun(t, s, id, n)
		if _, err := s.Append(
			t.Context(), store.Append{
				RunID: id, Events: []run.Draft{runtest.Draft(run.StepStartedEvent, "s0003", 1)}}); err != nil {
			t.Fatal(err)
		}
		l, err := s.Load(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		cost[n] = s.statementsOf(t, func() error {
			saved, err := s.Save(t.Context(), l.State, l.Changes)
			if !saved {
				t.Error("Save returned false, want true")
			}
			return err
		})
	}
	if cost[10] != cost[1000] {
		t.Errorf("statements to save one changed step, by the number of all steps: %v; want the same number", cost)
	}
}
