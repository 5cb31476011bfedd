package bulk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/bulk"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// faulty is a store whose bulk calls a test can refuse or observe.
type faulty struct {
	store.Store
	settle func() error // called before each SettleBulkRows
	dead   atomic.Bool  // the process is dead: it writes nothing more about bulks
	inRun  func() error // called before each InRun
	inRuns atomic.Int64 // number of finished calls
	down   atomic.Bool  // Bulk is unavailable
	chains func()       // called after each RerunChains has read
}

// dieInTheSecondRound returns the context of a server that sends its second round and dies before the outcomes are
// stored.
func (f *faulty) dieInTheSecondRound(t *testing.T) context.Context {
	t.Helper()
	ctx, kill := context.WithCancel(t.Context())
	f.settle = func() error {
		if f.dead.Load() {
			kill()
			return errDead
		}
		f.dead.Store(true)
		return nil
	}
	return ctx
}

func (f *faulty) SettleBulkRows(ctx context.Context, b store.Bulk, s store.BulkSettlement,
	ttl time.Duration) (store.Bulk, error) {
	if f.settle != nil {
		if err := f.settle(); err != nil {
			return store.Bulk{}, err
		}
	}
	return f.Store.SettleBulkRows(ctx, b, s, ttl)
}

func (f *faulty) ReleaseBulk(ctx context.Context, b store.Bulk, delay time.Duration) error {
	if f.dead.Load() {
		return errDead
	}
	return f.Store.ReleaseBulk(ctx, b, delay)
}

var errDead = errors.New("killed")

func (f *faulty) InRun(ctx context.Context, runID string, do func(store.RunTx) error) error {
	defer f.inRuns.Add(1)
	if f.inRun != nil {
		if err := f.inRun(); err != nil {
			return err
		}
	}
	return f.Store.InRun(ctx, runID, do)
}

func (f *faulty) RerunChains(ctx context.Context, tenantID string, runIDs []string, limit int) ([]store.ChainRun,
	error) {
	found, err := f.Store.RerunChains(ctx, tenantID, runIDs, limit)
	if f.chains != nil {
		f.chains()
	}
	return found, err
}

func (f *faulty) Bulk(ctx context.Context, id string) (store.Bulk, error) {
	if f.down.Load() {
		return store.Bulk{}, store.ErrUnavailable
	}
	return f.Store.Bulk(ctx, id)
}

// bulkWorld is a world whose store can fail, with leases short enough to wait for.
func bulkWorld(t *testing.T, change ...func(*usecases.Config)) (*world, *faulty) {
	t.Helper()
	f := &faulty{}
	w := newWorld(t, append(change, func(c *usecases.Config) {
		f.Store, c.Store = c.Store, f
		c.Leases.TTL = time.Second
	})...)
	return w, f
}

// many makes n running runs.
func (w *world) many(n int) (ids []string) {
	w.T.Helper()
	for i := range n {
		ids = append(ids, w.CreateQueued(fmt.Sprintf("q%d", i), "a"))
	}
	w.HandOver()
	for _, id := range ids {
		w.AppendEvents(id, runtest.Start())
	}
	return ids
}

func bulkOf(requestID string, count int, chosen bulk.BulkRuns) bulk.SignalRuns {
	return bulk.SignalRuns{
		RequestID: requestID, Runs: chosen, ExpectedCount: count, Reason: "release",
		Signal: runs.SignalRun{Signal: run.Signal{Type: run.Pause}, Payload: json.RawMessage(`{}`)},
	}
}

func (w *world) previewOf(p authz.Principal, in bulk.SignalRuns) runs.ActionPreview {
	w.T.Helper()
	return controltest.Must[runs.ActionPreview](w.T)(
		w.PreviewBulk(w.T.Context(), p, bulk.PreviewBulk{Runs: in.Runs, Signal: in.Signal}))
}

func (w *world) bulk(p authz.Principal, in bulk.SignalRuns) bulk.Bulk {
	w.T.Helper()
	return controltest.Must[bulk.MadeBulk](w.T)(w.SignalRuns(w.T.Context(), p, in)).Bulk
}

func (w *world) bulkDone(p authz.Principal, id string) (b bulk.Bulk) {
	w.T.Helper()
	controltest.Eventually(w.T, "the bulk is done", func() bool {
		b = controltest.Must[bulk.Bulk](w.T)(w.Bulk(w.T.Context(), p, id))
		return b.State() == "DONE"
	})
	return b
}

func (w *world) bulkRows(p authz.Principal, id string) (out []bulk.BulkRow) {
	w.T.Helper()
	for after := ""; ; {
		page := controltest.Must[bulk.BulkRowsPage](w.T)(
			w.BulkRows(w.T.Context(), p, bulk.BulkRowsQuery{BulkID: id, First: 200, After: after}))
		out = append(out, page.Rows...)
		if !page.HasNext {
			return out
		}
		after = fmt.Sprint(out[len(out)-1].No)
	}
}

func counts(b bulk.Bulk) []int {
	return []int{b.Total, b.Waiting(), b.Accepted, b.Rejected, b.Refused}
}

func (w *world) sends() (stop func()) {
	return w.Spawn(func(ctx context.Context) error { return w.SendBulks(ctx, "one") })
}
