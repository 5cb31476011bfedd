package epoch_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/epoch"
)

func TestIsOlder_ComparesTheNumberAndThenTheTimeline(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, a, b string
		want       bool
	}{
		{"the same", "1.00000001", "1.00000001", false},
		{"a lower timeline", "1.00000009", "1.0000000A", true},
		{"a lower number on a higher timeline", "1.0000000A", "2.00000001", true},
		{"a higher number on a lower timeline", "2.00000001", "1.0000000A", false},
		{"the standby of the same history", "1.00000001~", "1.00000001", false},
		{"the standby of an older history", "1.00000001~", "1.00000002", true},
		{"an epoch of SQLite", "9f0c", "1.00000001", false},
		{"none yet", "1.00000001", "", false},
	} {
		if got := epoch.IsOlder(c.a, c.b); got != c.want {
			t.Errorf("%s: IsOlder(%q, %q) is %v, want %v", c.name, c.a, c.b, got, c.want)
		}
	}
}

func TestFence_RefusesAnEpochOlderThanTheNewestOne(t *testing.T) {
	t.Parallel()
	var f epoch.Fence
	for _, c := range []struct {
		epoch string
		want  bool
	}{{"1.00000001", true}, {"1.00000002", true}, {"1.00000001", false}, {"1.00000002", true}} {
		if got := f.Admit(c.epoch); got != c.want {
			t.Errorf("after %q, Admit(%q) is %v, want %v", f.Newest(), c.epoch, got, c.want)
		}
	}
}

func TestGuard_RefusesWorkOfANewerEpochUntilTheStoreHasIt(t *testing.T) {
	t.Parallel()
	own, reads := "1.00000001", 0
	g := epoch.NewGuard(func(context.Context) (string, error) { reads++; return own, nil })
	for _, work := range []string{"", "1.00000001", "1.00000001", "0.00000001"} {
		if err := g.Check(t.Context(), work); err != nil {
			t.Errorf("work of epoch %q: %v, want it accepted", work, err)
		}
	}
	if reads != 1 {
		t.Errorf("%d reads of the epoch, want one", reads)
	}
	if err := g.Check(t.Context(), "2.00000002"); !errors.Is(err, store.ErrFenced) || !errors.Is(err,
		store.ErrUnavailable) {
		t.Errorf("work of a newer epoch: %v, want ErrFenced", err)
	}
	own = "2.00000002"
	if err := g.Check(t.Context(), "2.00000002"); err != nil {
		t.Errorf("after the promotion of the store: %v, want the work accepted", err)
	}
}
