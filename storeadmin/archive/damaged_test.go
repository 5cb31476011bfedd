package archive_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// The bucket of yesterday lacks an object that the store of today names. The run says so, and the consumers of all
// other runs go on.
func TestReading_ALostArchiveStopsNoOtherRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lost, whole := f.endedRun(1), f.endedRun(2)
	f.ok(f.objects.RemoveArchived(t.Context(), f.archive(lost, -1).Location))
	f.archive(whole, -1)
	var told []string
	s := archive.Reading(f.raw, f.objects, func(_ context.Context, runID string, err error) {
		if errors.Is(err, store.ErrArchiveDamaged) {
			told = append(told, runID)
		}
	})
	if _, err := s.Events(t.Context(), lost, 0, 10); !errors.Is(err, store.ErrArchiveDamaged) {
		t.Errorf("the events of a run whose archive is lost: %v, want ErrArchiveDamaged", err)
	}
	tails, err := s.Tails(t.Context(), []store.TailRequest{{RunID: lost}, {RunID: whole}})
	f.ok(err)
	if n := len(tails.ByRun[whole].Events); n == 0 {
		t.Error("a run whose archive is whole has no events")
	}
	if n := len(tails.ByRun[lost].Events); n > 0 || !slices.Equal(told, []string{lost}) {
		t.Errorf("the run whose archive is lost has %d events, and %q were told; want none, and that run", n, told)
	}
}
