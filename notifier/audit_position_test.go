package notifier_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/notifier"
	"github.com/dvt-engine/dvt/store"
)

// positionWatch compares each position that a notifier saves with what the receiver has accepted until then.
type positionWatch struct {
	notifier.Store
	t        *testing.T
	accepted func() int64 // the number of the last record of acme that was accepted
	mu       sync.Mutex
	saved    map[int64]bool
}

func (w *positionWatch) SaveCursor(ctx context.Context, c store.Cursor, lease time.Duration) error {
	var at struct {
		Audit map[string]int64 `json:"audit"`
	}
	if err := json.Unmarshal([]byte(c.Position), &at); err != nil {
		w.t.Errorf("the position %q is no document: %v", c.Position, err)
	}
	if no, accepted := at.Audit["acme"], w.accepted(); no > accepted {
		w.t.Errorf("the saved position is record %d and the receiver has accepted %d: a kill now loses the records between",
			no, accepted)
	}
	w.mu.Lock()
	w.saved[at.Audit["acme"]] = true
	w.mu.Unlock()
	return w.Store.SaveCursor(ctx, c, lease)
}

// A position is saved while later records are read and wait: one that is a record or a batch ahead loses records by a
// kill at that moment.
func TestAudit_ASavedPositionIsNeverAheadOfTheReceiver(t *testing.T) {
	t.Parallel()
	f := newFixture(t, destination.Config{Name: "siem", Kind: destination.Webhook, Route: auditRoute})
	f.timing.Lease = 200 * time.Millisecond // a batch covers 25 ms, and a position is saved each 50 ms
	siem := f.receivers["siem"]
	siem.answer = func(context.Context, destination.Message) error {
		time.Sleep(15 * time.Millisecond)
		return nil
	}
	w := &positionWatch{Store: f.store, t: t, saved: map[int64]bool{}, accepted: func() (last int64) {
		for _, m := range siem.messages() {
			last = max(last, int64(m.Seq))
		}
		return last
	}}
	f.start(w, "one")
	const records = 60
	for k := range records {
		f.act("acme", k, 1)
		time.Sleep(8 * time.Millisecond)
	}
	f.waitFor("all records", func() bool { return w.accepted() == records })
	checkChain(t, docsOf(t, siem.messages(), "acme"), records)
	f.waitFor("the last position", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.saved[records]
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.saved) < 4 {
		t.Errorf("positions %v were saved; want some between the first record and the last", w.saved)
	}
}
