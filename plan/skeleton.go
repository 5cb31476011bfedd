package plan

import (
	"slices"
	"sort"
	"time"
)

// Skeleton is the part of a plan that the engine needs: the graph in canonical order with the data of retry, timeout
// and dispatch, without inputs (contract T110, T195). The ordinal of a step is its index in Steps. A Skeleton must not
// be changed.
type Skeleton struct {
	PlanID, PlanVersion string
	FailurePolicy       FailurePolicy
	Steps               []SkeletonStep
}

// SkeletonStep is one step of a Skeleton.
type SkeletonStep struct {
	StepID             string
	Type               StepType
	Deps               []int // ordinals, ascending
	Timeout            time.Duration
	Retry              Retry
	TaskQueue          string // resolved: never empty
	Heavy              bool
	Cancellable        bool
	AllowCancelOnPause bool
	WaitTimeout        time.Duration // of a MANUAL step; 0 waits without a limit
	// CompensationQueue is the queue of the step's compensation; it is empty if the step has none. CompensationType is the
	// type of the operation. CompensationTimeout bounds one attempt of it.
	CompensationQueue   string
	CompensationType    StepType
	CompensationTimeout time.Duration
}

// Skeleton returns the skeleton of a valid plan. Task queues are resolved with q for the scope of the plan (contract
// T218).
func (p Plan) Skeleton(q Queues) Skeleton {
	q = q.For(p.Scope.TenantID, p.Scope.EnvironmentID)
	ordinal := make(map[string]int, len(p.Steps))
	for i, s := range p.Steps {
		ordinal[s.StepID] = i
	}
	sk := Skeleton{
		PlanID: p.Metadata.PlanID, PlanVersion: p.Metadata.PlanVersion,
		FailurePolicy: p.Metadata.FailurePolicy, Steps: make([]SkeletonStep, len(p.Steps)),
	}
	for i, s := range p.Steps {
		var deps []int
		for _, id := range s.DependsOn {
			deps = append(deps, ordinal[id])
		}
		slices.Sort(deps)
		sk.Steps[i] = SkeletonStep{
			StepID: s.StepID, Type: s.Type, Deps: deps, Timeout: s.Timeout, Retry: s.Retry,
			TaskQueue: q.of(s), Heavy: s.Dispatch.ResourceClass == Heavy,
			Cancellable: s.Dispatch.Cancellable, AllowCancelOnPause: s.Dispatch.AllowCancelOnPause,
		}
		if s.Wait != nil {
			sk.Steps[i].WaitTimeout = s.Wait.Timeout
		}
		if hook := s.Compensation; hook != nil {
			sk.Steps[i].CompensationQueue, sk.Steps[i].CompensationTimeout = q.ofType(hook.Operation), hook.Timeout
			sk.Steps[i].CompensationType = hook.Operation
		}
	}
	return sk
}

// Children returns for each ordinal the ordinals of the steps that depend on it, ascending. Every call takes time
// linear in the graph: call it once and keep the result.
func (s Skeleton) Children() [][]int {
	count, total := make([]int, len(s.Steps)), 0
	for _, step := range s.Steps {
		for _, d := range step.Deps {
			count[d]++
		}
		total += len(step.Deps)
	}
	room, children := make([]int, 0, total), make([][]int, len(s.Steps))
	for i, n := range count {
		children[i] = room[len(room) : len(room) : len(room)+n]
		room = room[:len(room)+n]
	}
	for i, step := range s.Steps {
		for _, d := range step.Deps {
			children[d] = append(children[d], i)
		}
	}
	return children
}

// Ordinal returns the ordinal of the step with this id. It takes logarithmic time if Steps are sorted by id, which is
// so for a plan without orders, else linear time.
func (s Skeleton) Ordinal(stepID string) (int, bool) {
	i := sort.Search(len(s.Steps), func(i int) bool { return s.Steps[i].StepID >= stepID })
	if i < len(s.Steps) && s.Steps[i].StepID == stepID {
		return i, true
	}
	i = slices.IndexFunc(s.Steps, func(step SkeletonStep) bool { return step.StepID == stepID })
	return max(i, 0), i >= 0
}
