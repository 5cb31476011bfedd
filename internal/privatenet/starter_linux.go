package privatenet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// starterName is argv[0] of the starter. The ids to map follow it, as uid:gid or noIDs, then the path and the arguments
// of the program. Without a program the starter only tests the network.
const (
	starterName = "dvt-network"
	noIDs       = "-"
)

// controlFD is the starter's end of the connection to the process that started it.
const controlFD = 3

const starterFailed = 70 // exit status of a starter without a program

// Main runs the starter of a network and exits, if Network.Start started this process as one; otherwise it returns. A
// program that uses the package calls it first in main, and its tests call it first in TestMain.
func Main() {
	if len(os.Args) == 0 || os.Args[0] != starterName {
		return
	}
	os.Exit(runStarter(os.Args[1:])) //nolint:forbidigo // The process is the starter and nothing else.
}

// runStarter returns the exit status of the starter.
func runStarter(argv []string) int {
	debug.SetGCPercent(-1) // the starter allocates little
	runtime.LockOSThread() // the program ends with the thread that started it
	unix.CloseOnExec(controlFD)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM)
	control, err := unixConn(controlFD)
	if err != nil {
		return starterFailed
	}
	program, err := launch(argv)
	if err != nil {
		greet(control, hello{Error: err.Error()})
		return starterFailed
	}
	if program == nil {
		greet(control, hello{})
		return 0
	}
	greet(control, hello{PID: program.Process.Pid})
	go obey(control, program.Process.Pid)
	go func() {
		for range signals {
			_ = program.Process.Signal(syscall.SIGTERM)
		}
	}()
	_ = program.Wait()
	return endLike(program.ProcessState)
}

func greet(control *net.UnixConn, h hello) {
	text, err := json.Marshal(h)
	if err == nil && len(text) <= maxHello {
		_, _ = control.Write(text) // without an answer the other side kills this process
	}
}

// launch prepares the namespaces and starts the program, or none when argv has none.
func launch(argv []string) (*exec.Cmd, error) {
	if len(argv) == 0 {
		return nil, errors.New("there are no ids")
	}
	if argv[0] != noIDs {
		if err := mapIDs(argv[0]); err != nil {
			return nil, err
		}
	}
	if err := upLoopback(); err != nil {
		return nil, err
	}
	// They were for the ids and the loopback.
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("drop capabilities: %w", err)
	}
	if argv = argv[1:]; len(argv) < 2 {
		return nil, nil
	}
	program := &exec.Cmd{
		Path: argv[0], Args: argv[1:], Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if err := program.Start(); err != nil {
		return nil, err
	}
	return program, nil
}

// mapIDs maps a user and a group, as uid:gid, to themselves, so that the program owns its files.
func mapIDs(ids string) error {
	uid, gid, _ := strings.Cut(ids, ":")
	for _, f := range []struct{ name, text string }{
		{"setgroups", "deny"}, {"uid_map", uid + " " + uid + " 1\n"}, {"gid_map", gid + " " + gid + " 1\n"},
	} {
		if err := os.WriteFile("/proc/self/"+f.name, []byte(f.text), 0); err != nil {
			return fmt.Errorf("user namespace: %w", err)
		}
	}
	return nil
}

func upLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	return nil
}

// obey answers each request for a socket with a TCP socket of this network. On requestKill, and when the other side has
// ended, it kills the program's process group. The starter then ends with the program.
func obey(control *net.UnixConn, program int) {
	var request [1]byte
	for {
		if _, err := control.Read(request[:]); err != nil || request[0] == requestKill {
			_ = syscall.Kill(-program, syscall.SIGKILL)
			return
		}
		var rights []byte
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err == nil {
			rights = unix.UnixRights(fd)
		}
		_, _, _ = control.WriteMsgUnix(request[:], rights, nil) // a lost connection fails the next read
		if err == nil {
			_ = unix.Close(fd)
		}
	}
}

// endLike ends this process by the signal that ended the program, or returns its exit status.
func endLike(state *os.ProcessState) int {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return state.ExitCode()
	}
	signal.Reset()
	_ = syscall.Kill(os.Getpid(), status.Signal())
	return 128 + int(status.Signal()) // the signal did not end this process
}
