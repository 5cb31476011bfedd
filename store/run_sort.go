package store

import (
	"errors"
	"slices"

	"github.com/dvt-engine/dvt/run"
)

// RunSort is an order of a list of runs. The zero value is the order of their creation.
type RunSort string

// Orders of lists. Each lists only the runs that have its key.
const (
	// SortEnded orders the runs that have ended by when they ended.
	SortEnded RunSort = "ENDED"
	// SortDuration orders the runs that started and ended by how long that took.
	SortDuration RunSort = "DURATION"
	// SortTimeLeft orders the runs that await an operator by when their retry window closes.
	SortTimeLeft RunSort = "TIME_LEFT"
)

// SortObstacles returns the names of what keeps a store from serving the list in the order of f.Sort from an index: the
// JSON names of fields that must not be set, and "planId" when a list by duration names no plan. A list with an
// obstacle would read all runs of a tenant, so List refuses it.
func (f *RunFilter) SortObstacles() (names []string) {
	add := func(name string, is bool) {
		if is {
			names = append(names, name)
		}
	}
	switch f.Sort {
	case "":
		return nil
	case SortDuration:
		add("planId", f.PlanID == "")
	}
	if f.Sort != SortTimeLeft { // only runs that wait are in its index, and they are few
		add("triggeredBy", f.TriggeredBy != "")
		add("createdFrom", !f.CreatedFrom.IsZero())
		add("createdTo", !f.CreatedTo.IsZero())
	}
	add("text", f.Text != "")
	add("tag", f.Tag != "")
	return names
}

// EndedStatuses returns those of the filter's statuses in which a run has ended; all of them when the filter does not
// restrict the status. Runs that await an operator have not ended.
func (f *RunFilter) EndedStatuses() []run.Status {
	return slices.DeleteFunc(run.Statuses(), func(s run.Status) bool {
		return !s.Terminal() || (len(f.Statuses) > 0 || f.AwaitingOperator) && !slices.Contains(f.Statuses, s)
	})
}

// ErrSort says that a list cannot be read in the order of its Sort; see SortObstacles.
var ErrSort = errors.New("store: no index serves this order of the list")
