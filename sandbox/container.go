package sandbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dvt-engine/dvt/plan"
)

const (
	// versionTimeout bounds the call by which New checks that the program of a container runtime works.
	versionTimeout = 10 * time.Second
	// signalTimeout bounds the call that sends a signal to a running container.
	signalTimeout = 30 * time.Second
	// statusKilled is a shell's exit status after SIGKILL, statusFileSize after SIGXFSZ.
	statusKilled, statusFileSize = 128 + 9, 128 + 25
	// statusOfRuntime is the exit status of docker and runsc when they themselves failed.
	statusOfRuntime = 125
)

// containerRuntime starts programs with the command line of a container runtime. The containers have no network, so it
// never calls Program.Judge.
type containerRuntime struct {
	config Config
	caps   Capabilities
	tool   string // the file of docker or runsc
	count  atomic.Int64
	driver containerDriver
}

// containerDriver covers the differences between docker and runsc.
type containerDriver interface {
	// prepare returns the call that runs the program in a container of this name.
	prepare(name string, p Program, c Config) (prepared, error)
	// signal returns the arguments that send a signal to a running container.
	signal(name, signal string) []string
}

// prepared is one call of a container runtime.
type prepared struct {
	args  []string
	extra *os.File // descriptor 3 of the call
	clean func()   // called once, after the container has ended or when its start failed
}

func newContainerRuntime(c Config) (Runtime, error) {
	r := &containerRuntime{config: c}
	missing := map[plan.SandboxPart]string{
		plan.SandboxConnect: "containers of steps have no network at all; use the process runtime for steps that connect",
	}
	var name, install string
	var version []string
	switch c.Runtime {
	case RuntimeDocker:
		name, install = "docker", "install Docker's command line and start its daemon"
		version = []string{"version", "--format", "{{.Server.Version}}"}
		if c.Image == "" {
			return nil, errors.New("sandbox: the docker runtime has no image for steps: set sandbox-image")
		}
		r.driver = docker{}
	default:
		name, install = "runsc", "install runsc of gVisor"
		version = []string{"--version"}
		r.driver = runsc{}
		if os.Geteuid() != 0 {
			for _, part := range []plan.SandboxPart{plan.SandboxMemory, plan.SandboxCPU, plan.SandboxPIDs} {
				missing[part] = "runsc sets limits only as root; run the worker as root or use the process runtime"
			}
		}
	}
	var err error
	if r.tool, err = exec.LookPath(name); err != nil {
		return nil, fmt.Errorf(
			"sandbox: the runtime %s needs the program %s, which is not on the PATH: %s, or use the runtime process", c.Runtime,
			name, install)
	}
	ctx, cancel := context.WithTimeout(context.Background(), versionTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, r.tool, version...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("sandbox: %s does not work (%w): %.200s; %s, or use the runtime process", name, err,
			strings.TrimSpace(string(out)), install)
	}
	digest, err := fileDigest(r.tool)
	if err != nil {
		return nil, fmt.Errorf("sandbox: digest of %s: %w", name, err)
	}
	r.caps = capabilities(c.Runtime, digest, missing)
	r.caps.SeparateOutputs = c.Runtime == RuntimeDocker // its daemon reads two pipes of the container
	r.caps.Unreported = "containers refuse actions without a report; use the process runtime for a line in the step's log"
	return r, nil
}

// Capabilities implements Runtime.
func (r *containerRuntime) Capabilities() Capabilities { return r.caps }

// Close implements Runtime.
func (r *containerRuntime) Close() error { return nil }

// Start implements Runtime. Only the container finds out whether the file can be executed. Start therefore returns no
// ErrProgram for it; Wait returns an error or the exit status that the container runtime uses for it.
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
		Path: r.tool, Args: append([]string{r.tool}, call.args...), Env: toolEnvironment(), Stdout: p.Stdout,
		Stderr:      p.Stderr,
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

// containerMount is a path of the machine in a container. Without hidden and writable it is read-only.
type containerMount struct {
	path     string
	writable bool
	hidden   bool // an empty directory or file covers the path
	dir      bool // of a hidden path
}

// containerMounts lists the mounts of a program, each after the directories above it. So the cover of a denied path
// hides it in the directory above, and a path that the program names below the cover is visible again. A path that is
// denied itself is hidden although the program names it.
func containerMounts(read, write, denied []string) []containerMount {
	var out []containerMount
	for _, path := range denied {
		if info, err := os.Stat(path); err == nil {
			out = append(out, containerMount{path: path, hidden: true, dir: info.IsDir()})
		}
	}
	for i, path := range slices.Concat(read, write) {
		if !slices.Contains(denied, path) {
			out = append(out, containerMount{path: path, writable: i >= len(read)})
		}
	}
	slices.SortStableFunc(out, func(a, b containerMount) int {
		return cmp.Or(cmp.Compare(strings.Count(a.path, "/"), strings.Count(b.path, "/")), cmp.Compare(a.path, b.path))
	})
	return out
}

// toolEnvironment returns the variables of the worker's environment that docker and runsc need. It omits the others,
// because they may hold secrets of dvt.
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

// Terminate implements Process. It signals only the first process of the container, which is the program.
func (q *containerProcess) Terminate() { q.signal("TERM") }

// Kill implements Process.
func (q *containerProcess) Kill() {
	q.killed.Store(true)
	q.signal("KILL")
}

func (q *containerProcess) signal(signal string) {
	ctx, cancel := context.WithTimeout(context.Background(), signalTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, q.runtime.tool, q.runtime.driver.signal(q.name, signal)...)
	cmd.Env = toolEnvironment()
	if err := cmd.Run(); err == nil || signal != "KILL" {
		return
	}
	// The container does not exist yet, or no longer. Once its client is dead nobody else starts it; a start that the
	// daemon has accepted already is found by the second call.
	_ = q.cmd.Process.Kill()
	again := exec.CommandContext(ctx, q.runtime.tool, q.runtime.driver.signal(q.name, signal)...)
	again.Env = toolEnvironment()
	_ = again.Run()
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
		return Exit{}, fmt.Errorf("sandbox: %s could not run the container; its message is in the output of the step",
			q.runtime.config.Runtime)
	case q.killed.Load() || status < 0:
		return Exit{Status: -1}, nil
	case status == statusKilled: // without a Kill, SIGKILL comes from the kernel's memory limit
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
