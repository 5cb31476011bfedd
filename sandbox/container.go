package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dvt-engine/dvt/plan"
)

const (
	// containerQuestion bounds how long the program of a container runtime may take to answer New.
	containerQuestion = 10 * time.Second
	// containerOrder bounds an order to a running container.
	containerOrder = 30 * time.Second
	// statusKilled is the status of a shell for the end by SIGKILL, and statusFileSize that by SIGXFSZ.
	statusKilled, statusFileSize = 128 + 9, 128 + 25
	// statusOfRuntime is what docker and runsc end with when they themselves failed.
	statusOfRuntime = 125
)

// containerRuntime starts a program by the command line of a container runtime. The containers have no network: it does
// not judge connections, it has none.
type containerRuntime struct {
	config Config
	caps   Capabilities
	tool   string // the file of docker or runsc
	count  atomic.Int64
	driver containerDriver
}

// containerDriver is what differs between docker and runsc.
type containerDriver interface {
	// prepare returns the arguments that run the program, its environment file if it has one, and what to do afterwards.
	prepare(name string, p Program, c Config) (prepared, error)
	// signal returns the arguments that send a signal to a running container.
	signal(name, signal string) []string
}

// prepared is one call of a container runtime.
type prepared struct {
	args  []string
	extra *os.File // descriptor 3 of the call
	clean func()
}

func newContainerRuntime(c Config) (Runtime, error) {
	r := &containerRuntime{config: c}
	missing := map[plan.SandboxPart]string{
		plan.SandboxConnect: "containers of steps have no network at all; use the process runtime for steps that connect",
	}
	var name, install string
	var question []string
	switch c.Runtime {
	case RuntimeDocker:
		name, install = "docker", "install Docker's command line and start its daemon"
		question = []string{"version", "--format", "{{.Server.Version}}"}
		if c.Image == "" {
			return nil, errors.New("sandbox: the docker runtime needs the image in which steps run")
		}
		r.driver = docker{}
	default:
		name, install = "runsc", "install runsc of gVisor"
		question = []string{"--version"}
		r.driver = runsc{}
		if os.Geteuid() != 0 {
			for _, part := range []plan.SandboxPart{plan.SandboxMemory, plan.SandboxCPU, plan.SandboxPIDs} {
				missing[part] = "runsc sets limits only as root; run the worker as root or use the process runtime"
			}
		}
	}
	var err error
	if r.tool, err = exec.LookPath(name); err != nil {
		return nil, fmt.Errorf("sandbox: the runtime %s needs the program %s, which is not on the PATH: %s, or use the runtime process", c.Runtime, name, install)
	}
	ctx, cancel := context.WithTimeout(context.Background(), containerQuestion)
	defer cancel()
	if out, err := exec.CommandContext(ctx, r.tool, question...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("sandbox: %s does not work (%w): %.200s; %s, or use the runtime process", name, err, strings.TrimSpace(string(out)), install)
	}
	digest, err := fileDigest(r.tool)
	if err != nil {
		return nil, fmt.Errorf("sandbox: digest of %s: %w", name, err)
	}
	r.caps = capabilities(c.Runtime, digest, missing)
	return r, nil
}

// Capabilities implements Runtime.
func (r *containerRuntime) Capabilities() Capabilities { return r.caps }

// Close implements Runtime.
func (r *containerRuntime) Close() error { return nil }

// Start implements Runtime. That the file cannot be executed is found by the container, so Wait returns that error.
func (r *containerRuntime) Start(ctx context.Context, p Program) (Process, error) {
	if err := errors.Join(p.check(), p.checkLinks(), ctx.Err()); err != nil {
		return nil, err
	}
	require := p.Require
	if len(p.Connect) > 0 {
		require = append(require[:len(require):len(require)], plan.SandboxConnect)
	}
	if err := r.caps.require(require); err != nil {
		return nil, err
	}
	p.Limits = p.Limits.or(r.config.Limits)
	name := fmt.Sprintf("dvt-sandbox-%s-%d-%d", r.config.Worker, os.Getpid(), r.count.Add(1))
	call, err := r.driver.prepare(name, p, r.config)
	if err != nil {
		return nil, err
	}
	q := &containerProcess{runtime: r, name: name, clean: call.clean}
	q.cmd = &exec.Cmd{
		Path: r.tool, Args: append([]string{r.tool}, call.args...), Env: toolEnvironment(), Stdout: p.Stdout, Stderr: p.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if call.extra != nil {
		defer call.extra.Close()
		q.cmd.ExtraFiles = []*os.File{call.extra}
	}
	if err := q.cmd.Start(); err != nil {
		call.clean()
		return nil, fmt.Errorf("sandbox: %s: %w", r.tool, err)
	}
	return q, nil
}

// toolEnvironment is what docker and runsc get of the worker's environment: nothing that is a secret of dvt.
func toolEnvironment() []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if name == "PATH" || name == "HOME" || name == "XDG_RUNTIME_DIR" || strings.HasPrefix(name, "DOCKER_") {
			env = append(env, kv)
		}
	}
	return env
}

// containerProcess is a call of docker or runsc that lasts as long as the container.
type containerProcess struct {
	runtime *containerRuntime
	name    string
	cmd     *exec.Cmd
	clean   func()
	killed  atomic.Bool
}

// Terminate implements Process. It reaches the first process of the container, which is the program.
func (q *containerProcess) Terminate() { q.order("TERM") }

// Kill implements Process.
func (q *containerProcess) Kill() {
	q.killed.Store(true)
	q.order("KILL")
}

func (q *containerProcess) order(signal string) {
	ctx, cancel := context.WithTimeout(context.Background(), containerOrder)
	defer cancel()
	cmd := exec.CommandContext(ctx, q.runtime.tool, q.runtime.driver.signal(q.name, signal)...)
	cmd.Env = toolEnvironment()
	if err := cmd.Run(); err != nil && signal == "KILL" {
		_ = q.cmd.Process.Kill() // there is no container yet, or not any more
	}
}

// Wait implements Process.
func (q *containerProcess) Wait() (Exit, error) {
	err := q.cmd.Wait()
	q.clean()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return Exit{}, fmt.Errorf("sandbox: wait: %w", err)
	}
	switch status := q.cmd.ProcessState.ExitCode(); {
	case status == statusOfRuntime:
		return Exit{}, fmt.Errorf("sandbox: %s could not run the container; its message is in the output of the step", q.runtime.config.Runtime)
	case q.killed.Load() || status < 0:
		return Exit{Status: -1}, nil
	case status == statusKilled: // nobody else sends this signal
		return Exit{Status: -1, Cause: CauseMemory}, nil
	case status == statusFileSize:
		return Exit{Status: status, Cause: CauseDisk}, nil
	default:
		return Exit{Status: status}, nil
	}
}

func fileDigest(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
