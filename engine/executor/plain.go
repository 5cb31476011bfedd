package executor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/sandbox"
)

// groupPoll is the interval at which Wait looks for remaining processes of a group.
const groupPoll = 20 * time.Millisecond

// Plain returns a runtime without isolation. Each program runs with all rights of the worker, in its own process group.
// It is for systems without a sandbox, and for operators who set sandbox-runtime to none. A program that leaves its
// group outlives its step.
func Plain() sandbox.Runtime { return plainRuntime{} }

type plainRuntime struct{}

func (plainRuntime) Capabilities() sandbox.Capabilities {
	missing := map[plan.SandboxPart]string{}
	for _, part := range plan.SandboxParts() {
		missing[part] = "programs run without a sandbox (sandbox-runtime: none)"
	}
	return sandbox.Capabilities{
		Runtime: "none", Missing: missing, Unreported: "programs run without a sandbox, so nothing is refused",
	}
}

func (plainRuntime) Close() error { return nil }

// Start ignores files, connections and limits. It returns *sandbox.Unavailable for a program that requires a part.
func (r plainRuntime) Start(_ context.Context, p sandbox.Program) (sandbox.Process, error) {
	if len(p.Require) > 0 {
		missing := map[plan.SandboxPart]string{}
		for _, part := range p.Require {
			missing[part] = r.Capabilities().Missing[part]
		}
		return nil, &sandbox.Unavailable{Missing: missing}
	}
	cmd := &exec.Cmd{
		Path: p.Path, Args: p.Argv, Env: p.Env, Dir: p.Dir, Stdout: p.Stdout, Stderr: p.Stderr, SysProcAttr: ownGroup(),
	}
	out := &plainProcess{cmd: cmd, exited: make(chan struct{}), killed: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel sends the parent-death signal when the thread that started the child ends. The thread must
		// therefore live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			out.err = cmd.Wait()
			close(out.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrProgram, err)
	}
	return out, nil
}

// plainProcess is a program with its process group.
type plainProcess struct {
	cmd         *exec.Cmd
	exited      chan struct{} // closed when the leader has ended and err is set
	err         error
	terminating atomic.Bool
	killing     atomic.Bool
	killed      chan struct{}
}

func (p *plainProcess) group() int { return -p.cmd.Process.Pid }

func (p *plainProcess) Terminate() {
	p.terminating.Store(true)
	_ = syscall.Kill(p.group(), syscall.SIGTERM)
}

func (p *plainProcess) Kill() {
	_ = syscall.Kill(p.group(), syscall.SIGKILL)
	if !p.killing.Swap(true) {
		close(p.killed)
	}
}

// Wait kills the processes that the program left behind in its group. After Terminate they have time until Kill.
func (p *plainProcess) Wait() (sandbox.Exit, error) {
	<-p.exited
	if p.terminating.Load() {
		tick := time.NewTicker(groupPoll)
		defer tick.Stop()
		for !p.killing.Load() && groupLives(p.group()) {
			select {
			case <-tick.C:
			case <-p.killed:
			}
		}
	}
	_ = syscall.Kill(p.group(), syscall.SIGKILL)
	var exit *exec.ExitError
	switch {
	case errors.As(p.err, &exit):
		return sandbox.Exit{Status: exit.ExitCode(), Signal: sandbox.SignalOf(p.cmd.ProcessState)}, nil
	case p.err != nil:
		return sandbox.Exit{}, p.err
	}
	return sandbox.Exit{}, nil
}
