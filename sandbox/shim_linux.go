package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Main runs the shim of a sandbox and exits, if the process runtime started this process as one; otherwise it returns.
// A program that uses the process runtime calls it first in main, and its tests call it first in TestMain.
func Main() {
	if len(os.Args) == 0 || os.Args[0] != shimName {
		return
	}
	os.Exit(shim()) //nolint:forbidigo // The process is the shim and nothing else.
}

// shim prepares the sandbox, starts the program and stays as the first process of its process namespace. The kernel
// ends every other process of the namespace with it.
func shim() int {
	debug.SetGCPercent(-1) // the shim allocates little
	runtime.LockOSThread()
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 70
	}
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	// Every signal has a handler. Otherwise the program could end the shim and suppress the report of its own end.
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	signal.Reset(unix.SIGURG, unix.SIGCHLD)
	go func() {
		for range signals {
		}
	}()
	c, err := openControl(controlFD)
	if err != nil {
		return 70
	}
	m, fds, err := c.receive()
	if err != nil || m.Kind != msgStart || len(fds) != 3 {
		return 70
	}
	s, err := readSpec(fds[0])
	if err != nil {
		return failed(c, "setup", err)
	}
	began := time.Now()
	pid, stage, err := launch(c, s, fds[1], fds[2])
	if err != nil {
		return failed(c, stage, err)
	}
	if err := c.send(message{Kind: msgStarted}); err != nil {
		return 70
	}
	go obey(c, s.Level)
	status := reap(pid)
	exit := message{Kind: msgExited, Status: status.ExitStatus(), Full: isDiskFull(s, status, began)}
	if status.Signaled() {
		exit.Status, exit.Signal = -1, int(status.Signal())
	}
	if !s.Level.Space {
		// Landlock binds this thread as it binds the program. Another thread may signal all processes.
		done := make(chan struct{})
		go func() {
			defer close(done)
			killDescendants()
		}()
		<-done
	}
	_ = c.send(exit)
	return 0
}

func failed(c control, stage string, err error) int {
	m := message{Kind: msgFailed, Stage: stage, Text: err.Error()}
	var path *pathError
	if errors.As(err, &path) {
		m.Stage, m.Text = "path", path.text
	}
	errors.As(err, &m.Errno)
	_ = c.send(m)
	return 70
}

func readSpec(fd int) (*spec, error) {
	f := os.NewFile(uintptr(fd), "sandbox spec")
	defer f.Close()
	var s spec
	if err := json.NewDecoder(f).Decode(&s); err != nil {
		return nil, fmt.Errorf("description: %w", err)
	}
	return &s, nil
}

// launch applies the sandbox to the calling thread and starts the program from it. Children inherit the thread's
// credentials, Landlock domain and filter, so the shim need not execute itself a second time. Its other threads are not
// restricted.
func launch(c control, s *spec, stdout, stderr int) (pid int, stage string, err error) {
	if s.Level.User {
		if err := mapIDs(s); err != nil {
			return 0, "setup", err
		}
	}
	// Not dumpable: the program cannot open the memory, the descriptors or the root of the shim by /proc.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return 0, "setup", fmt.Errorf("dumpable: %w", err)
	}
	ready := message{Kind: msgReady}
	var fds []int
	if s.Level.Space {
		if err := unix.Sethostname([]byte("step")); err != nil {
			return 0, "setup", fmt.Errorf("host name: %w", err)
		}
		if fds, ready.Socket, err = openNetwork(); err != nil {
			return 0, "setup", err
		}
		if err := buildRoot(s); err != nil {
			return 0, "setup", err
		}
	} else if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, "setup", fmt.Errorf("subreaper: %w", err)
	}
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return 0, "setup", err
	}
	for _, l := range s.Limits {
		if err := unix.Setrlimit(l.Resource, &unix.Rlimit{Cur: l.Value, Max: l.Value}); err != nil {
			return 0, "setup", fmt.Errorf("limit %d: %w", l.Resource, err)
		}
	}
	if err := dropCapabilities(); err != nil {
		return 0, "setup", err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, "setup", fmt.Errorf("no new privileges: %w", err)
	}
	if err := restrict(s); err != nil {
		return 0, "setup", err
	}
	// The worker resolves paths below this root to name refused files. No file may be opened behind the filter until the
	// worker answers its calls.
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, "setup", fmt.Errorf("root: %w", err)
	}
	fds, ready.Socket = append(fds, root), append(ready.Socket, descriptorRoot)
	if s.Seccomp {
		listener, err := installFilter()
		if err != nil {
			return 0, "setup", err
		}
		fds, ready.Socket = append(fds, listener), append(ready.Socket, socketListener)
	}
	if err := c.send(ready, fds...); err != nil {
		return 0, "setup", err
	}
	closeAll(fds)
	pid, err = syscall.ForkExec(s.Path, s.Argv, &syscall.ProcAttr{
		Dir: s.Dir, Env: s.Env, Files: []uintptr{null.Fd(), uintptr(stdout), uintptr(stderr)},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, "exec", err
	}
	// Only the program holds its output now, so the reader of a pipe sees the end when the last process has ended.
	closeAll([]int{stdout, stderr})
	return pid, "", nil
}

// mapIDs maps the worker's user and group to themselves, so that files of the workspace keep their owner.
func mapIDs(s *spec) error {
	for _, f := range []struct{ name, text string }{
		{"setgroups", "deny"},
		{"uid_map", fmt.Sprintf("%d %d 1\n", s.UID, s.UID)},
		{"gid_map", fmt.Sprintf("%d %d 1\n", s.GID, s.GID)},
	} {
		if err := os.WriteFile("/proc/self/"+f.name, []byte(f.text), 0); err != nil {
			return fmt.Errorf("user namespace: %w", err)
		}
	}
	return nil
}

// dropCapabilities drops the calling thread's capabilities and prevents it from gaining any.
func dropCapabilities() error {
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // one past the last capability of this kernel
		}
		if errors.Is(err, unix.EPERM) {
			break // the thread lacks CAP_SETPCAP; no_new_privs still protects
		}
		if err != nil {
			return fmt.Errorf("capabilities: %w", err)
		}
	}
	// Root gets no capabilities: NOROOT, NO_SETUID_FIXUP, KEEP_CAPS off and NO_CAP_AMBIENT_RAISE, each locked.
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, 0b1110_1111, 0, 0, 0); err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("capabilities: secure bits: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("capabilities: ambient: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if _, _, errno := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])),
		0); errno != 0 {
		return fmt.Errorf("capabilities: %w", errno)
	}
	return nil
}

// obey carries out the worker's orders. It ends the sandbox when the worker has ended.
func obey(c control, l level) {
	for {
		m, _, err := c.receive()
		switch {
		case err != nil || m.Kind == msgKill:
			if !l.Space {
				killDescendants()
			}
			os.Exit(71) //nolint:forbidigo // The process is the shim and nothing else.
		case m.Kind == msgTerm && l.Space:
			_ = unix.Kill(-1, unix.SIGTERM)
		case m.Kind == msgTerm:
			signalDescendants(unix.SIGTERM)
		}
	}
}

// reap collects every ended process until the program ends.
func reap(program int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case pid == program:
			return status
		case err != nil && !errors.Is(err, syscall.EINTR):
			return status
		}
	}
}

// killDescendants ends every descendant of the shim where no process namespace does. It repeats until none is left,
// because a process may start while the list is read.
func killDescendants() {
	for range 1000 {
		if signalDescendants(unix.SIGKILL) == 0 {
			return
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // The shim has no context: it is about to end.
	}
}
