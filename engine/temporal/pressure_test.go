package temporal_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// The history reaches a size while the fourth of twenty steps runs.
// contract: R381, T114, T195
func TestRotate_FollowsTheSizeOfTheHistory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bytes, events int
		rotates       bool
	}{
		"999,999 bytes":   {999_999, 100, false},
		"1,000,000 bytes": {1_000_000, 100, true},
		"7,999 events":    {1000, 7_999, false},
		"8,000 events":    {1000, 8_000, true},
		"8,000,000 bytes": {8_000_000, 100, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			steps := pretend(t, env, 20, func(done int) {
				if done == 4 {
					env.SetCurrentHistorySize(c.bytes)
					env.SetCurrentHistoryLength(c.events)
				}
			})
			in := temporal.Input{Identity: run.Identity{RunID: "r", TenantID: "t"}, RotateAfter: 1000}
			env.ExecuteWorkflow(temporal.WorkflowName, temporal.SealInput(in, testKeys(), "dvt/t/r", "q"))
			var next *workflow.ContinueAsNewError
			switch err := env.GetWorkflowError(); {
			case !c.rotates && (err != nil || *steps != 20):
				t.Errorf("the workflow ended with %v after %d steps, want 20 steps without a rotation", err, *steps)
			case c.rotates && (!errors.As(err, &next) || *steps > 5):
				t.Errorf("the workflow ended with %v after %d steps, want a rotation after at most 5", err, *steps)
			case c.rotates:
				var in temporal.Input
				must(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
				if in.Continued == nil || in.Continued.Carried.Execution != 2 || in.Continued.Head < 8 || in.RotateAfter != 1000 {
					t.Errorf("the next execution has the input %+v, want execution 2 with the head and RotateAfter", in)
				}
			}
		})
	}
}

// pretend registers the workflow and its activities without a store, for a linear plan of n steps. It calls tell with
// the number of each executed step.
func pretend(t *testing.T, env *testsuite.TestWorkflowEnvironment, n int, tell func(int)) (steps *int) {
	t.Helper()
	sk := plan.Skeleton{PlanID: "p", PlanVersion: "1"}
	for i, s := range row(n) {
		step := plan.SkeletonStep{StepID: s.id, Type: plan.Noop, TaskQueue: "q", Timeout: time.Minute,
			Retry: plan.Retry{MaxAttempts: 1, BackoffMultiplier: 1}}
		if i > 0 {
			step.Deps = []int{i - 1}
		}
		sk.Steps = append(sk.Steps, step)
	}
	binary, err := sk.MarshalBinary()
	must(t, err)
	log := &pretended{skeleton: engine.Skeleton{Identity: run.Identity{RunID: "r", TenantID: "t"}, Binary: binary}}
	keys := testKeys()
	env.RegisterWorkflowWithOptions(temporal.WorkflowOn(log, keys), workflow.RegisterOptions{Name: temporal.WorkflowName})
	steps = new(int)
	env.RegisterActivityWithOptions(func(_ context.Context, in map[string]any) (engine.Return, error) {
		*steps++
		tell(*steps)
		id := in["stepId"].(string)
		r := &engine.Receipt{Type: run.StepCompletedEvent, StartedSeq: log.next(), Seq: log.next(), Head: log.head}
		r.Proof = keys.Seal(engine.ReceiptPurpose, r.Text("r", id, 1, false))
		return engine.Return{StepID: id, LogicalAttempt: 1, N: 1, EngineAttempt: 1, Kind: engine.ReturnEnded, Receipt: r}, nil
	}, activity.RegisterOptions{Name: "dvt.execute"})
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: "dvt/t/r", TaskQueue: "q"})
	return steps
}

// pretended is a Journal that accepts everything.
type pretended struct {
	engine.Journal
	skeleton engine.Skeleton
	head     run.Seq
}

func (p *pretended) next() run.Seq { p.head++; return p.head }

func (p *pretended) Skeleton(context.Context, string) (engine.Skeleton, error) {
	return p.skeleton, nil
}

func (p *pretended) Append(_ context.Context, a store.Append) (store.Appended, error) {
	out := store.Appended{}
	for range a.Events {
		out.Outcomes = append(out.Outcomes, store.EventOutcome{Seq: p.next()})
	}
	out.Head.LastSeq = p.head
	return out, nil
}

func (p *pretended) AppendUnlessPaused(ctx context.Context, a store.Append) (store.Appended, error) {
	return p.Append(ctx, a)
}
