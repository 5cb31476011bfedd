package run_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// logs is the number of random logs that each property is checked with.
var logs = testtime.Rounds(1_000)

// stored returns s after a round trip through the store, which has a header and steps as JSON.
func stored(t *testing.T, s run.State) run.State {
	t.Helper()
	var back run.State
	header, err := json.Marshal(s.Header)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(header, &back.Header); err != nil {
		t.Fatal(err)
	}
	for _, step := range s.Steps {
		body, err := json.Marshal(step)
		if err != nil {
			t.Fatal(err)
		}
		back.Steps = append(back.Steps, new(run.Step))
		if err := json.Unmarshal(body, back.Steps[len(back.Steps)-1]); err != nil {
			t.Fatal(err)
		}
	}
	return back
}

func fold(s run.State, evs []run.Event) run.State {
	s, _, _ = run.Fold(s, evs)
	return s
}

func empty() run.State { return run.State{Header: run.Header{Identity: runtest.ID}} }

func wantEqual(t *testing.T, what string, seed int, want, got run.State) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("seed %d, %s (-want +got):\n%s", seed, what, cmp.Diff(want, got))
	}
}

// sources are the two kinds of logs for which every property must hold.
var sources = map[string]func(seed uint64) []run.Event{"valid": runtest.RandomLog, "hostile": runtest.Hostile}

func TestRandomLog_IsValid(t *testing.T) {
	t.Parallel()
	types := map[run.EventType]int{}
	statuses := map[run.Status]int{}
	substatuses := map[run.Substatus]int{}
	for seed := range logs {
		evs := runtest.RandomLog(uint64(seed))
		for _, e := range evs {
			d := run.Draft{Type: e.Type, StepID: e.StepID, SignalID: e.SignalID, LogicalAttempt: e.LogicalAttempt,
				EngineAttempt: e.EngineAttempt, EmittedAt: e.EmittedAt, EmittedBy: e.EmittedBy, Payload: e.Payload}
			if err := d.Validate(runtest.ID); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			types[e.Type]++
		}
		s, _, anomalies := run.Fold(empty(), evs)
		if len(anomalies) > 0 {
			t.Fatalf("seed %d: %v", seed, anomalies)
		}
		statuses[s.Status]++
		substatuses[s.Substatus()]++
	}
	t.Log(types, statuses, substatuses)
	if len(types) < len(runtest.Types) || len(statuses) < 6 || len(substatuses) < 6 {
		t.Errorf("random logs have %d event types, %d statuses and %d substatuses, want %d, 6 and 6", len(types), len(statuses),
			len(substatuses), len(runtest.Types))
	}
}

// stride returns the distance between the positions at which a test splits a log: every position of a short log, about
// ten positions of a long one, which differ from seed to seed.
func stride(evs []run.Event) int { return max(1, len(evs)/10) }

// contract: P01
func TestFold_OfTwoPartsEqualsFoldOfTheLog(t *testing.T) {
	t.Parallel()
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range logs {
				evs := source(uint64(seed))
				whole := run.Project(runtest.ID, evs)
				for k := seed % stride(evs); k <= len(evs); k += stride(evs) {
					wantEqual(t, "split", seed, whole, fold(fold(empty(), evs[:k]), evs[k:]))
				}
			}
		})
	}
}

// A fold may continue from a stored state, and event by event: the result is that of one fold, and no input changes.
// contract: P01, P03
func TestFold_ContinuesFromStorageAndStepByStep(t *testing.T) {
	t.Parallel()
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range logs / 5 {
				evs := source(uint64(seed))
				whole := run.Project(runtest.ID, evs)
				wantEqual(t, "stored", seed, whole, stored(t, whole))
				s := empty()
				var was []run.State
				for k := range evs {
					was = append(was, s)
					before := stored(t, s)
					next, changes, _ := run.Fold(s, evs[k:k+1])
					wantEqual(t, "input after the fold", seed, before, stored(t, s))
					checkChanges(t, seed, s, next, changes)
					s = next
				}
				wantEqual(t, "stepwise", seed, whole, s)
				k := seed % len(evs)
				wantEqual(t, "resumed from storage", seed, whole, fold(stored(t, was[k]), evs[k:]))
			}
		})
	}
}

// checkChanges compares the Changes of a fold with the differences of its states.
func checkChanges(t *testing.T, seed int, before, after run.State, c run.Changes) {
	t.Helper()
	if !c.Header && !reflect.DeepEqual(before.Header, after.Header) && before.Rev != 0 {
		t.Fatalf("seed %d: the header changed, but Changes.Header is false", seed)
	}
	if !slices.IsSorted(c.Steps) {
		t.Fatalf("seed %d: Changes.Steps %v are not ascending", seed, c.Steps)
	}
	for i, step := range after.Steps {
		shared := i < len(before.Steps) && before.Steps[i] == step
		if changed := slices.Contains(c.Steps, run.Ord(i)); changed == shared {
			t.Fatalf("seed %d: step %d changed: %v, shared: %v", seed, i, changed, shared)
		}
		if step.Ord != run.Ord(i) || !shared && step.ChangedSeq != after.Seq {
			t.Fatalf("seed %d: step %d has ord %d, changed at %d of %d", seed, i, step.Ord, step.ChangedSeq, after.Seq)
		}
	}
}

// contract: P02, P05
func TestFold_ReplayChangesNothing(t *testing.T) {
	t.Parallel()
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range logs {
				evs := source(uint64(seed))
				s := run.Project(runtest.ID, evs)
				again, changes, anomalies := run.Fold(s, evs[:seed%(len(evs)+1)])
				wantEqual(t, "replay", seed, s, again)
				if changes.Header || changes.Steps != nil || anomalies != nil {
					t.Fatalf("seed %d: replay reports changes %v and anomalies %v, want none", seed, changes, anomalies)
				}
				if len(s.Steps) > 0 && &s.Steps[0] != &again.Steps[0] {
					t.Fatalf("seed %d: replay copied the steps", seed)
				}
			}
		})
	}
}

// recount derives from the steps the counts and the root cause that Fold updates incrementally in the header.
func recount(s run.State) (c run.StepCounts, root *run.StepRef) {
	for _, step := range s.Steps {
		c.Total++
		switch step.Status {
		case run.StepPending:
			c.Pending++
		case run.StepRunning:
			c.Running++
		case run.StepSuccess:
			c.Success++
		case run.StepSkipped:
			c.Skipped++
		case run.StepFailed:
			c.Failed++
			last := step.Attempts[len(step.Attempts)-1]
			if root == nil || last.EndedSeq < root.Seq {
				root = &run.StepRef{StepID: step.StepID, LogicalAttempt: last.LogicalAttempt, Seq: last.EndedSeq, Error: last.Error}
			}
		}
		if step.Substatus == run.WaitingManual {
			c.Manual++
		}
	}
	return c, root
}

// contract: T149, T214, T24
func TestFold_KeepsTheInvariantsOfAState(t *testing.T) {
	t.Parallel()
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range logs {
				var ended run.State
				s := empty()
				for _, e := range source(uint64(seed)) {
					s = fold(s, []run.Event{e})
					counts, root := recount(s)
					if s.Counts != counts || !reflect.DeepEqual(s.RootCause, root) {
						t.Fatalf("seed %d at %d: %+v %+v, want %+v %+v", seed, e.Seq, s.Counts, s.RootCause, counts, root)
					}
					if s.Seq != e.Seq || s.StatusSeq > s.Seq {
						t.Fatalf("seed %d: after event %d the state is at %d and its status is of %d", seed, e.Seq, s.Seq,
							s.StatusSeq)
					}
					if s.Status.Terminal() && (s.Pause != nil || s.RetryDeadline != nil || s.Compensating || s.Queued ||
						s.CompletedAt == nil) {
						t.Fatalf("seed %d at %d: the ended run has a pause, a retry window, a queue or no end: %+v", seed, e.Seq,
							s.Header)
					}
					if s.RetryDeadline != nil && s.Status == run.Paused {
						t.Fatalf("seed %d at %d: a paused run has a retry window", seed, e.Seq)
					}
					if ended.Status.Terminal() {
						ended.Seq = s.Seq
						wantEqual(t, "after the end", seed, ended, s)
					}
					ended = s
				}
			}
		})
	}
}

// Overlapping, repeated and late deltas in any order without a gap lead to the folded state.
// contract: T188
func TestApply_OverlappingDeltasLeadToTheFold(t *testing.T) {
	t.Parallel()
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range logs {
				r := rand.New(rand.NewPCG(uint64(seed), 9))
				evs := source(uint64(seed))
				states := []run.State{empty()}
				for _, e := range evs {
					states = append(states, fold(states[len(states)-1], []run.Event{e}))
				}
				last := states[len(states)-1]
				view := states[r.IntN(len(states))]
				for range 2 * len(states) {
					from, to := states[r.IntN(len(states))].Seq, states[r.IntN(len(states))]
					d := to.Since(from)
					before := slices.Clone(view.Steps)
					next, verdict := view.Apply(d)
					if !slices.Equal(before, view.Steps) {
						t.Fatalf("seed %d: Apply changed its input", seed)
					}
					switch want := verdictOf(view.Seq, d); {
					case verdict != want:
						t.Fatalf("seed %d: Apply of (%d, %d] to a state at %d = %v, want %v", seed, d.From, d.To, view.Seq, verdict,
							want)
					case verdict == run.Applied:
						wantEqual(t, "applied", seed, to, next)
					default:
						wantEqual(t, "not applied", seed, view, next)
					}
					view = next
				}
				view, _ = view.Apply(last.Since(view.Seq))
				wantEqual(t, "the end", seed, last, view)
			}
		})
	}
}

func verdictOf(w run.Seq, d run.Delta) run.Verdict {
	switch {
	case d.To <= w:
		return run.Old
	case d.From > w:
		return run.Gap
	}
	return run.Applied
}

// contract: T188
func TestApply_RefusesForeignAndIncompleteDeltas(t *testing.T) {
	t.Parallel()
	s := run.Project(runtest.ID, runtest.Log(runtest.Start("a", "b"), runtest.Draft(run.StepStartedEvent, "a", 1)))
	foreign := s.Since(0)
	foreign.Header.RunID = "another"
	lacking := s.Since(1)
	lacking.From = 0
	stray := s.Since(0)
	stray.Steps = append(slices.Clone(stray.Steps), &run.Step{Ord: 7})
	for name, d := range map[string]run.Delta{"foreign": foreign, "lacking": lacking, "stray": stray,
		"nil": {To: 2, Header: s.Header, Steps: []*run.Step{nil}}} {
		if got, verdict := empty().Apply(d); verdict != run.Gap || got.Seq != 0 {
			t.Errorf("%s: %v at %d, want Gap and nothing changed", name, verdict, got.Seq)
		}
	}
	if got, verdict := (run.State{}).Apply(s.Since(0)); verdict != run.Applied || !reflect.DeepEqual(got, s) {
		t.Errorf("Apply of a complete delta to the zero State: verdict %v, want Applied (-want +got):\n%s", verdict,
			cmp.Diff(s, got))
	}
}
