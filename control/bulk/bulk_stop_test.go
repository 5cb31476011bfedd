package bulk_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/bulk"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

func stopBulk(id string) bulk.CancelBulk {
	return bulk.CancelBulk{ID: id, RequestID: "stop-1", Reason: "wrong runs"}
}

func (w *world) bulkStopped(p authz.Principal, id string) (b bulk.Bulk) {
	w.T.Helper()
	controltest.Eventually(w.T, "the bulk is stopped", func() bool {
		b = controltest.Must[bulk.Bulk](w.T)(w.Bulk(w.T.Context(), p, id))
		return b.State() == "STOPPED"
	})
	return b
}

// The stop comes while a round of 16 signals is being sent. No server sends the rest, and sent signals stay sent.
// contract: T128
func TestBulkStop_UnsentSignalsAreNeverSent(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	ids := w.many(80)
	f.settle = after(2, func() {
		controltest.Must[bulk.Bulk](t)(w.CancelBulk(t.Context(), w.Engineer(), stopBulk(w.onlyBulk())))
	})
	b := w.bulk(w.Engineer(), bulkOf("b1", 80, bulk.BulkRuns{IDs: ids}))
	for _, s := range []*usecases.UseCases{w.UseCases, usecases.New(w.Config)} {
		w.Spawn(func(ctx context.Context) error { return s.SendBulks(ctx, fmt.Sprintf("%p", s)) })
	}
	b = w.bulkStopped(w.Engineer(), b.ID)
	// A round whose lease ended before its outcomes were stored is stored twice.
	if b.Accepted == 0 || b.NotSent < 48 || b.Accepted+b.NotSent != 80 || b.FinishedAt == nil {
		t.Errorf("%d accepted, %d not sent, %d wait: want at most 32, and all the others not sent", b.Accepted, b.NotSent,
			b.Waiting())
	}
	for i, r := range w.bulkRows(w.Engineer(), b.ID) {
		sent := w.CountEvents(r.RunID, run.SignalAccepted)
		if (r.Outcome == store.BulkNotSent) != (sent == 0) || sent > 1 || r.Failed() || r.At == nil {
			t.Errorf("row %d is %s and its run accepted %d signals, want both to agree", i+1, r.Outcome, sent)
		}
	}
	if again := controltest.Must[bulk.Bulk](t)(w.CancelBulk(t.Context(), w.Engineer(),
		stopBulk(b.ID))); !cmp.Equal(again.Rev, b.Rev) {
		t.Errorf("the second stop gives revision %d, want %d", again.Rev, b.Rev)
	}
	n := 0
	for _, row := range w.AuditRows("acme") {
		if strings.HasPrefix(row, "dev-engineer CANCEL_BULK ACCEPTED") && strings.Contains(row, b.ID) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the audit has %d rows of the stop, want 1: %v", n, w.AuditRows("acme"))
	}
}

func (w *world) onlyBulk() string {
	w.T.Helper()
	page := controltest.Must[bulk.BulksPage](w.T)(w.Bulks(w.T.Context(), w.Engineer(), 1, ""))
	return page.Bulks[0].ID
}

// The server dies with a round accepted but not recorded, and the bulk is stopped before another server takes it. The
// sent signals are found by their receipts.
// contract: T128
func TestBulkStop_AfterACrashSentSignalsAreFoundByTheirReceipts(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	ids := w.many(40)
	ctx := f.dieInTheSecondRound(t)
	b := w.bulk(w.Engineer(), bulkOf("b1", 40, bulk.BulkRuns{IDs: ids}))
	controltest.Must[struct{}](t)(struct{}{}, w.SendBulks(ctx, "first"))
	f.settle = nil
	f.dead.Store(false)
	if s := controltest.Must[bulk.Bulk](t)(w.CancelBulk(t.Context(), w.Engineer(),
		stopBulk(b.ID))).State(); s != "STOPPING" {
		t.Errorf("the bulk is %s, want STOPPING", s)
	}
	second := usecases.New(w.Config)
	w.Spawn(func(ctx context.Context) error { return second.SendBulks(ctx, "second") })
	b = w.bulkStopped(w.Engineer(), b.ID)
	if b.Accepted != 32 || b.NotSent != 8 {
		t.Errorf("%d accepted and %d not sent, want 32 and 8", b.Accepted, b.NotSent)
	}
	for i, id := range ids {
		if n := w.CountEvents(id, run.SignalAccepted); n != 1 && i < 32 || n != 0 && i >= 32 {
			t.Errorf("run %d accepted %d signals, want one exactly for the first 32", i, n)
		}
	}
}

// A server sleeps past its lease just before it sends. The bulk is stopped, and another server settles the waiting
// rows. When the first server wakes up, its signals are refused.
// contract: T128
func TestBulkStop_AServerThatLostItsLeaseSendsNothing(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	ids := w.many(20)
	asleep, wake := make(chan struct{}, 16), make(chan struct{})
	f.inRun = func() error {
		asleep <- struct{}{}
		<-wake
		return nil
	}
	b := w.bulk(w.Engineer(), bulkOf("b1", 20, bulk.BulkRuns{IDs: ids}))
	w.Spawn(func(ctx context.Context) error { return w.SendBulks(ctx, "sleeper") })
	for range cap(asleep) {
		<-asleep
	}
	controltest.Must[bulk.Bulk](t)(w.CancelBulk(t.Context(), w.Engineer(), stopBulk(b.ID)))
	second := usecases.New(w.Config)
	w.Spawn(func(ctx context.Context) error { return second.SendBulks(ctx, "second") })
	b = w.bulkStopped(w.Engineer(), b.ID)
	before := f.inRuns.Load()
	close(wake)
	controltest.Eventually(t, "the first one has done what it wanted to",
		func() bool { return f.inRuns.Load() >= before+16 })
	for i, id := range ids {
		if n := w.CountEvents(id, run.SignalAccepted); n != 0 {
			t.Errorf("run %d accepted %d signals, want none", i, n)
		}
	}
	if b.NotSent != 20 {
		t.Errorf("%d are not sent, want all 20", b.NotSent)
	}
}

// The stop comes while a server that still holds its lease is about to send a round. No signal is sent after CancelBulk
// has returned.
// contract: T128
func TestBulkStop_NothingIsSentAfterTheAnswer(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t, func(c *usecases.Config) { c.Leases.TTL = time.Minute })
	ids := w.many(20)
	f.inRun = after(16, func() {
		controltest.Must[bulk.Bulk](t)(w.CancelBulk(t.Context(), w.Engineer(), stopBulk(w.onlyBulk())))
	})
	b := w.bulk(w.Engineer(), bulkOf("b1", 20, bulk.BulkRuns{IDs: ids}))
	w.sends()
	b = w.bulkStopped(w.Engineer(), b.ID)
	sent := 0
	for _, id := range ids {
		sent += w.CountEvents(id, run.SignalAccepted)
	}
	if sent != b.Accepted || sent > 15 || b.NotSent != 20-sent {
		t.Errorf("%d signals were sent; %d are accepted and %d not sent, want these to add up to 20",
			sent, b.Accepted, b.NotSent)
	}
}

// A waiting bulk is stopped at once, even before any server has begun to send it.
func TestBulkStop_AWaitingBulkStopsAtOnce(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	b := w.bulk(w.Engineer(), bulkOf("b1", 3, bulk.BulkRuns{IDs: w.many(3)}))
	controltest.Must[bulk.Bulk](t)(w.CancelBulk(t.Context(), w.Engineer(), stopBulk(b.ID)))
	w.sends()
	if b = w.bulkStopped(w.Engineer(), b.ID); b.NotSent != 3 {
		t.Errorf("%d are not sent, want 3", b.NotSent)
	}
	if took := b.FinishedAt.Sub(*b.StoppedAt); took > testtime.Of(5*time.Second) {
		t.Errorf("the stop took %s, want it at once", took)
	}
}

// Only the requester of a bulk may see or stop it.
// contract: T101
func TestBulkStop_OnlyTheRequesterMayStopIt(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	b := w.bulk(w.Engineer(), bulkOf("b1", 1, bulk.BulkRuns{IDs: w.many(1)}))
	for _, who := range []string{"dev-admin", "dev-viewer", "nobody", "dev-mallory"} {
		_, err := w.CancelBulk(t.Context(), w.Principal(who), stopBulk(b.ID))
		controltest.Refusal(t, err, run.CodeNotFound)
	}
	_, err := w.CancelBulk(t.Context(), w.Engineer(), bulk.CancelBulk{ID: b.ID})
	controltest.Refusal(t, err, run.CodeBadInput)
	if now := controltest.Must[bulk.Bulk](t)(w.Bulk(t.Context(), w.Engineer(), b.ID)); now.StoppedAt != nil {
		t.Error("another principal stopped the bulk")
	}
}
