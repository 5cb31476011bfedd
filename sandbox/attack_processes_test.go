//go:build linux

package sandbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func processAttempts() []attempt {
	return []attempt{
		{name: "read the environment of a process of the host",
			named:  `/environ" was refused: the step has only its own processes`,
			attack: func(w world) error { return reads(fmt.Sprintf("/proc/%d/environ", w.Victim)) }},
		{name: "read the environment of the worker", named: `/environ" was refused: the step has only its own processes`,
			attack: func(w world) error {
				return reads(
					fmt.Sprintf("/proc/%d/environ", w.Worker))
			}},
		{name: "read the environment of the first process", named: `read of "/proc/1/environ"`,
			attack:        func(world) error { return reads("/proc/1/environ") },
			hostMayRefuse: protectedInit},
		{name: "search every environment for the secret", named: `read of "/proc/1/environ"`, attack: searchEnvironments},
		{name: "open the memory of a process of the host", named: `/mem" was refused: the step has only its own processes`,
			attack: func(w world) error { return opens(fmt.Sprintf("/proc/%d/mem", w.Victim)) }},
		{name: "open the memory of the first process", named: `write to "/proc/1/mem"`,
			attack:        func(world) error { return opens("/proc/1/mem") },
			hostMayRefuse: protectedInit},
		{name: "see what the first process has open", named: `read of "/proc/1/fd/0"`, attack: func(world) error {
			var err error
			for fd := range 16 {
				if _, err = os.Readlink(fmt.Sprintf("/proc/1/fd/%d", fd)); err == nil {
					return nil
				}
			}
			return err
		}, hostMayRefuse: protectedInit},
		{name: "open a descriptor of the worker", named: "its own processes", attack: func(w world) error {
			return reads(
				fmt.Sprintf("/proc/%d/fd/%d", w.Worker, w.Leak))
		}},
		{name: "signal a process of the host", unnamed: otherNamespace,
			attack: func(w world) error { return unix.Kill(w.Victim, 0) }},
		{name: "signal the worker", unnamed: otherNamespace, attack: func(w world) error { return unix.Kill(w.Worker, 0) }},
		{name: "signal a process by a pidfd", unnamed: otherNamespace, attack: func(w world) error {
			fd, err := unix.PidfdOpen(w.Victim, 0)
			if err != nil {
				return err
			}
			return unix.PidfdSendSignal(fd, 0, nil, 0)
		}},
		{name: "trace a process of the host", named: "ptrace", attack: func(w world) error {
			if err := unix.PtraceAttach(w.Victim); err != nil {
				return err
			}
			var status unix.WaitStatus
			_, _ = unix.Wait4(w.Victim, &status, 0, nil)
			return unix.PtraceDetach(w.Victim)
		}},
		{name: "trace the first process", named: "ptrace", attack: func(w world) error {
			pid := 1
			if _, err := os.Stat(w.Secret); err == nil {
				pid = w.Victim // outside the sandbox, process 1 belongs to the system
			}
			if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0); errno != 0 {
				return errno
			}
			return nil
		}},
		{name: "be traced", named: "ptrace", attack: func(world) error {
			return plainCall(unix.SYS_PTRACE,
				unix.PTRACE_TRACEME)
		}},
		{name: "read the memory of a process of the host", named: "process_vm_readv", attack: func(w world) error {
			return copyMemory(unix.SYS_PROCESS_VM_READV, w.Victim)
		}},
		{name: "write the memory of a process of the host", named: "process_vm_writev", attack: func(w world) error {
			return copyMemory(unix.SYS_PROCESS_VM_WRITEV, w.Victim)
		}},
		{name: "take a descriptor of a process of the host", named: "pidfd_getfd", attack: func(w world) error {
			fd, err := unix.PidfdOpen(w.Victim, 0)
			if err != nil {
				fd, _ = unix.PidfdOpen(os.Getppid(), 0)
			}
			_, err = unix.PidfdGetfd(fd, 0, 0)
			return err
		}},
		{name: "compare processes", named: "kcmp", attack: func(w world) error {
			return call(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(w.Victim), 1)
		}, hostMayRefuse: "a kernel without kcmp"},
		{name: "outlive the program in a session of its own", unnamed: nothingToRefuse,
			attack: func(w world) error { return spawnMarked(w, &syscall.SysProcAttr{Setsid: true}) }, left: marked},
		{name: "outlive the program by a double fork", unnamed: nothingToRefuse, attack: doubleFork, left: marked},
		{name: "outlive the program without signals", unnamed: nothingToRefuse, attack: func(w world) error {
			cmd := exec.Command("/bin/sh", "-c", "trap '' TERM HUP INT; while :; do sleep 1; done", w.Marker)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			return cmd.Start()
		}, left: marked},
		{name: "end the first process and go on", unnamed: nothingToRefuse, attack: func(w world) error {
			for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGSEGV, unix.SIGKILL} {
				if _, err := os.Stat(w.Secret); err != nil {
					_ = unix.Kill(1, s)
				}
			}
			return spawnMarked(w, &syscall.SysProcAttr{Setsid: true})
		}, left: marked},
	}
}

// searchEnvironments reads every environment that /proc shows, except that of this process.
func searchEnvironments(world) error {
	entries, err := os.ReadDir("/proc")
	for _, e := range entries {
		pid, _ := strconv.Atoi(e.Name())
		if pid == 0 || pid == os.Getpid() {
			continue
		}
		text, _ := os.ReadFile("/proc/" + e.Name() + "/environ")
		if bytes.Contains(text, []byte("VICTIM_SECRET")) {
			return nil
		}
	}
	return errors.Join(err, errors.New("no environment has the secret"))
}

// copyMemory counts an invalid address as success, because the kernel checks the permission first.
func copyMemory(number uintptr, pid int) error {
	var buffer [8]byte
	local := unix.Iovec{Base: &buffer[0], Len: 8}
	remote := unix.RemoteIovec{Base: 8, Len: 8}
	_, _, errno := unix.Syscall6(number, uintptr(pid), uintptr(unsafe.Pointer(&local)), 1,
		uintptr(unsafe.Pointer(&remote)), 1, 0)
	if errno == unix.EPERM || errno == unix.ESRCH {
		return errno
	}
	return nil
}

func spawnMarked(w world, attr *syscall.SysProcAttr) error {
	cmd := exec.Command("/bin/sh", "-c", "sleep 600; :", w.Marker)
	cmd.SysProcAttr = attr
	return cmd.Start()
}

func doubleFork(w world) error {
	return exec.Command("/bin/sh", "-c", `(setsid /bin/sh -c "sleep 600; :" "$0" >/dev/null 2>&1 &) &`, w.Marker).Run()
}

// marked succeeds when a process with the marker still exists.
func marked(w world) error {
	if len(markedProcesses(w.Marker)) == 0 {
		return errors.New("nothing was left")
	}
	return nil
}

func markedProcesses(marker string) []int {
	var found []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		text, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if strings.Contains(string(text), marker) {
			found = append(found, pid)
		}
	}
	return found
}

// endMarked kills the processes that an attempt left.
func endMarked(marker string) {
	for range 3 {
		for _, pid := range markedProcesses(marker) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		<-time.After(time.Millisecond)
	}
}

// call makes a system call. Errors other than a refusal count as success, because the kernel checks the permission
// before the arguments.
func call(number uintptr, args ...uintptr) error {
	err := plainCall(number, args...)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS) ||
		errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

func plainCall(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}
