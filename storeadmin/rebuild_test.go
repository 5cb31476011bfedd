package storeadmin_test

import (
	"errors"
	"testing"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/storeadmin"
)

// contract: T193
func TestRebuild_ChangesNoAnswer(t *testing.T) {
	onEach(t, func(d *db) {
		want := map[string]run.State{}
		for n := range 6 {
			id := d.createRandom(n)
			if n%2 == 0 {
				d.project(id.RunID)
			}
			want[id.RunID] = d.state(id.RunID)
		}
		must(d.T, d.exec(d.dialect(
			`UPDATE run_state SET header = replace(CAST(header AS text), '"seq"', '"sequence"')::json`)))
		if d.verify().Differences == 0 {
			d.Fatal("Verify finds no difference in corrupt checkpoints")
		}
		for range 2 {
			out, err := storeadmin.Rebuild(d.Context(), d.Store, nil, nil)
			must(d.T, err)
			if out.Runs != 6 {
				d.Errorf("rebuilt %+v, want 6 runs", out)
			}
			d.clean()
			for runID, state := range want {
				equal(d.T, "state of "+runID, state, d.state(runID))
				cp, err := d.Checkpoint(d.Context(), runID)
				must(d.T, err)
				equal(d.T, "checkpoint of "+runID, state, cp)
			}
		}
		if out, err := storeadmin.Rebuild(d.Context(), d.Store, []string{"run-002"}, nil); err != nil || out.Runs != 1 {
			d.Errorf("rebuilt %+v of one named run, want 1 (error %v)", out, err)
		}
		if _, err := storeadmin.Rebuild(d.Context(), d.Store, []string{"nobody"}, nil); !errors.Is(err, store.ErrNotFound) {
			d.Errorf("rebuild of an unknown run: error %v, want ErrNotFound", err)
		}
	})
}

// contract: T30
func TestBumpEpoch_ReturnsTheOldAndTheNewEpoch(t *testing.T) {
	onEach(t, func(d *db) {
		before, after, err := storeadmin.BumpEpoch(d.Context(), d.Store)
		must(d.T, err)
		now, err := d.Epoch(d.Context())
		must(d.T, err)
		if before == after || after != now {
			d.Errorf("BumpEpoch returned %q and %q, the epoch is %q; want a new epoch", before, after, now)
		}
	})
}
