package plan

import "time"

// Skeleton is what the engine needs of a plan: the graph in canonical order
// with retry, timeout and dispatch as data, without inputs (T110, T195). A step
// is named by its ordinal, its index in Steps. A Skeleton is immutable.
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
}
