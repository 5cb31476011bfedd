package storeadmin

import (
	"context"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// Rebuilt counts what Rebuild did.
type Rebuilt struct {
	Runs int `json:"runs"` // with a new checkpoint
}

// Rebuild drops the checkpoints of the named runs, or of all runs when none is named, and makes new ones from their
// logs. It changes no answer of the store, and may be repeated. *UnknownRunsError when a named run does not exist.
func Rebuild(ctx context.Context, s store.Store, only []string, p Progress) (Rebuilt, error) {
	var out Rebuilt
	err := forEachRun(ctx, s, only, func(r store.Run) error {
		if err := s.DropCheckpoint(ctx, r.RunID); err != nil {
			return err
		}
		head, _, err := headOf(ctx, s, r.RunID)
		if err != nil {
			return err
		}
		state := authority.Base(r)
		for page, err := range pages(ctx, s, r.RunID, head.LastSeq) {
			if err != nil {
				return err
			}
			state, _, _ = run.Fold(state, page)
		}
		all := run.Changes{Header: true}
		for _, step := range state.Steps {
			all.Steps = append(all.Steps, step.Ord)
		}
		if _, err := s.Save(ctx, state, all); err != nil { // false when a projector was faster, which is fine
			return err
		}
		out.Runs++
		p.done(r.RunID)
		return nil
	})
	return out, err
}
