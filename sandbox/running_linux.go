package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dvt-engine/dvt/plan"
)

// killGrace is the time in which a shim without a process namespace must end its descendants.
const killGrace = 2 * time.Second

// process is a program in its sandbox.
type process struct {
	*shimProcess

	program    Program
	violations *violations
	supervisor *supervisor
	resolver   *stubResolver
	landlocked bool // see supervisor.landlocked
	resolve    func(ctx context.Context, network, host string) ([]netip.Addr, error)

	background func(func()) // runs a function in a goroutine for which Close waits

	killed atomic.Bool
	exited chan struct{} // closed when exit and err are set
	exit   Exit
	err    error
	order  sync.Once
}

// converse sends the description to the shim and handles the shim's messages until the program runs. The error is
// errShimGone when the shim ended before it received the description.
func (q *process) converse(s *spec, connect connectRules) error {
	memory, err := specFile(s)
	if err != nil {
		return err
	}
	defer memory.Close()
	fds := []int{int(memory.Fd()), int(q.program.Stdout.Fd()), int(q.program.Stderr.Fd())}
	for _, fd := range fds {
		if err := unix.SetNonblock(fd, false); err != nil { // programs expect that writes to their output block
			return fmt.Errorf("sandbox: output: %w", err)
		}
	}
	if err := q.control.send(message{Kind: msgStart}, fds...); err != nil {
		return fmt.Errorf("%w: %w", errShimGone, err)
	}
	for first := true; ; first = false {
		m, fds, err := q.control.receive()
		if err != nil && first {
			return fmt.Errorf("%w: %w", errShimGone, err)
		}
		if err != nil {
			return fmt.Errorf("sandbox: the shim ended before the program started: %w", err)
		}
		switch m.Kind {
		case msgReady:
			if err := q.serve(m.Socket, fds, s, connect); err != nil {
				return err
			}
		case msgStarted:
			if q.supervisor.files != nil {
				q.supervisor.files.started.Store(true)
			}
			return nil
		case msgFailed:
			return startError(m)
		}
	}
}

func startError(m message) error {
	switch m.Stage {
	case "exec":
		return fmt.Errorf("%w: %w", ErrProgram, m.Errno)
	case "path":
		return fmt.Errorf("%w: %s", ErrPath, m.Text)
	}
	if m.Errno != 0 {
		return fmt.Errorf("sandbox: %s (%w)", m.Text, m.Errno)
	}
	return fmt.Errorf("sandbox: %s", m.Text)
}

// serve starts the supervisor and the resolver on the descriptors of the shim. It takes ownership of them.
func (q *process) serve(kinds []string, fds []int, s *spec, connect connectRules) error {
	names := newNameTable()
	q.resolver = &stubResolver{connect: connect, names: names, violations: q.violations, lookup: q.resolve}
	q.supervisor = &supervisor{
		connect: connect, judge: q.program.Judge, names: names, violations: q.violations, ownNetwork: q.level.Space,
		landlocked: q.landlocked, slots: make(chan struct{}, maxConnecting),
	}
	if i := slices.Index(kinds, descriptorRoot); i >= 0 {
		q.supervisor.files = newExplainer(s, fds[i], q.cmd.Process.Pid, q.violations)
		q.supervisor.files.valid = q.supervisor.valid
	}
	for i, fd := range fds {
		var err error
		switch kinds[i] {
		case socketListener:
			err = q.supervisor.serve(fd)
		case socketUDP:
			err = q.resolver.serveUDP(os.NewFile(uintptr(fd), "sandbox udp"))
		case socketTCP:
			err = q.resolver.serveTCP(os.NewFile(uintptr(fd), "sandbox tcp"))
		}
		if err != nil {
			return fmt.Errorf("sandbox: %s: %w", kinds[i], err)
		}
	}
	return nil
}

// Terminate implements Process.
func (q *process) Terminate() { _ = q.control.send(message{Kind: msgTerm}) }

// Kill implements Process.
func (q *process) Kill() {
	q.order.Do(func() {
		q.killed.Store(true)
		if q.level.Space {
			_ = q.cmd.Process.Kill() // the kernel ends all processes of the namespace with the first one
			return
		}
		_ = q.control.send(message{Kind: msgKill})
		time.AfterFunc(killGrace, func() {
			select {
			case <-q.exited:
			default:
				signalBelow(q.cmd.Process.Pid, unix.SIGKILL)
				_ = q.cmd.Process.Kill()
			}
		})
	})
}

// Wait implements Process.
func (q *process) Wait() (Exit, error) {
	<-q.exited
	return q.exit, q.err
}

// watch waits for the end of the program and of the sandbox, and records the result for Wait.
func (q *process) watch() {
	var end message
	for end.Kind != msgExited {
		var err error
		if end, _, err = q.control.receive(); err != nil {
			break
		}
	}
	waited := q.cmd.Wait()
	var exit *exec.ExitError
	if waited != nil && !errors.As(waited, &exit) {
		q.err = fmt.Errorf("sandbox: wait: %w", waited)
	}
	q.exit = Exit{Status: -1}
	if end.Kind == msgExited {
		q.exit.Status = end.Status
	}
	if end.Signal != 0 {
		q.exit.Signal = unix.SignalName(unix.Signal(end.Signal))
	}
	q.judgeEnd(end)
	q.finish()
	close(q.exited)
}

// judgeEnd reports the bounds that the program met, and sets the one that ended it as the cause of the exit.
func (q *process) judgeEnd(end message) {
	kills, forks := q.group.oomKills(), q.group.refusedForks()
	if kills > 0 {
		q.violations.add(plan.SandboxMemory, fmt.Sprintf(
			"the kernel ended processes (%d) because the step used more than %d bytes of memory", kills,
			q.program.Limits.Memory))
	}
	if forks > 0 {
		q.violations.add(plan.SandboxPIDs, fmt.Sprintf(
			"the start of a process or thread was refused %d times because the step had %d", forks, q.program.Limits.PIDs))
	}
	if end.Full && !q.killed.Load() {
		q.violations.add(plan.SandboxFiles, fmt.Sprintf("a write was refused: a file would have grown past %d bytes "+
			"(sandbox.disk), or /tmp was full", q.program.Limits.Disk))
	}
	if end.Signal == int(unix.SIGSYS) {
		q.violations.add(plan.SandboxSyscalls, "the program was ended because it made a system call of another architecture")
	}
	switch {
	case q.killed.Load() || q.exit.Status == 0:
	case kills > 0:
		q.exit.Cause = CauseMemory
	case end.Full:
		q.exit.Cause = CauseDisk
	case forks > 0:
		q.exit.Cause = CausePIDs
	}
}

// finish releases the worker's resources of the sandbox. All of its processes must have ended.
func (q *process) finish() {
	if q.supervisor != nil {
		q.supervisor.close()
		if q.supervisor.files != nil {
			q.supervisor.files.tree.close()
		}
	}
	if q.resolver != nil {
		q.resolver.close()
	}
	q.control.conn.Close()
	q.background(q.group.remove)
	q.violations.close()
}
