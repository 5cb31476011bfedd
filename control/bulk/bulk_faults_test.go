package bulk_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/bulk"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// The server dies after signals were accepted and before their outcomes are stored. Another server goes on, and each
// run gets one signal.
// contract: T128
func TestBulk_CrashInTheMiddleHasOneEffect(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	ids := w.many(40)
	ctx := f.dieInTheSecondRound(t)
	b := w.bulk(w.Engineer(), bulkOf("b1", 40, bulk.BulkRuns{IDs: ids}))
	controltest.Must[struct{}](t)(struct{}{}, w.SendBulks(ctx, "first"))
	known := 0
	for _, id := range ids {
		known += w.CountEvents(id, run.SignalAccepted)
	}
	if now := controltest.Must[bulk.Bulk](t)(w.Bulk(t.Context(), w.Engineer(), b.ID)); now.Accepted != 16 || known != 32 {
		t.Fatalf("%d rows are accepted and %d signals, want 16 and 32: the crash came at another moment", now.Accepted,
			known)
	}
	// Signals that were accepted before the crash stay accepted, even if the requester has lost the right since.
	w.Directory.SetGrants("acme", "dev-engineer", nil)
	controltest.Must[struct{}](t)(struct{}{}, w.Authz.Swap(authz.DefaultPolicy()))
	f.settle = nil
	f.dead.Store(false)
	second := usecases.New(w.Config)
	w.Spawn(func(ctx context.Context) error { return second.SendBulks(ctx, "second") })
	b = w.bulkDone(w.Engineer(), b.ID)
	if diff := cmp.Diff([]int{40, 0, 32, 0, 8}, counts(b)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	for i, id := range ids {
		if n, want := w.CountEvents(id, run.SignalAccepted), 1; i < 32 && n != want || i >= 32 && n != 0 {
			t.Errorf("run %d accepted %d signals, want 1", i, n)
		}
	}
}

func TestBulk_TwoServersSendEachOnce(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	ids := w.many(60)
	var bulks []bulk.Bulk
	for i := range 3 {
		bulks = append(bulks, w.bulk(w.Engineer(), bulkOf(fmt.Sprint("b", i), 20, bulk.BulkRuns{IDs: ids[20*i : 20*i+20]})))
	}
	for _, s := range []*usecases.UseCases{w.UseCases, usecases.New(w.Config), usecases.New(w.Config)} {
		w.Spawn(func(ctx context.Context) error { return s.SendBulks(ctx, fmt.Sprintf("%p", s)) })
	}
	for _, b := range bulks {
		if diff := cmp.Diff([]int{20, 0, 20, 0, 0}, counts(w.bulkDone(w.Engineer(), b.ID))); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
	}
	for _, id := range ids {
		if n := w.CountEvents(id, run.SignalAccepted); n != 1 {
			t.Errorf("run %s accepted %d signals, want 1", id, n)
		}
	}
}

// after returns a function that calls do before the n-th call.
func after(n int, do func()) func() error {
	var mu sync.Mutex
	calls := 0
	return func() error {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls == n {
			do()
		}
		return nil
	}
}

// Signals to the limited run wait, the others are sent, and the bulk names the limit.
// contract: T96
func TestBulk_TheLimitOfARunHoldsBackThatRunAlone(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t, func(c *usecases.Config) { c.Limits.SignalsPerMinute = 1 })
	ids := w.many(40)
	w.Send(w.Engineer(), controltest.SignalOf(ids[3], "first", run.Resume))
	b := w.bulk(w.Engineer(), bulkOf("b1", 40, bulk.BulkRuns{IDs: ids}))
	w.sends()
	controltest.Eventually(t, "all but one are sent", func() bool {
		b = controltest.Must[bulk.Bulk](t)(w.Bulk(t.Context(), w.Engineer(), b.ID))
		return b.Accepted == 39
	})
	controltest.Eventually(t, "the bulk says that it is paced", func() bool {
		b = controltest.Must[bulk.Bulk](t)(w.Bulk(t.Context(), w.Engineer(), b.ID))
		return b.State() == "PACED" && b.Paced == run.CodeSignalRate && b.PacedUntil != nil
	})
	for range 3 { // a waiting row is tried again at least every 30 s
		w.Clock.Advance(31 * time.Second)
		time.Sleep(700 * time.Millisecond)
	}
	b = w.bulkDone(w.Engineer(), b.ID)
	if diff := cmp.Diff([]int{40, 0, 40, 0, 0}, counts(b)); diff != "" || b.Paced != "" {
		t.Errorf("paced %q, counts (-want +got):\n%s", b.Paced, diff)
	}
}

// The signals within the quota are sent at once, and the others when the quota allows more.
// contract: T96
func TestBulk_TheQuotaOfTheTenantPacesIt(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t, controltest.WithQuotas(controltest.HobbyQuotas(func(q *admission.Quotas) {
		tier := q.Tiers["hobby"] // 20 signals a minute
		tier.StartRunPerMinute = 600
		q.Tiers["hobby"] = tier
	})))
	ids := w.many(40)
	w.Clock.Hold()
	b := w.bulk(w.Engineer(), bulkOf("b1", 40, bulk.BulkRuns{IDs: ids}))
	w.sends()
	controltest.Eventually(t, "the quota is used up", func() bool {
		b = controltest.Must[bulk.Bulk](t)(w.Bulk(t.Context(), w.Engineer(), b.ID))
		return b.State() == "PACED" && b.Accepted >= 20
	})
	if b.Paced != run.CodeSignalRate || b.Accepted != 20 || b.Rejected+b.Refused != 0 {
		t.Errorf("the bulk is paced by %s with the counts %v, want SIGNAL_RATE_LIMITED", b.Paced, counts(b))
	}
	for b.State() != "DONE" {
		w.Clock.Advance(10 * time.Second)
		time.Sleep(600 * time.Millisecond)
		b = controltest.Must[bulk.Bulk](t)(w.Bulk(t.Context(), w.Engineer(), b.ID))
	}
	if diff := cmp.Diff([]int{40, 0, 40, 0, 0}, counts(b)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// The store is unavailable in the middle of a bulk and comes back.
func TestBulk_GoesOnAfterAnOutageOfTheStore(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	ids := w.many(40)
	var back atomic.Pointer[time.Time]
	away := func() error {
		if at := back.Load(); at != nil && time.Now().Before(*at) {
			return store.ErrUnavailable
		}
		return nil
	}
	goes := after(20, func() { back.Store(new(time.Now().Add(300 * time.Millisecond))) })
	f.inRun = func() error { return errors.Join(goes(), away()) }
	f.settle = away
	b := w.bulk(w.Engineer(), bulkOf("b1", 40, bulk.BulkRuns{IDs: ids}))
	w.sends()
	b = w.bulkDone(w.Engineer(), b.ID)
	if diff := cmp.Diff([]int{40, 0, 40, 0, 0}, counts(b)); diff != "" || back.Load() == nil {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	for _, id := range ids {
		if n := w.CountEvents(id, run.SignalAccepted); n != 1 {
			t.Errorf("run %s accepted %d signals, want 1", id, n)
		}
	}
}

// An unavailable store does not invalidate a cursor: the client can page on later.
func TestBulks_AnOutageOfTheStoreKeepsTheCursor(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	b := w.bulk(w.Engineer(), bulkOf("b1", 1, bulk.BulkRuns{IDs: w.many(1)}))
	f.down.Store(true)
	_, err := w.Bulks(t.Context(), w.Engineer(), 10, b.ID)
	controltest.Refusal(t, err, run.CodeStoreUnavailable)
	f.down.Store(false)
	controltest.Must[bulk.BulksPage](t)(w.Bulks(t.Context(), w.Engineer(), 10, b.ID))
	_, err = w.Bulks(t.Context(), w.Principal("dev-admin"), 10, b.ID)
	controltest.Refusal(t, err, run.CodeCursorInvalid)
}
