package privatenet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// startTimeout bounds the time until the starter reports the program.
	startTimeout = 30 * time.Second
	// socketTimeout bounds the time until the starter sends a socket.
	socketTimeout = 5 * time.Second
	// pollEvery is how often a connection that is not yet established looks at its context.
	pollEvery = 50 * time.Millisecond
	// killTimeout bounds the time in which the starter kills the program. Then the starter itself is killed.
	killTimeout = 2 * time.Second
	maxHello    = 4096 // bytes of the starter's first message
)

// The requests to the starter, of one byte each.
const (
	requestSocket byte = iota
	requestKill
)

// Network starts programs in networks of their own. Create it with Open. It is safe for concurrent use.
type Network struct{ flags uintptr }

// Open tests whether this process may create networks, and returns the reason when it may not. The executable must call
// Main.
//
// For root it prefers a network namespace without a user namespace, where root keeps its rights on files of other
// users.
func Open(ctx context.Context) (*Network, error) {
	kinds := []uintptr{unix.CLONE_NEWUSER | unix.CLONE_NEWNET}
	if os.Geteuid() == 0 {
		kinds = append([]uintptr{unix.CLONE_NEWNET}, kinds...)
	}
	var errs []error
	for _, flags := range kinds {
		n := &Network{flags}
		p, err := n.Start(ctx, nil)
		if err == nil {
			return n, p.Wait()
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// Process is a program in a network of its own, with its starter. Create it with Network.Start.
type Process struct {
	// Cmd is the starter. It forwards SIGTERM to the program and ends like the program. When this process ends, it kills
	// the program's process group. When the starter ends, the kernel kills the program.
	Cmd *exec.Cmd
	// PID is the process id of the program, which leads a process group.
	PID int

	control *net.UnixConn
	turn    chan struct{} // holds one token; its taker may read control
	ended   chan struct{} // closed when the starter has ended
}

// Start starts the program of cmd and uses its Path, Args, Env, Dir, Stdout and Stderr. It returns when the program was
// executed; ctx bounds only that. The error is ErrStarter, or the one of the start of either process.
func (n *Network) Start(ctx context.Context, cmd *exec.Cmd) (*Process, error) {
	ours, theirs, err := controlPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	ids := noIDs
	starter := &exec.Cmd{
		Path: "/proc/self/exe", ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Cloneflags: n.flags},
	}
	if n.flags&unix.CLONE_NEWUSER != 0 {
		ids = fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid())
		// They survive the execution in a user namespace without mapped ids. The starter maps the ids itself, because a
		// process that closed its memory to its own user may not write the map of a child.
		starter.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN}
	}
	starter.Args = []string{starterName, ids}
	if cmd != nil {
		starter.Args = append(append(starter.Args, cmd.Path), cmd.Args...)
		starter.Env, starter.Dir, starter.Stdout, starter.Stderr = cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr
	}
	if err := starter.Start(); err != nil {
		ours.Close()
		return nil, startError(err)
	}
	p := &Process{Cmd: starter, control: ours, turn: make(chan struct{}, 1), ended: make(chan struct{})}
	p.turn <- struct{}{}
	if p.PID, err = p.hello(ctx); err != nil {
		_ = starter.Process.Kill()
		_ = p.Wait()
		return nil, err
	}
	return p, nil
}

// startError explains an error of clone. The kernel says "no space left on device" when a limit of namespaces is
// reached.
func startError(err error) error {
	if errors.Is(err, unix.ENOSPC) {
		return errors.New("privatenet: the limit of user namespaces is reached (user.max_user_namespaces), or that of " +
			"network namespaces (user.max_net_namespaces)")
	}
	return fmt.Errorf("privatenet: %w", err)
}

// controlPair returns the two ends of the connection between a process and its starter.
func controlPair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("privatenet: %w", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "network control")
	if ours, err = unixConn(fds[0]); err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}

// unixConn takes ownership of fd.
func unixConn(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "network control")
	defer f.Close() // the connection has a duplicate
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("privatenet: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%w: its connection is no unix socket", ErrStarter), c.Close())
	}
	return u, nil
}

// hello is the starter's first message.
type hello struct {
	PID   int    `json:"pid"`   // of the program
	Error string `json:"error"` // why there is no program
}

func (p *Process) hello(ctx context.Context) (pid int, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = p.control.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	text := make([]byte, maxHello)
	k, err := p.control.Read(text)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrStarter, err)
	}
	var h hello
	if err := json.Unmarshal(text[:k], &h); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrStarter, err)
	}
	if h.Error != "" {
		return 0, errors.New(h.Error)
	}
	return h.PID, nil
}

// Wait waits until the starter, and with it the program, has ended. It returns the error of exec.Cmd.Wait. Call it
// once.
func (p *Process) Wait() error {
	err := p.Cmd.Wait()
	close(p.ended)
	_ = p.control.Close()
	return err
}

// Kill kills the program's process group, also when it is stopped, and waits until Wait, which another goroutine calls,
// has seen the end. The starter kills, because it must collect the program: the kernel would give a program without its
// starter to the first process of the machine, and not each of those collects.
func (p *Process) Kill() {
	_ = p.send(requestKill)
	select {
	case <-p.ended:
	case <-time.After(killTimeout):
		_ = p.Cmd.Process.Kill() // the kernel then kills the program
		<-p.ended
	}
}

// send writes a request. The starter reads one after the other, so it blocks only when the starter is stopped.
func (p *Process) send(request byte) error {
	if err := p.control.SetWriteDeadline(time.Now().Add(killTimeout)); err != nil {
		return err
	}
	_, err := p.control.Write([]byte{request})
	return err
}

// Dial connects to a TCP port of the program on 127.0.0.1. It fails with ErrStarter when the starter does not send a
// socket within five seconds, for example because it is stopped.
func (p *Process) Dial(ctx context.Context, port int) (net.Conn, error) {
	fd, err := p.socket(ctx)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "private network")
	defer f.Close() // the connection has a duplicate
	if err := connect(ctx, fd, port); err != nil {
		return nil, fmt.Errorf("privatenet: connect to port %d: %w", port, err)
	}
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("privatenet: %w", err)
	}
	return c, nil
}

// socket asks the starter for a TCP socket that is not connected. All answers are alike, so one that comes after its
// asker gave up serves the next asker.
func (p *Process) socket(ctx context.Context) (fd int, err error) {
	ctx, cancel := context.WithTimeout(ctx, socketTimeout)
	defer cancel()
	select {
	case <-p.turn:
		defer func() { p.turn <- struct{}{} }()
	case <-ctx.Done():
		return -1, fmt.Errorf("%w: %w", ErrStarter, ctx.Err())
	}
	if err := p.control.SetReadDeadline(time.Time{}); err != nil {
		return -1, fmt.Errorf("%w: %w", ErrStarter, err)
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = p.control.SetReadDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !stop() {
			<-interrupted // otherwise it could interrupt the next asker
		}
	}()
	if err := p.send(requestSocket); err != nil {
		return -1, fmt.Errorf("%w: %w", ErrStarter, err)
	}
	var text [1]byte
	rights := make([]byte, unix.CmsgSpace(4))
	_, k, _, _, err := p.control.ReadMsgUnix(text[:], rights)
	if err != nil {
		return -1, fmt.Errorf("%w: %w", ErrStarter, err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:k])
	if err != nil || len(messages) != 1 {
		return -1, fmt.Errorf("%w: it could not open a socket", ErrStarter)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, fmt.Errorf("%w: it could not open a socket", ErrStarter)
	}
	return fds[0], nil
}

// connect connects a non-blocking socket to 127.0.0.1. It usually succeeds or fails at once; it waits when the queue of
// the listener is full.
func connect(ctx context.Context, fd, port int) error {
	err := unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	for errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EINTR) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, poll := unix.Poll(ready, int(pollEvery.Milliseconds()))
		if poll != nil && !errors.Is(poll, unix.EINTR) {
			return poll
		}
		if n > 0 {
			status, failed := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
			if failed != nil || status == 0 {
				return failed
			}
			return unix.Errno(status)
		}
	}
	return err
}
