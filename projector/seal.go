package projector

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// sealEvery is the number of events between two seals of the log of an open run. The log of a run that ended is
// sealed with its last event.
const sealEvery = 1000

// sealer chains the logs of runs: before a checkpoint is saved, it writes the seal of the log up to that position
// into the audit. The dirty mark is cleared after the checkpoint, so that a crash in between seals again. The
// look-up finds an existing seal.
type sealer struct {
	store Store
	last  *lru.Cache[sealKey, run.Seq] // position of the newest seal; missing runs are looked up
}

// sealKey includes the epoch, because a restored store has lost seals.
type sealKey struct {
	epoch, runID string
}

func newSealer(s Store, size int) *sealer {
	last, err := lru.New[sealKey, run.Seq](size)
	if err != nil {
		panic(err) // lru.New only fails for a size below 1
	}
	return &sealer{store: s, last: last}
}

// seal writes the seal of w's log at the state that will be saved, if one is due.
func (s *sealer) seal(ctx context.Context, w *runWork) error {
	state, key := w.state.state, sealKey{w.state.epoch, w.runID}
	last, _ := s.last.Get(key)
	due := func() bool { return state.Seq-last >= sealEvery || state.Status.Terminal() && state.Seq > last }
	if !due() {
		return nil
	}
	// Another server may have sealed the log, or this one before a restart.
	found, err := s.store.LastLogSeal(ctx, state.TenantID, w.runID, state.Seq+1)
	if err != nil {
		return fmt.Errorf("find the seal of the log: %w", err)
	}
	if last = found.Seq; !due() {
		s.last.Add(key, last)
		return nil
	}
	row, err := store.SealLog(ctx, s.store, state.Identity, found, state.Seq)
	if err == nil {
		row.ID = uuid.NewString()
		err = s.store.Audit(ctx, row)
	}
	if err != nil {
		return fmt.Errorf("seal the log: %w", err)
	}
	s.last.Add(key, state.Seq)
	return nil
}
