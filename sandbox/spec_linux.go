package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// shimName is argv[0] of the process that Main recognises. The description never travels by argv or the environment,
// because other processes of the machine may read those.
const shimName = "dvt-sandbox"

// controlFD is the descriptor that a shim inherits: a socket to the worker.
const controlFD = 3

// spec is the description of a sandbox for the shim. The fields stand in the order in which the shim uses them.
type spec struct {
	Level  level
	UID    int
	GID    int
	Mounts []mount  // in the order in which they are made
	Hidden []string // the paths that the worker hides, also those that no mount shows
	Tmp    int64    // bytes of /tmp and of /dev/shm

	Landlock int // ABI; 0 when the kernel has none
	Rules    []landlockRule
	Seccomp  bool
	Limits   []rlimit

	Path  string
	Argv  []string
	Env   []string
	Dir   string
	Write []string // searched for files that reached Disk
	Disk  int64
}

// level says which namespaces the kernel grants.
type level struct {
	User  bool // a user namespace, in which the shim has the capabilities for the others
	Space bool // mount, process, network, IPC and UTS namespaces
}

// flags returns the flags of clone that create the namespaces.
func (l level) flags() uintptr {
	var flags uintptr
	if l.User {
		flags |= unix.CLONE_NEWUSER
	}
	if l.Space {
		flags |= unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	}
	return flags
}

type rlimit struct {
	Resource int
	Value    uint64
}

// The kinds of messages. The worker sends start, with the spec as JSON in a memory file and the program's stdout and
// stderr; later it may send term or kill. The shim sends ready with its descriptors, then started or failed, and exited
// at the end.
const (
	msgStart   = "start"
	msgTerm    = "term"
	msgKill    = "kill"
	msgReady   = "ready"
	msgStarted = "started"
	msgFailed  = "failed"
	msgExited  = "exited"
)

// message is one datagram between worker and shim.
type message struct {
	Kind string
	// of failed: "exec" when the program itself cannot be executed, "path" for ErrPath
	Stage  string        `json:",omitempty"`
	Text   string        `json:",omitempty"`
	Errno  syscall.Errno `json:",omitempty"`
	Status int           `json:",omitempty"` // of exited
	Signal int           `json:",omitempty"` // of exited
	Full   bool          `json:",omitempty"` // of exited: a file has exactly the permitted size, or /tmp is full
	Socket []string      `json:",omitempty"` // of ready: the kind of each descriptor
}

const maxMessage = 16 << 10

// control is one end of the connection between worker and shim.
type control struct{ conn *net.UnixConn }

// controlPair returns the worker's end and the file that the shim inherits.
func controlPair() (control, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return control{}, nil, fmt.Errorf("sandbox: socket pair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "sandbox control")
	c, err := openControl(fds[0])
	if err != nil {
		theirs.Close()
		return control{}, nil, err
	}
	return c, theirs, nil
}

// openControl returns the connection of a socket descriptor. It takes ownership of fd.
func openControl(fd int) (control, error) {
	f := os.NewFile(uintptr(fd), "sandbox control")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return control{}, fmt.Errorf("sandbox: control: %w", err)
	}
	c, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return control{}, errors.New("sandbox: control: the descriptor is not a Unix socket")
	}
	return control{c}, nil
}

func (c control) send(m message, fds ...int) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err = c.conn.WriteMsgUnix(text, rights, nil)
	return err
}

// receive waits for the next message. The caller owns the returned descriptors.
func (c control) receive() (message, []int, error) {
	text, rights := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4*8))
	n, rn, _, _, err := c.conn.ReadMsgUnix(text, rights)
	if err != nil {
		return message{}, nil, err
	}
	if n == 0 {
		return message{}, nil, net.ErrClosed
	}
	var fds []int
	headers, err := unix.ParseSocketControlMessage(rights[:rn])
	if err != nil {
		return message{}, nil, err
	}
	for i := range headers {
		got, err := unix.ParseUnixRights(&headers[i])
		if err == nil {
			fds = append(fds, got...)
		}
	}
	var m message
	if err := json.Unmarshal(text[:n], &m); err != nil {
		closeAll(fds)
		return message{}, nil, err
	}
	return m, fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
