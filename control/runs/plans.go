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

// planFacts is what the use cases need of the steps of a plan that runs.
type planFacts map[string]StepFacts

// StepFacts of one step.
type StepFacts struct {
	Sod          bool // another person than the one who asked for the run must complete it
	instructions string
	evidence     json.RawMessage
	Patience     time.Duration // what all tries of one attempt may take at most
	Tries        int
	Timeout      time.Duration
	Queue        string
}

// What is kept of the facts of plans by their digest, those read last: a plan never changes.
const (
	maxPlans      = 256
	maxFactsBytes = 64 << 20
)

// PlanFacts reads the facts of a run's plan, from memory when they were read
// before. store.ErrNotFound when no worker has fetched the plan yet.
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

// storedPlan reads a plan from the store: store.ErrNotFound when no worker has
// fetched it yet, *plan.InvalidError when it is none.
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
		f := StepFacts{Timeout: step.Timeout, Tries: step.Retry.MaxAttempts, Queue: sk.Steps[i].TaskQueue}
		f.Patience = time.Duration(f.Tries) * (step.Timeout + time.Duration(step.Retry.MaxBackoffMS)*time.Millisecond)
		if step.Wait != nil {
			f.Sod = step.Wait.SOD
		}
		if step.Type == plan.Manual {
			if in, err := plan.DecodeManual(step.Inputs); err == nil { // it was valid when the plan was
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

// bytes is about what the facts hold.
func (f planFacts) bytes() (n int) {
	const ofStep = 256
	for id, step := range f {
		n += ofStep + len(id) + len(step.instructions) + len(step.evidence)
	}
	return n
}

// planOfRun reads the plan of a run; false where no worker has fetched it yet. Bodies are kept by their hash: one that
// is there for another place, or is no plan as the run's reference says, is as if it were not, for who names a hash may
// not know what has it (T101).
func (s *PlanReader) planOfRun(ctx context.Context, r store.Run) (plan.Plan, bool, error) {
	pl, err := s.storedPlan(ctx, r.PlanRef)
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOverloaded) || ctx.Err() != nil {
		return plan.Plan{}, false, err
	}
	if err != nil || CheckPlace(pl, r.Identity, plan.MaxSteps) != nil {
		return plan.Plan{}, false, nil //nolint:nilerr // then it is not known
	}
	return pl, true, nil
}
