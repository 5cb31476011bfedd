package sandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dvt-engine/dvt/plan"
)

const (
	// maxConnecting bounds the connect and listen calls of a program that are answered at once. Others fail with
	// EAGAIN.
	maxConnecting = 64
	// connectTimeout bounds a blocking connect.
	connectTimeout = 60 * time.Second
)

// notification is struct seccomp_notif.
type notification struct {
	ID    uint64
	PID   uint32
	Flags uint32
	Nr    int32
	Arch  uint32
	IP    uint64
	Args  [6]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	ID    uint64
	Value int64
	Error int32
	Flags uint32
}

// addedFD is struct seccomp_notif_addfd.
type addedFD struct {
	ID       uint64
	Flags    uint32
	Source   uint32
	New      uint32
	NewFlags uint32
}

// supervisor answers the system calls that the program's filter does not decide. It makes the permitted connections
// itself, in the worker's network, and gives the program the connected socket. It reads an address from the program's
// memory only once, so another thread cannot change the address after it was judged.
//
// It also receives the calls on files. The kernel carries out each of them; the supervisor only names those that the
// kernel will refuse.
type supervisor struct {
	connect    connectRules
	judge      func(netip.AddrPort) error
	names      *nameTable
	violations *violations
	ownNetwork bool // the program has its own network namespace, which has only a loopback
	landlocked bool // the kernel refuses each TCP connection that the program makes by itself
	files      *explainer
	slots      chan struct{}

	listener *os.File
	wake     *os.File // an event that ends serve
	done     chan struct{}
}

// serve starts to answer calls, until close or until the last process with the filter has ended. It takes ownership of
// the listener.
func (s *supervisor) serve(listener int) error {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(listener)
		return err
	}
	// Since Linux 6.6: the kernel runs the supervisor on the processor of the caller, which waits anyway.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS,
		unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	s.listener, s.wake = os.NewFile(uintptr(listener), "sandbox seccomp"), os.NewFile(uintptr(wake), "sandbox wake")
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		// Programs wait for this loop at each access to a file. A thread of its own answers sooner than a goroutine that
		// the runtime has to schedule.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer dropFileCapabilities()()
		for s.receive(listener, wake) {
		}
	}()
	return nil
}

// dropFileCapabilities takes from the calling thread the capabilities with which root reads every file, and returns a
// function that gives them back. A program of a step does not have them, so that a line about a refused file must not
// tell where a link leads that the program cannot read. When the kernel refuses, the thread keeps them.
func dropFileCapabilities() (restore func()) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var before [2]unix.CapUserData
	if unix.Capget(&header, &before[0]) != nil {
		return func() {}
	}
	without := before
	without[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	_ = unix.Capset(&header, &without[0])
	return func() { _ = unix.Capset(&header, &before[0]) }
}

// close ends serve. Connections in progress may continue for a while, but no program receives their sockets.
func (s *supervisor) close() {
	if s.listener == nil {
		return
	}
	_, _ = s.wake.Write([]byte{7: 1})
	<-s.done
	s.listener.Close()
	s.wake.Close()
}

// receive waits for a notification and handles it. It returns false when none can follow.
func (s *supervisor) receive(fd, wake int) bool {
	polled := [2]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
	switch _, err := unix.Poll(polled[:], -1); {
	case errors.Is(err, unix.EINTR):
		return true
	case err != nil || polled[1].Revents != 0:
		return false
	case polled[0].Revents&unix.POLLIN == 0:
		return false // no process has the filter any more
	}
	var n notification
	if err := ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); err != nil {
		// ENOENT: the caller ended between the notice and the read.
		return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR)
	}
	if call := fileCalls[uint32(n.Nr)]; call != nil && !makesDevice(&n) {
		if s.files != nil {
			s.files.explain(&n, call)
		}
		s.respond(n, verdict{pass: true})
		return true
	}
	if n.Nr == unix.SYS_BIND {
		if s.files != nil {
			s.files.explainSocket(&n, accessCreate)
		}
		s.respond(n, verdict{pass: true})
		return true
	}
	carryOut := map[int32]func(notification) verdict{unix.SYS_CONNECT: s.dial, unix.SYS_LISTEN: s.listen}[n.Nr]
	if carryOut == nil {
		s.respond(n, s.refuse(n))
		return true
	}
	select {
	case s.slots <- struct{}{}:
		if n.Nr == unix.SYS_CONNECT && s.files != nil {
			s.files.explainSocket(&n, accessConnect)
		}
		go func() {
			defer func() { <-s.slots }()
			s.respond(n, carryOut(n))
		}()
	default:
		s.violations.add(plan.SandboxConnect, fmt.Sprintf("a connection was refused because %d were being made at once",
			maxConnecting))
		s.respond(n, failure(unix.EAGAIN))
	}
	return true
}

// verdict is the answer to a call: an errno, 0 for success.
type verdict struct {
	errno unix.Errno
	pass  bool // the kernel carries out the call
}

func failure(errno unix.Errno) verdict { return verdict{errno: errno} }

func (s *supervisor) respond(n notification, v verdict) {
	a := answer{ID: n.ID, Error: -int32(v.errno)}
	if v.pass {
		a.Flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	}
	_ = s.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a))
}

// control makes an ioctl on the listener. It fails after close.
func (s *supervisor) control(request uint, arg unsafe.Pointer) error {
	raw, err := s.listener.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := raw.Control(func(fd uintptr) { result = ioctl(int(fd), request, arg) }); err != nil {
		return err
	}
	return result
}

// valid reports whether the caller still waits. Only then does its thread id still belong to it.
func (s *supervisor) valid(n *notification) bool {
	return s.control(unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&n.ID)) == nil
}

func ioctl(fd int, request uint, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg))
	if errno != 0 {
		return errno
	}
	return nil
}

// refuse reports a call that no program may make, and returns the errno for it.
func (s *supervisor) refuse(n notification) verdict {
	switch n.Nr {
	case unix.SYS_CLONE:
		s.violations.add(plan.SandboxSyscalls, "clone with a new namespace was refused")
	case unix.SYS_IOCTL:
		s.violations.add(plan.SandboxSyscalls, "ioctl that types into a terminal was refused")
	case unix.SYS_SOCKET:
		family, kind := int(int32(n.Args[0])), int(n.Args[1]&0xf)
		if family == unix.AF_INET || family == unix.AF_INET6 {
			s.violations.add(plan.SandboxNetwork, fmt.Sprintf("a raw socket (type %d) was refused", kind))
			return failure(unix.EPERM)
		}
		s.violations.add(plan.SandboxNetwork, fmt.Sprintf("a socket of address family %s was refused",
			familyName(family, n.Args[2])))
		if family == unix.AF_PACKET {
			return failure(unix.EPERM)
		}
		return failure(unix.EAFNOSUPPORT)
	case unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG:
		s.violations.add(plan.SandboxConnect, "a message that connects (MSG_FASTOPEN) was refused")
		return failure(unix.EOPNOTSUPP)
	default:
		if makesDevice(&n) {
			s.violations.add(plan.SandboxSyscalls, "the making of a device was refused")
			return failure(unix.EPERM)
		}
		name, ok := namedCalls[uint32(n.Nr)]
		if !ok {
			name = fmt.Sprintf("system call %d", n.Nr)
		}
		s.violations.add(plan.SandboxSyscalls, name+" was refused")
	}
	return failure(unix.EPERM)
}

// makesDevice reports whether a call makes a device. The mode is in a register, which the program cannot change.
func makesDevice(n *notification) bool {
	mode := n.Args[1]
	switch {
	case n.Nr == unix.SYS_MKNODAT:
		mode = n.Args[2]
	case !slices.Contains(archMknod, uint32(n.Nr)):
		return false
	}
	return mode&unix.S_IFMT == unix.S_IFBLK || mode&unix.S_IFMT == unix.S_IFCHR
}

func familyName(family int, protocol uint64) string {
	names := map[int]string{
		unix.AF_PACKET: "packet", unix.AF_VSOCK: "vsock", unix.AF_ALG: "alg", unix.AF_KEY: "key",
		unix.AF_BLUETOOTH: "bluetooth",
		unix.AF_CAN:       "can", unix.AF_TIPC: "tipc", unix.AF_RDS: "rds", unix.AF_XDP: "xdp", unix.AF_QIPCRTR: "qipcrtr",
	}
	if family == unix.AF_NETLINK {
		return fmt.Sprintf("netlink with protocol %d", protocol)
	}
	if name, ok := names[family]; ok {
		return name
	}
	return fmt.Sprint(family)
}
