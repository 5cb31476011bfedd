package reads

import (
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// span is a time from its beginning to its end.
type span struct{ from, to time.Time }

// waitedForPeople returns how long the run waited for people until now or until its end: for a manual step, or for
// somebody to retry a failed step. Time in which another step ran is left out, because then the run did not wait.
func waitedForPeople(s *run.State, now time.Time) time.Duration {
	end := now
	if s.CompletedAt != nil {
		end = *s.CompletedAt
	}
	var waits, work []span
	for _, step := range s.Steps {
		for i, a := range step.Attempts {
			if a.StartedAt == nil {
				continue
			}
			over := end
			if a.CompletedAt != nil {
				over = *a.CompletedAt
			}
			switch {
			case a.WaitingSince != nil:
				waits = append(waits, span{*a.WaitingSince, over})
			default:
				work = append(work, span{*a.StartedAt, over})
			}
			// The tries of the engine are within one attempt. A further attempt starts because a person asked for it.
			if a.Status != run.StepFailed || a.CompletedAt == nil {
				continue
			}
			next := end
			if i+1 < len(step.Attempts) && step.Attempts[i+1].StartedAt != nil {
				next = *step.Attempts[i+1].StartedAt
			}
			waits = append(waits, span{over, next})
		}
	}
	return lengthOf(slices.Concat(waits, work)) - lengthOf(work)
}

// lengthOf returns the time that at least one of the spans covers.
func lengthOf(spans []span) (sum time.Duration) {
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	var covered time.Time
	for _, s := range spans {
		if s.from.Before(covered) {
			s.from = covered
		}
		if s.to.After(s.from) {
			sum += s.to.Sub(s.from)
			covered = s.to
		}
	}
	return sum
}
