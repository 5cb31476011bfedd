package erasure_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/erasure"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Two people of the same runs are erased at once: each confirmed or asked for the erasure of the other one. One erasure
// is killed in the middle, the other one ends, and then the first one goes on.
func TestSubject_TwoErasuresOfTheSameRuns(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		i.seed(gone)
		const second = "second"
		tenant, ana, bo := "tenant-"+gone, personOf(gone), "bo."+gone+"@example.org"
		for k := range 3 {
			id := fmt.Sprintf("run-%s-%d", gone, k)
			check(t, i.store.InRun(t.Context(), id, func(tx store.RunTx) error {
				_, err := tx.PutReceipt(t.Context(), run.SignalReceipt{RunID: id, Actor: bo, Reason: bo + " asked " + ana,
					Signal: run.Signal{ID: fmt.Sprint("of-bo-", k), Type: "PAUSE"}}, true)
				return err
			}))
		}
		i.end(gone, 0)
		problems := i.problems(tenant)
		i.ask(request, store.EraseSubject, ana)
		i.ask(second, store.EraseSubject, bo)
		_, err := i.runner(func(phase, position string) error {
			if phase == erasure.PhaseLogs && position != "" {
				return errKilled
			}
			return nil
		}).Run(t.Context(), request)
		if !errors.Is(err, errKilled) {
			t.Fatalf("the first erasure ended with %v, want that it is killed among the logs", err)
		}
		other := i.certificate(must[json.RawMessage](t)(i.runner(nil).Run(t.Context(), second)))
		first := i.certificate(must[json.RawMessage](t)(i.runner(nil).Run(t.Context(), request)))
		for _, person := range []string{ana, bo} {
			for _, trace := range i.named(person) {
				t.Errorf("%s is still named by %s", person, trace)
			}
		}
		if len(first.Remaining)+len(other.Remaining) > 0 || first.Pseudonym == other.Pseudonym {
			t.Errorf("what remains: %v of %s and %v of %s, want nothing of two people", first.Remaining, first.Pseudonym,
				other.Remaining, other.Pseudonym)
		}
		if diff := cmp.Diff(problems, i.problems(tenant)); diff != "" {
			t.Errorf("the check of the audit finds (-before +after):\n%s", diff)
		}
	})
}
