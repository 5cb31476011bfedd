package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dvt-engine/dvt/plan"
)

// dial answers one connect call of the program.
func (s *supervisor) dial(n notification) verdict {
	tid := int(n.PID)
	to, family, err := readAddress(tid, uintptr(n.Args[1]), int(int32(n.Args[2])))
	if err != nil {
		return failure(unix.EFAULT)
	}
	if !s.valid(&n) {
		return failure(unix.ESRCH)
	}
	if family == unix.AF_UNIX {
		return s.dialFile()
	}
	theirs, err := openTheirs(tid, int(int32(n.Args[0])))
	if err != nil {
		return failure(unix.EBADF)
	}
	defer unix.Close(theirs.fd)
	if !s.valid(&n) {
		return failure(unix.ESRCH)
	}
	if family == unix.AF_UNSPEC {
		return theirs.disconnect()
	}
	if family != unix.AF_INET && family != unix.AF_INET6 {
		return failure(unix.EAFNOSUPPORT)
	}
	// A permitted connection is a socket of the worker's network. The address alone does not say which network it
	// reaches.
	inside := s.ownNetwork && !theirs.ofWorker
	if inside && (theirs.kind != unix.SOCK_STREAM || isLoopback(to.Addr()) && !s.leavesLoopback(tid, to)) {
		return s.connectInside(n, theirs, to)
	}
	if theirs.kind != unix.SOCK_STREAM {
		s.violations.add(plan.SandboxNetwork, fmt.Sprintf("a datagram to %s was refused", to))
		return failure(unix.EACCES)
	}
	if errno := s.permit(to); errno != 0 {
		return failure(errno)
	}
	if theirs.domain != unix.AF_INET && theirs.domain != unix.AF_INET6 {
		return failure(unix.EAFNOSUPPORT)
	}
	return s.connectFor(n, theirs, to)
}

// dialFile answers a connect to a Unix socket. Only the kernel can carry it out, because the path is resolved in the
// program's mounts. The mounts bound sockets with a path; the network namespace bounds abstract ones. The program may
// swap socket and address in between, so dialFile requires that Landlock refuses TCP.
func (s *supervisor) dialFile() verdict {
	if s.ownNetwork && s.landlocked {
		return verdict{pass: true}
	}
	s.violations.add(plan.SandboxNetwork, "connect to a Unix socket was refused: it needs network namespaces and "+
		"Landlock of Linux 6.7")
	return failure(unix.EACCES)
}

// listen answers one listen call. It acts on its own descriptor of the socket, so the program cannot swap the socket.
func (s *supervisor) listen(n notification) verdict {
	theirs, err := openTheirs(int(n.PID), int(int32(n.Args[0])))
	if err != nil {
		return failure(unix.EBADF)
	}
	defer unix.Close(theirs.fd)
	if !s.valid(&n) {
		return failure(unix.ESRCH)
	}
	if s.ownNetwork && theirs.ofWorker {
		s.violations.add(plan.SandboxNetwork, "listen on a socket of the worker's network was refused")
		return failure(unix.EACCES)
	}
	return failure(errnoOf(unix.Listen(theirs.fd, int(int32(n.Args[1])))))
}

// leavesLoopback reports whether a loopback address means that of the host. Without a list of connections, a server
// that listens in the step takes precedence.
func (s *supervisor) leavesLoopback(tid int, to netip.AddrPort) bool {
	if s.connect.open {
		return s.judge != nil && !listens(tid, to.Port()) && s.judge(to) == nil
	}
	return s.connect.namesLoopback(to, s.names.has)
}

// listens reports whether a TCP socket listens on a port in the network of a thread.
func listens(tid int, port uint16) bool {
	found := false
	suffix := fmt.Sprintf(":%04X", port)
	for _, name := range []string{"tcp", "tcp6"} {
		eachLine(fmt.Sprintf("/proc/%d/net/%s", tid, name), func(line string) {
			// The format is "sl local_address remote_address state …"; the state 0A is LISTEN.
			fields := strings.Fields(line)
			found = found || len(fields) > 3 && strings.HasSuffix(fields[1], suffix) && fields[3] == "0A"
		})
	}
	return found
}

// permit applies the step's list of connections and then the worker's Judge. It returns 0 or the errno of the refusal.
func (s *supervisor) permit(to netip.AddrPort) unix.Errno {
	if !s.connect.permits(to, s.names.has) {
		s.violations.add(plan.SandboxConnect, fmt.Sprintf("connect to %s was refused: the step does not list it", to))
		return unix.EACCES
	}
	if s.judge != nil {
		if err := s.judge(to); err != nil {
			s.violations.add(plan.SandboxConnect, fmt.Sprintf("connect to %s was refused by the address guard", to))
			return unix.EACCES
		}
	}
	return 0
}

// isLoopback reports whether the kernel connects to the loopback for this address. That includes the unspecified
// address.
func isLoopback(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLoopback() || a.IsUnspecified()
}

// readAddress reads the address of a connect call from the caller's memory. The supervisor reads it only once, because
// another thread may change it.
func readAddress(tid int, at uintptr, length int) (netip.AddrPort, int, error) {
	var buffer [128]byte
	length = min(length, len(buffer))
	if length < 2 {
		return netip.AddrPort{}, 0, unix.EINVAL
	}
	local := []unix.Iovec{{Base: &buffer[0], Len: uint64(length)}}
	remote := []unix.RemoteIovec{{Base: at, Len: length}}
	read, err := unix.ProcessVMReadv(tid, local, remote, 0)
	if err != nil {
		return netip.AddrPort{}, 0, err
	}
	if read != length {
		return netip.AddrPort{}, 0, unix.EFAULT
	}
	family := int(binary.NativeEndian.Uint16(buffer[:2]))
	port := binary.BigEndian.Uint16(buffer[2:4])
	switch {
	case family == unix.AF_INET && length >= unix.SizeofSockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(buffer[4:8])), port), family, nil
	case family == unix.AF_INET6 && length >= unix.SizeofSockaddrInet6-4: // without the scope, as the kernel permits
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(buffer[8:24])), port), family, nil
	case family == unix.AF_INET || family == unix.AF_INET6:
		return netip.AddrPort{}, 0, unix.EINVAL
	}
	return netip.AddrPort{}, family, nil
}

// socket is a socket of the program. The worker holds a duplicate descriptor of it.
type socket struct {
	fd           int // the worker's descriptor
	number       int // the program's descriptor
	domain, kind int
	nonblock     bool
	cloexec      bool
	ofWorker     bool // in the worker's network, not in the program's own
}

// disconnect dissolves the association of a socket, as connect with AF_UNSPEC does.
func (t socket) disconnect() verdict {
	var unspecified [unix.SizeofSockaddrInet6]byte
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(t.fd), uintptr(unsafe.Pointer(&unspecified[0])),
		uintptr(len(unspecified)))
	return failure(errno)
}

func openTheirs(tid, number int) (socket, error) {
	pid, err := threadGroup(tid)
	if err != nil {
		return socket{}, err
	}
	flags, err := fdFlags(tid, number)
	if err != nil {
		return socket{}, err
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return socket{}, err
	}
	defer unix.Close(pidfd)
	fd, err := unix.PidfdGetfd(pidfd, number, 0)
	if err != nil {
		return socket{}, err
	}
	t := socket{fd: fd, number: number, nonblock: flags&unix.O_NONBLOCK != 0, cloexec: flags&unix.O_CLOEXEC != 0}
	t.domain, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err == nil {
		t.kind, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	}
	if err == nil {
		t.ofWorker, err = inWorkersNetwork(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return socket{}, err
	}
	return t, nil
}

// inWorkersNetwork reports whether a socket belongs to the network namespace of this process. It needs Linux 5.14.
func inWorkersNetwork(fd int) (bool, error) {
	its, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return false, err
	}
	own, err := workersNetwork()
	return its == own, err
}

// workersNetwork is the cookie of the network namespace of this process.
var workersNetwork = sync.OnceValues(func() (uint64, error) { //nolint:gochecknoglobals // a constant of the process
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
})

func threadGroup(tid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if value, ok := strings.CutPrefix(line, "Tgid:"); ok {
			return strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return 0, unix.ESRCH
}

func fdFlags(tid, number int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", tid, number))
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if value, ok := strings.CutPrefix(line, "flags:"); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 8, 64)
		}
	}
	return 0, unix.EBADF
}

// copiedOptions are socket options that clients set before they connect. The new socket must have them too.
var copiedOptions = []struct{ level, name int }{
	{unix.SOL_SOCKET, unix.SO_KEEPALIVE}, {unix.IPPROTO_TCP, unix.TCP_NODELAY}, {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE},
	{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL}, {unix.IPPROTO_TCP, unix.TCP_KEEPCNT}, {unix.IPPROTO_TCP,
		unix.TCP_USER_TIMEOUT},
}

// connectInside connects the program's own socket in the program's own network.
func (s *supervisor) connectInside(n notification, theirs socket, to netip.AddrPort) verdict {
	address, errno := sockaddr(theirs.domain, to)
	if errno != 0 {
		return failure(errno)
	}
	err := unix.Connect(theirs.fd, address)
	if errors.Is(err, unix.EINTR) { // a signal interrupted the worker; the kernel continues to connect
		err = s.await(n, theirs.fd)
	}
	return failure(errnoOf(err))
}

// connectFor connects a new socket in the worker's network and replaces the program's socket with it. A nonblocking
// socket is replaced while it still connects, so that the program waits for it as usual.
func (s *supervisor) connectFor(n notification, theirs socket, to netip.AddrPort) verdict {
	fd, err := unix.Socket(theirs.domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return failure(errnoOf(err))
	}
	defer unix.Close(fd)
	for _, o := range copiedOptions {
		if value, err := unix.GetsockoptInt(theirs.fd, o.level, o.name); err == nil && value != 0 {
			_ = unix.SetsockoptInt(fd, o.level, o.name, value)
		}
	}
	for _, name := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if value, err := unix.GetsockoptTimeval(theirs.fd, unix.SOL_SOCKET, name); err == nil {
			_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, name, value)
		}
	}
	address, errno := sockaddr(theirs.domain, to)
	if errno != 0 {
		return failure(errno)
	}
	err = unix.Connect(fd, address)
	if errors.Is(err, unix.EINPROGRESS) && !theirs.nonblock {
		err = s.await(n, fd)
	}
	pending := errors.Is(err, unix.EINPROGRESS)
	if err != nil && !pending {
		return failure(errnoOf(err))
	}
	if !theirs.nonblock {
		if err := unix.SetNonblock(fd, false); err != nil {
			return failure(errnoOf(err))
		}
	}
	added := addedFD{ID: n.ID, Flags: unix.SECCOMP_ADDFD_FLAG_SETFD, Source: uint32(fd), New: uint32(theirs.number)}
	if theirs.cloexec {
		added.NewFlags = unix.O_CLOEXEC
	}
	if err := s.control(unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&added)); err != nil {
		return failure(unix.ECONNABORTED)
	}
	if pending {
		return failure(unix.EINPROGRESS)
	}
	return verdict{}
}

// await waits until a socket is connected, the program's call ends, or connectTimeout has passed.
func (s *supervisor) await(n notification, fd int) error {
	for deadline := time.Now().Add(connectTimeout); time.Now().Before(deadline) && s.valid(&n); {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		ready, err := unix.Poll(polled, 200)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if ready > 0 {
			code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
			if err != nil {
				return err
			}
			if code != 0 {
				return unix.Errno(code)
			}
			return nil
		}
	}
	return unix.ETIMEDOUT
}

// sockaddr converts an address to the form that the socket's family needs.
func sockaddr(domain int, to netip.AddrPort) (unix.Sockaddr, unix.Errno) {
	if domain == unix.AF_INET6 {
		return &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}, 0
	}
	if !to.Addr().Is4() {
		return nil, unix.EAFNOSUPPORT
	}
	return &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}, 0
}

func errnoOf(err error) unix.Errno {
	if err == nil {
		return 0
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.EIO
}
