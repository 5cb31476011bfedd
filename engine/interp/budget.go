package interp

import (
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
)

// anySize is more than a batch can have: one that is said again stays whole.
const anySize = 1 << 30

// unconfirmed says a batch again that the store did not answer for within the
// write budget: first as it was, which finds what is in the log by its keys, then
// with a failure in the place of each completion, until the log answers. The batch
// stays the outstanding one, so nothing is judged or begun on a guess. A late try
// of the first wording adds nothing to the last one and the other way round: all
// other facts are the same, and the terminal that is in the log first is adopted
// by either (T10, T120, T191).
func (m *Machine) unconfirmed(b *batch) {
	b.silences++
	if b.silences > 1 {
		m.giveUp(b)
	}
	a, _ := m.compose(b.entries, anySize)
	m.send(a)
}

// giveUp turns the completions of a batch into failures. They move behind the
// rest, which so says what it said before: nothing of it follows a failure that
// arms fail-fast.
func (m *Machine) giveUp(b *batch) {
	var rest, failures []entry
	for _, e := range b.entries {
		if !e.completes() {
			rest = append(rest, e)
			continue
		}
		m.fails(&e, budgetExceeded(e.end.of))
		m.failure.arming++
		failures = append(failures, e)
	}
	b.entries = append(rest, failures...)
}

// completes reports whether the entry says that a step completed.
func (e *entry) completes() bool {
	return e.kind == stepEnds && e.drafts[len(e.drafts)-1].Type == run.StepCompletedEvent
}

func budgetExceeded(of engine.StepEnd) run.FailurePayload {
	f := run.FailurePayload{
		ErrorCode: string(run.CodeWriteBudget), ErrorMessage: "The step completed, but the log did not confirm it in time.",
		Retryable: true, FailureCategory: run.CategoryPlatform, FailureSource: "engine",
	}
	if of.Completed != nil {
		f.DurationMS, f.ArtifactRefs = of.Completed.DurationMS, of.Completed.ArtifactRefs
	}
	return f
}
