package erasure

import (
	"context"
	"fmt"

	"github.com/dvt-engine/dvt/store/owner"
)

// findNames counts what still names a person, by table, and the archived logs under "archive". It returns the places
// that it does not search: programs may print any name.
func (r *Runner) findNames(ctx context.Context, s owner.Scope) (found map[string]int64, not []string, err error) {
	if found, err = r.cfg.Owner.FindNames(ctx, s); err != nil {
		return nil, nil, err
	}
	not = []string{"artifacts", "step logs", "backups"}
	after := ""
	for {
		runs, locations, err := r.cfg.Owner.Archives(ctx, s.TenantID, after, r.cfg.Batch)
		if err != nil {
			return nil, nil, err
		}
		for i, location := range locations {
			named, err := r.namesIn(ctx, location, owner.Renaming{Name: s.Subject})
			if err != nil {
				return nil, nil, fmt.Errorf("search the archived log of run %s: %w", runs[i], err)
			}
			if named {
				found["archive"]++
			}
		}
		if len(runs) < r.cfg.Batch {
			return found, not, nil
		}
		after = runs[len(runs)-1]
	}
}

// reasons say why a place still names an erased person.
func reasons(found map[string]int64) map[string]string {
	if len(found) == 0 {
		return nil
	}
	out := map[string]string{}
	for place := range found {
		switch place {
		case "audit":
			out[place] = "the chain covers rows from before subject-keys, and details in which others named the person"
		case "plan_body":
			out[place] = "a plan is addressed by its content, and its author wrote the name into it"
		default:
			out[place] = "the name is an identifier, or was written while the erasure ended: erase the person again"
		}
	}
	return out
}
