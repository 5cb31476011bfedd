package executor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
)

// contract: R191
func TestRunner_KeepsARecordOfEachTry(t *testing.T) {
	t.Parallel()
	status := func(n int) *int { return &n }
	stop := errors.New("the worker stops")
	for name, c := range map[string]struct {
		script string
		cancel error
		want   engine.TryRecord
	}{
		"a program that succeeds": {script: "echo one; echo two", want: engine.TryRecord{Outcome: engine.TrySucceeded,
			ExitStatus: status(0), LogLines: 2, LogBytes: 6}},
		"a program that fails": {script: "exit 3", want: engine.TryRecord{Outcome: engine.TryFailed,
			ErrorCode: executor.CodeExitStatus, ExitStatus: status(3), LogLines: 1, LogBytes: 40}},
		"a program that a signal ended": {script: "kill -9 $$", want: engine.TryRecord{Outcome: engine.TryFailed,
			ErrorCode: executor.CodeExitStatus, Signal: "SIGKILL", LogLines: 1, LogBytes: 37}},
		"somebody stops the step": {script: "exec sleep 60", cancel: errors.New("stop"),
			want: engine.TryRecord{Outcome: engine.TryStopped, Signal: "SIGTERM"}},
		"the worker stops": {script: "exec sleep 60", cancel: stop,
			want: engine.TryRecord{Outcome: engine.TryInterrupted, Signal: "SIGTERM"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, plan.Command, sh(c.script))
			r := worker(t, j, executor.Config{})
			r.Worker = "host/7"
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if c.cancel != nil {
				time.AfterFunc(500*time.Millisecond, func() { cancel(c.cancel) })
			}
			d := dispatch
			d.StopCause = stop
			began := time.Now()
			_, _ = r.Run(ctx, d, quiet)
			if len(j.tried) != 1 {
				t.Fatalf("%d records were kept, want 1", len(j.tried))
			}
			got := j.tried[0]
			c.want.Worker = "host/7"
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(engine.TryRecord{}, "StartedAt", "EndedAt",
				"LastHeartbeatAt")); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
			if got.StartedAt.Before(began) || got.EndedAt.Before(got.StartedAt) || got.LastHeartbeatAt.Before(began) ||
				got.LastHeartbeatAt.After(time.Now()) {
				t.Errorf("the record says %v to %v with a heartbeat at %v, want times in order", got.StartedAt, got.EndedAt,
					got.LastHeartbeatAt)
			}
		})
	}
}
