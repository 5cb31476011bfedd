package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// spareShims is the number of shims that are kept ready. Most of the time to start a sandbox goes into the start of
	// the worker's own executable and into the namespaces, and a program need not wait for either.
	spareShims = 2
	// spareRetry is the pause after the start of a shim failed.
	spareRetry = time.Second
	// maxTries bounds how many shims one start tries when spares have died.
	maxTries = spareShims + 2
)

// errShimGone reports that a shim ended before it received a program. The caller may try another shim.
var errShimGone = errors.New("sandbox: the shim ended early")

var errClosed = errors.New("sandbox: the runtime is closed")

// shimProcess is a shim in its namespaces, before and after it receives a program.
type shimProcess struct {
	level   level
	cmd     *exec.Cmd
	control control
	group   *group
}

// kill ends the shim and waits until it has ended.
func (s *shimProcess) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// end kills the shim and releases its connection and cgroup.
func (s *shimProcess) end() {
	s.kill()
	s.control.conn.Close()
	s.group.remove()
}

// spare is a shim that is ready, or the error of its start.
type spare struct {
	shim *shimProcess
	err  error
}

// runSpawns starts shims from one thread that lives as long as the runtime. The kernel ends a shim when the thread that
// started it ends.
func (r *processRuntime) runSpawns() {
	runtime.LockOSThread()
	for {
		select {
		case f := <-r.spawns:
			f()
		case <-r.stopped:
			return
		}
	}
}

// keepSpare prepares one shim after the other until the runtime is closed.
func (r *processRuntime) keepSpare() {
	for {
		s, err := r.newShim(r.level)
		select {
		case r.spares <- spare{s, err}:
		case <-r.stopped:
			if err == nil {
				s.end()
			}
			return
		}
		if err != nil {
			select {
			case <-time.After(spareRetry):
			case <-r.stopped:
				return
			}
		}
	}
}

// takeSpare returns a shim that is ready, and waits for one if necessary. It returns errClosed after Close.
func (r *processRuntime) takeSpare(ctx context.Context) (*shimProcess, error) {
	select {
	case s := <-r.spares:
		return s.shim, s.err
	case <-r.stopped:
		return nil, errClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// newShim starts a shim in its namespaces and moves it into a cgroup. The move takes the kernel some milliseconds, so
// it does not wait until a program is known.
func (r *processRuntime) newShim(l level) (*shimProcess, error) {
	ours, theirs, err := controlPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	group, err := r.cgroups.create(r.config.Limits)
	if err != nil {
		ours.conn.Close()
		return nil, err
	}
	s := &shimProcess{level: l, control: ours, group: group, cmd: &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{shimName}, Env: []string{}, Dir: "/", ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: l.flags(), Setsid: true, Pdeathsig: syscall.SIGKILL},
	}}
	if l.User {
		s.cmd.SysProcAttr.AmbientCaps = shimCapabilities()
	}
	done := make(chan error, 1)
	select {
	case r.spawns <- func() { done <- s.cmd.Start() }:
		err = <-done
	case <-r.stopped:
		err = errClosed
	}
	if err != nil {
		ours.conn.Close()
		group.remove()
		return nil, fmt.Errorf("sandbox: start: %w", err)
	}
	if err := group.add(s.cmd.Process.Pid); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// shimCapabilities are ambient, so that they survive the execution of the shim in a user namespace without mapped ids.
func shimCapabilities() []uintptr {
	return []uintptr{
		unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE, unix.CAP_SETPCAP, unix.CAP_SETUID, unix.CAP_SETGID,
		unix.CAP_DAC_OVERRIDE, unix.CAP_SYS_CHROOT, unix.CAP_KILL, unix.CAP_FOWNER, unix.CAP_CHOWN,
	}
}

// specFile returns a memory file with the description. It has no name, because it holds the secrets of the step.
func specFile(s *spec) (*os.File, error) {
	fd, err := unix.MemfdCreate("sandbox", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("sandbox: description: %w", err)
	}
	f := os.NewFile(uintptr(fd), "sandbox spec")
	err = json.NewEncoder(f).Encode(s)
	if err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("sandbox: description: %w", err)
	}
	return f, nil
}
