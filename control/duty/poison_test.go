package duty_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// brokenStore fails for one plan and for one run.
type brokenStore struct {
	store.Store
	plan, run string
}

var errBroken = errors.New("it cannot be read")

func (s *brokenStore) Plan(ctx context.Context, sha256 string) ([]byte, error) {
	if sha256 == s.plan {
		return nil, errBroken
	}
	return s.Store.Plan(ctx, sha256)
}

func (s *brokenStore) InRun(ctx context.Context, runID string, do func(store.RunTx) error) error {
	if runID == s.run {
		return errBroken
	}
	return s.Store.InRun(ctx, runID, do)
}

// A run whose plan cannot be read does not keep the sweep from the others.
func TestReconcile_ABrokenRunDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	var broken *brokenStore
	w := newSweptWorld(t, func(c *usecases.Config) {
		broken = &brokenStore{Store: c.Store}
		c.Store = broken
	})
	first, hung := w.atWork("r1"), w.CreateRunning("r2", "s1", "s3")
	w.BeginStep(hung, "s1", 1)
	if hung < first { // the sweep checks runs in the order of their ids
		first, hung = hung, first
	}
	w.eye.Mu.Lock()
	w.eye.Pending[hung] = []engine.Pending{{ID: "s1/1.1", State: "STARTED", Attempt: 1}}
	w.eye.Mu.Unlock()
	broken.plan = controltest.Must[store.Run](t)(w.Raw.Get(t.Context(), first)).PlanRef.SHA256
	controltest.Eventually(t, "the checkpoints", func() bool {
		n := 0
		for _, q := range controltest.Must[[]store.QuietRun](t)(w.Raw.ListQuietRuns(t.Context(), 0, "", 10)) {
			n += len(q.Running)
		}
		return n == 2
	})
	w.Clock.Advance(time.Hour)
	w.sweep()
	controltest.Eventually(t, "people are told of the other", func() bool {
		alerts := w.alerts()
		return len(alerts) == 1 && alerts[0].RunID == hung
	})
}

func TestExpireApprovals_ABrokenRunDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	var broken *brokenStore
	w := controltest.NewWithApprovals(t, 1)
	broken = &brokenStore{Store: w.Config.Store, run: w.CreateQueued("r1", "s1")}
	late := w.CreateQueued("r2", "s1")
	w.Config.Store = broken
	w.Clock.Advance(25 * time.Hour)
	w.Spawn(usecases.New(w.Config).ExpireApprovals)
	controltest.Eventually(t, "the other expires", func() bool { return w.StateOf(late).Status == run.Cancelled })
}

// unreadableBulk leases a bulk that cannot be decoded, once, and records the pause after it.
type unreadableBulk struct {
	store.Store
	leased bool
	aside  chan time.Duration
}

func (s *unreadableBulk) LeaseBulks(context.Context, string, time.Duration, int) ([]store.Bulk, error) {
	if s.leased {
		return nil, nil
	}
	s.leased = true
	return []store.Bulk{{ID: "b", Principal: []byte("?")}}, nil
}

func (s *unreadableBulk) ReleaseBulk(_ context.Context, _ store.Bulk, wait time.Duration) error {
	s.aside <- wait
	return nil
}

// A bulk that cannot be decoded is not tried twice a second forever.
func TestSendBulks_ABrokenBulkIsSetAside(t *testing.T) {
	t.Parallel()
	w := controltest.New(t)
	broken := &unreadableBulk{Store: w.Config.Store, aside: make(chan time.Duration, 1)}
	w.Config.Store = broken
	s := usecases.New(w.Config)
	w.Spawn(func(ctx context.Context) error { return s.SendBulks(ctx, "s1") })
	if wait := <-broken.aside; wait < 30*time.Second {
		t.Errorf("tried again after %v", wait)
	}
}
