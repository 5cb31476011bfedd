//go:build linux

package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func kernelAttempts() []attempt {
	return []attempt{
		{name: "io_uring", named: "io_uring_setup", attack: func(world) error {
			var params [120]byte
			return call(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params[0])))
		}, hostMayRefuse: "a kernel whose io_uring is off"},
		{name: "load a BPF program", named: "bpf", attack: func(world) error {
			var attr [128]byte
			return call(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&attr[0])), 72)
		}, hostMayRefuse: "a kernel without BPF"},
		{name: "open a performance counter", named: "perf_event_open", attack: func(world) error {
			var attr [128]byte
			return call(unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(&attr[0])), 0, ^uintptr(0), ^uintptr(0), 0)
		}, hostMayRefuse: "a kernel without counters"},
		{name: "handle page faults", named: "userfaultfd", attack: func(world) error { return call(unix.SYS_USERFAULTFD, 0) },
			hostMayRefuse: "a kernel without userfaultfd"},
		{name: "read a keyring", named: "keyctl", attack: func(world) error {
			session := int32(unix.KEY_SPEC_SESSION_KEYRING)
			return call(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, uintptr(session), 1)
		}, hostMayRefuse: "a kernel without keyrings"},
		{name: "add a key", named: "add_key", attack: func(world) error {
			_, err := unix.AddKey("user", "dvt-test", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
			return err
		}, hostMayRefuse: "a kernel without keyrings"},
		{name: "load a module", named: "init_module", attack: func(world) error {
			return call(unix.SYS_INIT_MODULE, 0, 0,
				0)
		}, hostMayRefuse: "a kernel without modules"},
		{name: "load a module from a file", named: "finit_module",
			attack:        func(world) error { return call(unix.SYS_FINIT_MODULE, ^uintptr(0), 0, 0) },
			hostMayRefuse: "a kernel without modules"},
		{name: "load another kernel", named: "kexec_load",
			attack:        func(world) error { return call(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0xffff) },
			hostMayRefuse: "a kernel without kexec"},
		{name: "reboot", named: "reboot", attack: func(world) error { return call(unix.SYS_REBOOT, 0, 0, 0, 0) }},
		{name: "swap to a file", named: "swapon", attack: func(w world) error {
			name := append([]byte(filepath.Join(w.Workspace, "absent")), 0)
			return call(unix.SYS_SWAPON, uintptr(unsafe.Pointer(&name[0])), 0)
		}, hostMayRefuse: "a kernel without swap"},
		{name: "account processes", named: "acct", attack: func(world) error { return call(unix.SYS_ACCT, 0) },
			hostMayRefuse: "a kernel without accounting"},
		{name: "set the host name", named: "sethostname", attack: func(world) error {
			name, err := os.Hostname()
			return errors.Join(err, unix.Sethostname([]byte(name)))
		}},
		{name: "set the clock", named: "clock_settime", attack: func(world) error {
			return call(unix.SYS_CLOCK_SETTIME, unix.CLOCK_MONOTONIC, 0)
		}},
		{name: "read the kernel's log", named: "syslog", attack: func(world) error {
			_, err := unix.Klogctl(10, nil)
			return err
		}},
		{name: "watch every file", named: "fanotify_init",
			attack: func(world) error { return call(unix.SYS_FANOTIFY_INIT, 0, 0) }, hostMayRefuse: "a kernel without fanotify"},
		{name: "open a file by its handle", named: "name_to_handle_at", attack: func(w world) error {
			handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, w.Workspace, 0)
			if err != nil {
				return err
			}
			dir, err := unix.Open(w.Workspace, unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			_, err = unix.OpenByHandleAt(dir, handle, unix.O_RDONLY)
			return err
		}},
		{name: "guess the handle of the root", named: "open_by_handle_at", attack: func(w world) error {
			dir, err := unix.Open(w.Workspace, unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			handle := unix.NewFileHandle(1, []byte{2, 0, 0, 0, 0, 0, 0, 0}) // inode 2 of ext4
			_, err = unix.OpenByHandleAt(dir, handle, unix.O_RDONLY)
			return err
		}, hostMayRefuse: "a file system without inode 2"},
		{name: "type into a terminal", named: "types into a terminal", attack: func(world) error {
			var letter byte = 'x'
			return call(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&letter)))
		}},
		{name: "switch off the randomness of addresses", named: "personality",
			attack: func(world) error { return call(unix.SYS_PERSONALITY, 0x0040000) }},
		{name: "a system call of x32", named: "another architecture",
			attack: func(world) error { return plainCall(0x40000000 | unix.SYS_GETPID) }, hostMayRefuse: "a kernel without x32"},
		{name: "a system call of 32 bits", named: "another architecture", attack: call32,
			hostMayRefuse: "a kernel without 32 bits"},
		{name: "get capabilities by a setuid program", named: "runs without privileges", attack: setuidProgram},
		{name: "set own capabilities", unnamed: byTheKernel, attack: func(world) error {
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			data := [2]unix.CapUserData{{Effective: 1 << unix.CAP_SYS_ADMIN, Permitted: 1 << unix.CAP_SYS_ADMIN}}
			return unix.Capset(&header, &data[0])
		}},
		{name: "become another user", unnamed: byTheKernel,
			attack: func(world) error { return plainCall(unix.SYS_SETUID, 12345) }},
		{name: "give a file away", named: "change of the owner of", attack: func(w world) error {
			name := filepath.Join(w.Workspace, "gift")
			return errors.Join(os.WriteFile(name, nil, 0o600), os.Chown(name, 12345, 12345))
		}},
		{name: "raise the priority", unnamed: byTheKernel,
			attack: func(world) error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -10) }},
		{name: "raise a limit", unnamed: byTheKernel, attack: func(world) error {
			var now unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &now); err != nil {
				return err
			}
			return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
		}},
		{name: "escape the killer of memory hogs", named: `write to "/proc/self/oom_score_adj"`, attack: func(world) error {
			return os.WriteFile("/proc/self/oom_score_adj",
				[]byte("-1000"), 0)
		}, hostMayRefuse: "a container without this right"},
		{name: "read another workspace from a program in memory", named: `secret.txt" was refused`, attack: memoryProgram},
	}
}

// setuidProgram starts a setuid program of root and succeeds when that program has capabilities.
func setuidProgram(w world) error {
	name := filepath.Join(w.Workspace, "setuid")
	text, err := os.ReadFile("/bin/cat")
	if err == nil {
		err = os.WriteFile(name, text, 0o755)
	}
	if err == nil {
		err = os.Chmod(name, os.ModeSetuid|os.ModeSetgid|0o755)
	}
	if err != nil {
		return err
	}
	out, err := exec.Command(name, "/proc/self/status").Output()
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(string(out), "\n") {
		if value, ok := strings.CutPrefix(line, "CapEff:\t"); ok && strings.Trim(value, "0") == "" {
			return errors.New("the program has no capabilities")
		}
	}
	return nil
}

// memoryProgram executes a copy of this program from a memory file, with another attempt.
func memoryProgram(w world) error {
	text, err := os.ReadFile(w.Self)
	if err != nil {
		return err
	}
	fd, err := unix.MemfdCreate("attack", 0)
	if err != nil {
		return err
	}
	if err := writeAll(fd, text); err != nil {
		return err
	}
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", fd))
	cmd.Args = []string{attackName, "read another workspace"}
	cmd.Env = os.Environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w", strings.TrimSpace(string(out)), err)
	}
	return nil
}

func writeAll(fd int, text []byte) error {
	for len(text) > 0 {
		n, err := unix.Write(fd, text)
		if err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}
