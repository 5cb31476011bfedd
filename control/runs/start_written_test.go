package runs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/server/usecases"
)

// The third run waits for a token.
func TestStartRun_ReadsNothingAgainAfterItsCommit(t *testing.T) {
	t.Parallel()
	var counted *controltest.ReadCounter
	w := newWorld(t, controltest.WithQuotas(controltest.HobbyQuotas()), func(c *usecases.Config) {
		counted = &controltest.ReadCounter{Store: c.Store}
		c.Store = counted
	})
	reads := func() int64 { return counted.Gets.Load() + counted.Loads.Load() + counted.QueueRowReads.Load() }
	for i, request := range []string{"r1", "r2", "r3"} {
		before := reads()
		first := w.StartOneStep(request)
		if n := reads() - before; n != 0 || first.Deduplicated || controltest.Waits(first) != (i == 2) {
			t.Errorf("%s: %d reads of the run, deduplicated %t, it waits %t; want no read, and that only the third waits",
				request, n, first.Deduplicated, controltest.Waits(first))
		}
		again := w.StartOneStep(request)
		if diff := cmp.Diff(again.View, first.View, cmpopts.IgnoreFields(control.RunView{}, "AsOf"),
			cmpopts.IgnoreFields(control.QueueEntry{}, "Wait"),
			cmpopts.EquateEmpty()); diff != "" || !again.Deduplicated {
			t.Errorf("%s: view that is read and view that was written (-want +got):\n%s", request, diff)
		}
	}
}
