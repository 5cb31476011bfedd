package enginetest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine/enginetest"
	"github.com/dvt-engine/dvt/run"
)

// slowStarts refuses the first starts, as a server does whose engine is slow.
type slowStarts struct {
	enginetest.UseCases
	refusals int
}

func (s *slowStarts) StartRun(context.Context, authz.Principal, runs.StartRun) (out runs.StartedRun, err error) {
	if s.refusals--; s.refusals >= 0 {
		return out, fmt.Errorf("start: %w", control.Refuse(run.CodeEngineDegraded, "The engine is slow."))
	}
	out.View.State.RunID = "started"
	return out, nil
}

func TestOperator_StartWaitsForASlowEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := enginetest.Operator{T: t, Control: &slowStarts{refusals: 3}}
		if got := o.Start([]byte(`{}`)); got != "started" {
			t.Errorf("Start() = %q after three refusals, want the run that the fourth try started", got)
		}
	})
}
