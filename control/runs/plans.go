package runs

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/internal/sizedlru"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

// PlanStore reads plans by their digest.
type PlanStore interface {
	Plan(ctx context.Context, sha256 string) ([]byte, error)
}

// PlanReader reads the plans of runs. It is safe for concurrent use.
type PlanReader struct {
	rights *control.Rights
	store  PlanStore
	Queues plan.Queues
	facts  *sizedlru.Cache[planFacts]
}

// NewPlanReader makes a PlanReader.
func NewPlanReader(rights *control.Rights, store PlanStore, queues plan.Queues) *PlanReader {
	return &PlanReader{rights: rights, store: store, Queues: queues, facts: sizedlru.New[planFacts](maxPlans,
		maxFactsBytes)}
}

// planFacts holds by stepId the facts of a plan that the use cases need.
type planFacts map[string]StepFacts

// StepFacts are the facts of one step that the use cases need.
type StepFacts struct {
	Sod          bool   // another person than the one who asked for the run must complete it
	Name         string // of the step
	instructions string
	evidence     json.RawMessage
	Patience     time.Duration // maximum duration of all tries of one attempt
	Tries        int
	Timeout      time.Duration
	Queue        string
	dependsOn    []string
}

// Limits of the cache of facts by plan digest. Entries do not expire: a plan never changes.
const (
	maxPlans      = 256
	maxFactsBytes = 64 << 20
)

// PlanFacts returns the facts of a run's plan, from the cache when possible. Errors: store.ErrNotFound when no worker
// has fetched the plan yet, *plan.InvalidError.
func (s *PlanReader) PlanFacts(ctx context.Context, ref plan.Ref) (planFacts, error) {
	if f, ok := s.facts.Get(ref.SHA256); ok {
		return f, nil
	}
	pl, err := s.storedPlan(ctx, ref)
	if err != nil {
		return nil, err
	}
	f := factsOf(pl, s.Queues)
	s.facts.Put(ref.SHA256, f, f.bytes())
	return f, nil
}

// storedPlan reads a plan from the store. Errors: store.ErrNotFound when no worker has fetched it yet,
// *plan.InvalidError when the document is not a valid plan.
func (s *PlanReader) storedPlan(ctx context.Context, ref plan.Ref) (plan.Plan, error) {
	doc, err := s.store.Plan(ctx, ref.SHA256)
	if err != nil {
		return plan.Plan{}, err
	}
	return control.OpenPlan(doc, ref, s.Queues)
}

func factsOf(pl plan.Plan, q plan.Queues) planFacts {
	out := make(planFacts, len(pl.Steps))
	sk := pl.Skeleton(q)
	for i, step := range pl.Steps {
		f := StepFacts{Name: step.Name, Timeout: step.Timeout, Tries: step.Retry.MaxAttempts, Queue: sk.Steps[i].TaskQueue,
			dependsOn: step.DependsOn}
		f.Patience = time.Duration(f.Tries) * (step.Timeout + time.Duration(step.Retry.MaxBackoffMS)*time.Millisecond)
		if step.Wait != nil {
			f.Sod = step.Wait.SOD
		}
		if step.Type == plan.Manual {
			if in, err := plan.DecodeManual(step.Inputs); err == nil { // a valid plan has valid inputs
				f.instructions = in.Instructions
				if in.Evidence != nil {
					f.evidence, _ = json.Marshal(in.Evidence)
				}
			}
		}
		out[step.StepID] = f
	}
	return out
}

// bytes estimates the memory that the facts use.
func (f planFacts) bytes() (n int) {
	const ofStep, ofDependency = 256, 16
	for id, step := range f {
		n += ofStep + len(id) + len(step.instructions) + len(step.evidence)
		for _, needed := range step.dependsOn {
			n += ofDependency + len(needed)
		}
	}
	return n
}

// countDependents counts the steps that depend on a step, directly or not.
func (f planFacts) countDependents(stepID string) int {
	dependents := make(map[string][]string, len(f))
	for id, step := range f {
		for _, needed := range step.dependsOn {
			dependents[needed] = append(dependents[needed], id)
		}
	}
	seen := map[string]bool{}
	for from := []string{stepID}; len(from) > 0; {
		next := dependents[from[len(from)-1]]
		from = from[:len(from)-1]
		for _, id := range next {
			if !seen[id] {
				seen[id] = true
				from = append(from, id)
			}
		}
	}
	return len(seen)
}

// planOfRun reads the plan of a run. It returns false when no worker has fetched the plan yet. It also returns false
// when the stored document has another scope, or does not match the run's reference: documents are stored by digest,
// and a caller who knows a digest must not learn whether another tenant has the document (contract T101).
func (s *PlanReader) planOfRun(ctx context.Context, r store.Run) (plan.Plan, bool, error) {
	pl, err := s.storedPlan(ctx, r.PlanRef)
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOverloaded) || ctx.Err() != nil {
		return plan.Plan{}, false, err
	}
	if err != nil || CheckScope(pl, r.Identity, plan.MaxSteps) != nil {
		return plan.Plan{}, false, nil //nolint:nilerr // an unreadable plan counts as unknown
	}
	return pl, true, nil
}
