package health_test

import (
	"testing"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/server/usecases"
)

func TestHealth_SaysWhyTheEngineDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trouble func() string
		want    string
	}{
		"a process that does not supervise the engine": {nil,
			"The engine does not answer. Signals stay accepted, runs wait in the queue."},
		"nothing is known": {func() string { return "" },
			"The engine does not answer. Signals stay accepted, runs wait in the queue."},
		"a known reason": {func() string { return "The port is taken." },
			"The port is taken. Signals stay accepted, runs wait in the queue."},
	} {
		w := controltest.New(t, func(cfg *usecases.Config) { cfg.EngineTrouble = c.trouble })
		w.Engine.Set(func(e *controltest.FakeEngine) { e.DescribeError = engine.ErrUnavailable })
		for _, check := range w.Checks.Health(t.Context()).Checks {
			if check.Name == health.CheckTemporal && check.Message != c.want {
				t.Errorf("%s: the engine's check says %q, want %q", name, check.Message, c.want)
			}
		}
	}
}
