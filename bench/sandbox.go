package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/dvt-engine/dvt/sandbox"
)

// sandboxStart compares a program in a sandbox with the same program as a plain child, from its start to its end. The
// bench is its own shim, so each shim initialises the packages of the whole server. With a pause between the starts a
// spare shim is ready for each; without a pause the starts wait for shims.
func sandboxStart(pause time.Duration) func(context.Context, *rig.Rig) (*rig.Trial, error) {
	return func(context.Context, *rig.Rig) (*rig.Trial, error) { return startSandboxes(pause) }
}

func startSandboxes(pause time.Duration) (*rig.Trial, error) {
	r, err := sandbox.New(sandbox.Config{Worker: "bench"})
	if err != nil {
		return nil, err
	}
	for part, reason := range r.Capabilities().Missing {
		return nil, errors.Join(fmt.Errorf("the sandbox lacks %s: %s", part, reason), r.Close())
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	const name = "/bin/true"
	inside := func(ctx context.Context) error {
		p, err := r.Start(ctx, sandbox.Program{Path: name, Argv: []string{name}, Dir: "/tmp", Stdout: null, Stderr: null})
		if err != nil {
			return err
		}
		_, err = p.Wait()
		return err
	}
	return &rig.Trial{
		Repeat: func(ctx context.Context) (rig.Sample, error) {
			const calls = 100
			costs, floors := make([]time.Duration, calls), make([]time.Duration, calls)
			for i := range calls {
				if err := rig.Wait(ctx, pause); err != nil {
					return rig.Sample{}, err
				}
				var err error
				if floors[i], err = rig.Timed(func() error { return exec.CommandContext(ctx, name).Run() }); err != nil {
					return rig.Sample{}, err
				}
				if costs[i], err = rig.Timed(func() error { return inside(ctx) }); err != nil {
					return rig.Sample{}, err
				}
			}
			floor := rig.Quantile(floors, 0.95)
			return rig.Sample{Cost: rig.Quantile(costs, 0.95) - floor, Floor: floor}, nil
		},
		Done: func() error { return errors.Join(r.Close(), null.Close()) },
	}, nil
}
