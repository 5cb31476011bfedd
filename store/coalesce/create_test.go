package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/coalesce"
)

func newRun(id, project string) store.NewRun {
	return store.NewRun{Run: store.Run{Identity: run.Identity{RunID: id, ProjectID: project}}}
}

func TestCreateRun_WaitingCallsShareATransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		c := coalesce.New(s, coalesce.Config{MaxGroup: 4})
		began := time.Now()
		got := make([]string, 7)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				project := "p"
				if i == 2 {
					project = "poison"
				}
				r, created, err := c.CreateRun(t.Context(), newRun(fmt.Sprint("r", i), project))
				got[i] = fmt.Sprint(r.RunID, " ", created, " ", err, " ", time.Since(began))
			})
			synctest.Wait() // so that the calls arrive in this order
		}
		wg.Wait()
		if diff := cmp.Diff([]string{"create: r0", "create: r1 r2 r3 r4", "create: r5 r6"}, s.writes); diff != "" {
			t.Errorf("transactions (-want +got):\n%s", diff)
		}
		want := []string{
			"r0 true <nil> 1s", "r1 true <nil> 2s", " false poison 2s", "r3 true <nil> 2s", "r4 true <nil> 2s",
			"r5 true <nil> 3s", "r6 true <nil> 3s",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
	})
}

func TestCreateRun_DoesNotWriteACancelledCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		c := coalesce.New(s, coalesce.Config{MaxWaiting: 2})
		leaving, leave := context.WithCancel(t.Context())
		errs := make([]error, 4)
		var wg sync.WaitGroup
		for i, ctx := range []context.Context{t.Context(), leaving, t.Context(), t.Context()} {
			wg.Go(func() { _, _, errs[i] = c.CreateRun(ctx, newRun(fmt.Sprint("r", i), "p")) })
			synctest.Wait()
		}
		leave()
		wg.Wait()
		if diff := cmp.Diff([]string{"create: r0", "create: r2"}, s.writes); diff != "" {
			t.Errorf("transactions (-want +got):\n%s", diff)
		}
		if !errors.Is(errs[1], context.Canceled) {
			t.Errorf("the cancelled caller got %v, want context.Canceled", errs[1])
		}
		if !errors.Is(errs[3], store.ErrOverloaded) {
			t.Errorf("the third waiting call got %v, want ErrOverloaded", errs[3])
		}
	})
}
