package decorate_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/decorate"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// wakes counts the wakes of each run.
type wakes struct{ n map[string]int }

func (w wakes) Wake(runID string) { w.n[runID]++ }

func (w wakes) Notify(a store.Append, _ store.Appended) { w.n[a.RunID]++ }

// contract: T211
func TestWakeOnCommit_WakesAfterEveryCommitThatMarksTheRun(t *testing.T) {
	t.Parallel()
	s, w := openSQLite(t), wakes{map[string]int{}}
	d := decorate.WakeOnCommit(s, w)
	id := identity(1)
	runID, ctx := id.RunID, t.Context()
	var lease store.QueueRow
	var delivery store.Delivery
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"CreateRun", func() error {
			n := newRun(id)
			n.Enqueue.Terms.Hold, n.Wait = true, func(store.Admission) ([]run.Draft, error) { return n.Events, nil }
			_, _, err := d.CreateRun(ctx, n)
			return err
		}},
		{"AdmitWaiting", func() error {
			out, err := d.AdmitWaiting(ctx, func(string, string) store.Terms { return store.Unlimited() }, 1)
			if err == nil && len(out.Rows) != 1 {
				err = fmt.Errorf("%d runs admitted, want 1", len(out.Rows))
			}
			return err
		}},
		{"Lease", func() error {
			rows, err := d.Lease(ctx, "me", time.Minute, 1)
			if err == nil {
				lease = rows[0]
			}
			return err
		}},
		{"Release", func() error { return d.Release(ctx, runID, lease.Generation, 0, "") }},
		{"Lease again", func() error {
			rows, err := d.Lease(ctx, "me", time.Minute, 1)
			if err == nil {
				lease = rows[0]
			}
			return err
		}},
		{"Started", func() error { return d.MarkStarted(ctx, runID, lease.Generation) }},
		{"Append", func() error {
			_, err := d.Append(
				ctx, store.Append{RunID: runID, Events: []run.Draft{runtest.Draft(run.StepStartedEvent, "s0", 1)}})
			return err
		}},
		{"StartAttempt", func() error {
			_, err := d.StartAttempt(ctx, store.StartAttempt{RunID: runID, StepID: "s1", LogicalAttempt: 1, EngineAttempt: 1,
				EmittedAt: runtest.Epoch})
			return err
		}},
		{"InRun", func() error {
			return d.InRun(ctx, runID, func(tx store.RunTx) error {
				_, err := tx.PutReceipt(ctx, run.SignalReceipt{
					Signal: run.Signal{ID: "u1", Type: run.Pause}, Actor: "ola", Reason: "because",
					Payload: []byte(`{"pause":{"reason":"because"}}`), Application: run.SignalPending,
				}, true)
				return err
			})
		}},
		{"Delivered", func() error {
			ds, err := d.LeaseDeliveries(ctx, "me", time.Minute, 1)
			if err != nil || len(ds) != 1 {
				return fmt.Errorf("%d deliveries leased, want 1: %w", len(ds), err)
			}
			delivery = ds[0]
			return d.MarkDelivered(ctx, delivery, 1)
		}},
		{"Settle", func() error { return d.ReleaseDelivery(ctx, delivery, 0) }},
	} {
		before, woken := mark(t, s, runID), w.n[runID]
		if err := c.call(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if after := mark(t, s, runID); after != before && w.n[runID] == woken {
			t.Errorf("%s changed the mark from %v to %v without a wake", c.name, before, after)
		} else if after == before && c.name != "Settle" {
			t.Errorf("%s did not change the mark, so the case proves nothing", c.name)
		}
	}
	other := identity(2)
	if err := d.Import(ctx, newRun(other), nil); err == nil && w.n[other.RunID] == 0 {
		t.Error("Import did not wake the run")
	}
}

// mark returns the dirty mark of a run, or the zero value.
func mark(t *testing.T, s store.Store, runID string) store.DirtyRun {
	t.Helper()
	dirty, err := s.Dirty(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirty {
		if d.RunID == runID {
			return d
		}
	}
	return store.DirtyRun{}
}

// contract: Q05
func TestNotifyRunEnd_NotifiesAfterEveryCommitThatEndsARun(t *testing.T) {
	t.Parallel()
	ends := 0
	s := decorate.NotifyRunEnd(openSQLite(t), func() { ends++ })
	var ids []string
	for n := range 2 {
		id := identity(n + 1)
		if _, _, err := s.CreateRun(t.Context(), newRun(id)); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id.RunID)
	}
	end := []run.Draft{runtest.Draft(run.RunCancelled, "", 1)}
	if _, err := s.Append(t.Context(), store.Append{
		RunID: ids[0], Events: []run.Draft{runtest.Draft(run.StepStartedEvent, "s0", 1)},
	}); err != nil || ends != 0 {
		t.Fatalf("an append that ends no run notified %d times: %v", ends, err)
	}
	if _, err := s.Append(t.Context(), store.Append{RunID: ids[0], Events: end}); err != nil || ends != 1 {
		t.Fatalf("an append that ends a run notified %d times, want 1: %v", ends, err)
	}
	if err := s.InRun(t.Context(), ids[1], func(tx store.RunTx) error {
		_, err := tx.Append(t.Context(), store.Append{Events: end})
		return err
	}); err != nil || ends != 2 {
		t.Fatalf("a transaction that ends a run raised the count to %d, want 2: %v", ends, err)
	}
}

func openSQLite(t *testing.T) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "dvt.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func identity(n int) run.Identity {
	id := runtest.ID
	id.RunID = fmt.Sprintf("run-%05d", n)
	return id
}

func newRun(id run.Identity) store.NewRun {
	return store.NewRun{
		Run: store.Run{
			Identity: id, RequestID: id.RunID, TriggeredBy: "ola", TriggerSource: "api", Params: []byte(`{}`),
			RequestKey: run.RequestKey(id.TenantID, id.ProjectID, id.EnvironmentID, id.PlanID, id.PlanVersion, id.RunID),
			PlanRef: plan.Ref{SHA256: strings.Repeat("ab", 32), SchemaVersion: "v1.2", PlanID: id.PlanID,
				PlanVersion: id.PlanVersion},
			Policy: run.Policy{RetryWindowMS: 60000, MaxParallelSteps: 100, MaxLogicalAttemptsManual: 10},
		},
		Plan: []byte(`{}`), Enqueue: &store.Enqueue{Terms: store.Unlimited()},
		Events: []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start("s0", "s1")},
	}
}
