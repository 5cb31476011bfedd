//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"

	"github.com/dvt-engine/dvt/plan"
)

// Main does nothing on this system, because it has no shim.
func Main() {}

// NamespaceRemedy returns the way to get namespaces, which only Linux has.
func NamespaceRemedy() string { return "use Linux" }

// groupRuntime starts each program in its own process group, without isolation. Signals miss processes that left the
// group.
type groupRuntime struct{ caps Capabilities }

func newProcessRuntime(Config) (Runtime, error) {
	missing := map[plan.SandboxPart]string{}
	for _, part := range plan.SandboxParts() {
		missing[part] = "the process runtime isolates on Linux only; run the worker on Linux or use the docker runtime"
	}
	caps := capabilities(RuntimeProcess, "", missing)
	caps.Unreported = "the process runtime refuses no actions on this system"
	return &groupRuntime{caps}, nil
}

// Capabilities implements Runtime.
func (r *groupRuntime) Capabilities() Capabilities { return r.caps }

// Close implements Runtime.
func (r *groupRuntime) Close() error { return nil }

// Start implements Runtime.
func (r *groupRuntime) Start(ctx context.Context, p Program) (Process, error) {
	if err := errors.Join(p.check(), r.caps.require(p.Require), ctx.Err()); err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: p.Path, Args: p.Argv, Env: p.Env, Dir: p.Dir, Stdout: p.Stdout, Stderr: p.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProgram, err)
	}
	return &groupProcess{cmd}, nil
}

type groupProcess struct{ cmd *exec.Cmd }

func (p *groupProcess) Terminate() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM) }
func (p *groupProcess) Kill()      { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

func (p *groupProcess) Wait() (Exit, error) {
	err := p.cmd.Wait()
	p.Kill()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return Exit{}, fmt.Errorf("sandbox: wait: %w", err)
	}
	return Exit{Status: p.cmd.ProcessState.ExitCode(), Signal: SignalOf(p.cmd.ProcessState)}, nil
}
