package erasing

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// runsOnly is a store that has runs by id, with the tenant and the status of each.
type runsOnly map[string][2]string

func (runsOnly) ErasureHolds(context.Context, string, string) (int64, error) { return 0, nil }

func (s runsOnly) Get(_ context.Context, id string) (store.Run, error) {
	r, ok := s[id]
	if !ok {
		return store.Run{}, store.ErrNotFound
	}
	return store.Run{Identity: run.Identity{RunID: id, TenantID: r[0], PlanID: "p"}}, nil
}

func (s runsOnly) Load(_ context.Context, id string) (store.Loaded, error) {
	return store.Loaded{State: run.State{Header: run.Header{Status: run.Status(s[id][1])}}}, nil
}

// An erasure in which the owner found open runs says which ones, and where each stands now.
func TestLook_ListsWhatAnErasureWaitsFor(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 1, 2, 3, 4, 0, time.UTC)
	work := store.OpenWork{At: at, Count: 23, Runs: []string{"open", "ended", "gone", "another"}, Bulks: []string{"b1"}}
	e := store.Erasure{ID: "e1", Kind: store.EraseSubject, TenantID: "acme", StartedAt: &at, Phase: "OPEN",
		Position: work.Position(), RequestedAt: at}
	s := runsOnly{"open": {"acme", "PAUSED"}, "ended": {"acme", "COMPLETED"}, "another": {"globex", "RUNNING"}}
	seen, err := look(t.Context(), s, e, at.AddDate(0, 0, 4))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range seen.Open {
		got = append(got, o.Run.RunID+o.BulkID+" "+string(o.Status)+" "+o.Run.PlanID)
	}
	want := []string{"open PAUSED p", "ended COMPLETED p", "gone  ", "another  ", "b1  "}
	if !slices.Equal(got, want) || seen.Waits != WaitOpen || seen.OpenCount != 23 || !seen.OpenAt.Equal(at) {
		t.Errorf("it waits for %q (%s, %d, %s), want %q (OPEN_WORK, 23, %s)", got, seen.Waits, seen.OpenCount, seen.OpenAt,
			want, at)
	}
	note := delayedAlert(seen, 4*24*time.Hour).Note
	for _, part := range []string{"23 open runs and bulks", "run open, run ended, run gone, 20 more",
		"dvt store erase e1"} {
		if !strings.Contains(note, part) {
			t.Errorf("the alert says %q, want %q in it", note, part)
		}
	}
	e.FinishedAt = &at
	if seen, err = look(t.Context(), s, e, at); err != nil || seen.Waits != WaitNothing || seen.OpenCount != 0 {
		t.Errorf("an erasure that has ended waits for %s (%d), error %v; want nothing", seen.Waits, seen.OpenCount, err)
	}
}
