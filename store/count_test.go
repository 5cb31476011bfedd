package store_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// An adapter counts no further than MaxCounted, so above it no count is right, not even that of the failed runs.
func TestCountInto_RefusesMoreThanMaxCounted(t *testing.T) {
	t.Parallel()
	for name, statuses := range map[string][]run.Status{
		"all statuses": nil, "with failed runs": {run.Failed, run.Running}, "without failed runs": {run.Running},
	} {
		for _, extra := range []int64{0, 1} {
			out := make([]store.RunCount, 2)
			err := store.RunFilter{Statuses: statuses}.CountInto(out, func(f store.RunFilter, each func(part, n int64)) error {
				if slices.Equal(f.Statuses, []run.Status{run.Failed}) {
					each(1, 7)
					return nil
				}
				each(0, 1)
				each(1, store.MaxCounted-1+extra)
				return nil
			})
			if tooMany := extra > 0; errors.Is(err, store.ErrTooMany) != tooMany || !tooMany && err != nil {
				t.Errorf("%s, %d above MaxCounted: error %v, want ErrTooMany: %t", name, extra, err, tooMany)
			}
			if extra > 0 {
				continue
			}
			want := []store.RunCount{{Total: 1}, {Total: store.MaxCounted - 1}}
			if name != "without failed runs" {
				want[1].Failed = 7
			}
			if diff := cmp.Diff(want, out); diff != "" {
				t.Errorf("%s: counts (-want +got):\n%s", name, diff)
			}
		}
	}
}
