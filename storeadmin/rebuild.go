package storeadmin

import (
	"context"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// Rebuilt is what Rebuild did.
type Rebuilt struct {
	Runs int `json:"runs"` // whose checkpoint was made anew
}

// Rebuild drops the checkpoints of runs, all when none is named, and makes new ones
// from their logs. It changes no answer, and repeating it changes nothing.
func Rebuild(ctx context.Context, s store.Store, only []string, p Progress) (Rebuilt, error) {
	var out Rebuilt
	err := each(ctx, s, only, func(r store.Run) error {
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
		if _, err := s.Save(ctx, state, all); err != nil { // a projector may have been faster: its is newer
			return err
		}
		out.Runs++
		p.done(r.RunID)
		return nil
	})
	return out, err
}
