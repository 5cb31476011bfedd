package temporal_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/engine/enginetest"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
)

func TestConformance(t *testing.T) {
	server := testserver.Temporal(t)
	enginetest.Run(t, func(t *testing.T, o enginetest.Options) enginetest.Fixture {
		h := newHarness(t, options{server: server, policy: o.Policy, rotateAfter: o.RotateAfter, workers: -1})
		h.spawn(func(ctx context.Context) error {
			return temporal.Run(ctx, h.client, temporal.WorkerConfig{
				Control: []string{h.queues.Control}, Data: h.queues.Known[1:], DataConcurrency: 32,
				Namespace: testserver.TemporalNamespace, StopTimeout: time.Second, Tickets: h.keys,
			}, h.journal, runner(h.journal, h.root, played{o.Steps}))
		})
		directory, err := authz.NewDirectory(authz.DevAccounts(func(name string) string { return name }), time.Now)
		must(t, err)
		admin := h.operator()
		admin.Who, err = directory.Authenticate("dev-admin")
		must(t, err)
		return fixture{admin}
	})
}

// fixture is the enginetest.Fixture of a harness.
type fixture struct{ enginetest.Operator }

func (fixture) Pass(d time.Duration) { time.Sleep(d) }

// played is an executor that plays the suite's script.
type played struct{ steps *enginetest.Steps }

func (p played) Execute(ctx context.Context, t executor.Task, _ executor.Host) (executor.Result, error) {
	hook := strings.HasSuffix(t.IdempotencyKey, ":compensate")
	try := p.steps.Next(t.Step.StepID, t.LogicalAttempt, t.EngineAttempt, hook)
	for wait := try.Takes; wait > 0 || p.steps.Held(t.Step.StepID) && !hook; wait = 0 {
		select {
		case <-time.After(max(wait, 2*time.Millisecond)):
		case <-ctx.Done():
			return executor.Result{}, context.Cause(ctx)
		}
	}
	if try.Fails != "" {
		return executor.Result{}, failure(try.Fails, !try.NotRetryable, try.Class)
	}
	return executor.Result{}, nil
}
