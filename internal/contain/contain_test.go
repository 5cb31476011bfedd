package contain

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestCall_ReturnsAPanicAsAnError(t *testing.T) {
	t.Parallel()
	err := Call(func() error { panic("secret of a tenant") })
	p, ok := errors.AsType[*PanicError](err)
	if !ok || p.Value != "secret of a tenant" || !bytes.Contains(p.Stack, []byte("contain_test.go")) {
		t.Fatalf("Call returned %v, want the panic with the stack of this test", err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the message is %q, want one without the value", err)
	}
	boom := errors.New("boom")
	if err := Call(func() error { return boom }); !errors.Is(err, boom) {
		t.Errorf("Call returned %v, want the error of the function", err)
	}
}

func TestGuard_LogsAndCountsByDuty(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	registry := prometheus.NewRegistry()
	first := New(registry, slog.New(slog.NewTextHandler(&log, nil)))
	second := New(registry, nil)
	_ = first.Call("sweep", "run-1", func() error { panic("nil map") })
	_ = second.Call("sweep", "run-2", func() error { panic("nil map") })
	_ = second.Call("sweep", "run-3", func() error { return errors.New("an error is not a panic") })
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetMetric()[0].GetCounter().GetValue() != 2 {
		t.Errorf("the registry holds %v (%v), want dvt_panics_total of 2 for both guards together", families, err)
	}
	for _, want := range []string{"duty=sweep", "about=run-1", "nil map", "contain_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log.String())
		}
	}
	_ = (&Guard{}).Call("sweep", "", func() error { panic("neither logged nor counted") })
}

func TestGuard_LoopGoesOnAfterAPanic(t *testing.T) {
	t.Parallel()
	g := New(nil, nil)
	g.pause = time.Millisecond
	calls := 0
	err := g.Loop(t.Context(), "sweep", func(context.Context) error {
		if calls++; calls < 4 {
			panic("again")
		}
		return nil
	})
	if err != nil || calls != 4 {
		t.Errorf("Loop made %d calls and returned %v, want 4 and nil", calls, err)
	}
}

func TestGuard_LoopEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	err := New(nil, nil).Loop(ctx, "sweep", func(context.Context) error {
		cancel()
		panic("the last one")
	})
	if err != nil {
		t.Errorf("Loop returned %v, want nil after its context has ended", err)
	}
}
