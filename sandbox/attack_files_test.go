//go:build linux

package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// reads succeeds when the first byte of a file can be read.
func reads(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("%s: empty: %w", name, err)
	}
	return nil
}

// opens succeeds when a file can be opened for writing; nothing is written.
func opens(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// The reasons for which an attempt has no line in the log.
const (
	noLookUps       = "look-ups reveal nothing, and programs make thousands of them"
	nothingToRefuse = "the attempt finds nothing that the sandbox would have to refuse"
	otherNamespace  = "the call acts on the step's own processes or network, where the target does not exist"
	byTheKernel     = "the kernel refuses it without the worker, and it touches no file"
)

const protectedInit = "a machine that protects its first process from root"

func fileAttempts() []attempt {
	return []attempt{
		{name: "read another workspace", named: "read of", attack: func(w world) error { return reads(w.Secret) }},
		{name: "read another workspace by dot dot", named: `secret.txt" was refused`, attack: func(w world) error {
			relative, err := filepath.Rel(w.Workspace, w.Secret)
			return errors.Join(err, reads(w.Workspace+"/"+relative))
		}},
		{name: "read another workspace by a symbolic link", named: "leads to", attack: func(w world) error {
			link := filepath.Join(w.Workspace, "link")
			return errors.Join(os.Symlink(w.Secret, link), reads(link))
		}},
		{name: "read another workspace by a hard link", named: "link to", attack: func(w world) error {
			link := filepath.Join(w.Workspace, "hard")
			return errors.Join(os.Link(w.Secret, link), reads(link))
		}},
		{name: "read another workspace in a race of symbolic links", named: "leads to", attack: symlinkRace},
		{name: "read another workspace in a race of hard links", named: "link to", attack: func(w world) error {
			name := filepath.Join(w.Workspace, "race")
			var stop atomic.Bool
			defer stop.Store(true)
			go func() {
				for !stop.Load() {
					_ = os.Link(w.Secret, name)
					_ = os.Remove(name)
				}
			}()
			for deadline := time.Now().Add(300 * time.Millisecond); time.Now().Before(deadline); {
				if reads(name) == nil {
					return nil
				}
			}
			return errors.New("the link was never made")
		}},
		{name: "read another workspace by proc self root", named: "leads to",
			attack: func(w world) error { return reads("/proc/self/root" + w.Secret) }},
		{name: "read another workspace by proc 1 root", named: `read of "/proc/1/root`, attack: func(w world) error {
			return reads("/proc/1/root" +
				w.Secret)
		}, hostMayRefuse: protectedInit},
		{name: "read another workspace by the victim's root", named: "its own processes",
			attack: func(w world) error { return reads(fmt.Sprintf("/proc/%d/root%s", w.Victim, w.Secret)) }},
		{name: "read another workspace by the worker's directory", named: "its own processes", attack: func(w world) error {
			_, err := os.ReadDir(fmt.Sprintf("/proc/%d/cwd/", w.Worker))
			return err
		}},
		{name: "write into another workspace", named: "creation of", attack: func(w world) error {
			return os.WriteFile(filepath.Join(filepath.Dir(w.Secret), "planted"), nil, 0o600)
		}},
		{name: "make a link in another workspace", named: "creation of", attack: func(w world) error {
			return os.Symlink("/etc/passwd", filepath.Join(filepath.Dir(w.Secret), filepath.Base(w.Workspace)))
		}},
		{name: "write into the project", named: `project/planted" was refused: the step may only read it`,
			attack: func(w world) error {
				return os.WriteFile(
					filepath.Join(w.Project, "planted"), nil, 0o600)
			}},
		{name: "read a denied file of the project", named: `project/token" was refused: the worker hides this path`,
			attack: func(w world) error { return reads(w.Denied) }},
		{name: "read the system's passwords", named: `read of "/etc/shadow"`,
			attack: func(world) error { return reads("/etc/shadow") }},
		{name: "write into the system's programs", named: `creation of a file in "/usr"`, attack: func(world) error {
			fd, err := unix.Open("/usr", unix.O_TMPFILE|unix.O_WRONLY, 0o600)
			return errors.Join(err, unix.Close(fd))
		}},
		{name: "write into the root", named: `creation of "/dvt-planted"`, attack: func(world) error {
			err := os.Mkdir("/dvt-planted", 0o700)
			_ = os.Remove("/dvt-planted")
			return err
		}},
		{name: "open the machine's disk", named: `read of "/dev/`, attack: func(world) error {
			text, err := os.ReadFile("/proc/partitions")
			for line := range strings.SplitSeq(string(text), "\n") {
				if fields := strings.Fields(line); len(fields) == 4 && fields[0] != "major" {
					if err = reads("/dev/" + fields[3]); err == nil {
						return nil
					}
				}
			}
			return errors.Join(err, errors.New("no disk could be opened"))
		}, hostMayRefuse: "a machine without block devices"},
		{name: "make a device of the machine's disk", named: "device", attack: func(w world) error {
			name := filepath.Join(w.Workspace, "disk")
			return unix.Mknod(name, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0)))
		}},
		{name: "open the machine's memory", named: `read of "/dev/mem"`,
			attack:        func(world) error { return reads("/dev/mem") },
			hostMayRefuse: "a kernel without /dev/mem"},
		{name: "read the kernel's memory", named: `read of "/proc/kcore"`,
			attack:        func(world) error { return reads("/proc/kcore") },
			hostMayRefuse: "a kernel without /proc/kcore"},
		{name: "read the kernel's messages", named: `read of "/proc/kmsg"`, attack: func(world) error {
			fd, err := unix.Open("/proc/kmsg", unix.O_RDONLY|unix.O_NONBLOCK, 0)
			return errors.Join(err, unix.Close(fd))
		}},
		{name: "set the program of core dumps", named: `write to "/proc/sys/kernel/core_pattern"`,
			attack: func(world) error { return opens("/proc/sys/kernel/core_pattern") }},
		{name: "set the program of modules", unnamed: "a kernel without modules has no such file",
			attack:        func(world) error { return opens("/proc/sys/kernel/modprobe") },
			hostMayRefuse: "a kernel without modules"},
		{name: "press sysrq", named: `write to "/proc/sysrq-trigger"`,
			attack:        func(world) error { return opens("/proc/sysrq-trigger") },
			hostMayRefuse: "a kernel without sysrq"},
		{name: "write to the kernel's devices", named: `write to "/sys/power/state"`,
			attack:        func(world) error { return opens("/sys/power/state") },
			hostMayRefuse: "a machine that cannot sleep"},
		{name: "leave the cgroup", named: `creation of "/sys/fs/cgroup/`, attack: leaveCgroup},
		{name: "make a cgroup", named: `creation of "/sys/fs/cgroup/`, attack: func(world) error {
			for _, dir := range []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup"} {
				if os.Mkdir(dir+"/dvt-planted", 0o700) == nil {
					return os.Remove(dir + "/dvt-planted")
				}
			}
			return errors.New("no cgroup could be made")
		}},
		{name: "rewrite the path while it is explained", named: `secret.txt" was refused`, attack: func(w world) error {
			return rewritePath(filepath.Join(w.Workspace, "own"), w.Secret)
		}},
		{name: "rewrite the path of a hidden file while it is explained", named: `token" was refused`,
			attack: func(w world) error { return rewritePath(filepath.Join(w.Workspace, "own"), w.Denied) }},
		{name: "list another workspace", named: "read of", attack: func(w world) error {
			_, err := os.ReadDir(filepath.Dir(w.Secret))
			return err
		}},
		{name: "see whether another workspace exists", unnamed: noLookUps, attack: func(w world) error {
			_, err := os.ReadDir(filepath.Dir(filepath.Dir(w.Secret)))
			if err != nil {
				return err
			}
			_, err = os.Stat(filepath.Dir(w.Secret))
			return err
		}},
		{name: "change the mode of a device of the machine", named: `change of the mode of "/dev/null"`,
			attack: func(world) error {
				return os.Chmod("/dev/null", 0o666)
			}},
		{name: "use an inherited descriptor", unnamed: nothingToRefuse, attack: func(world) error {
			for fd := 3; fd < 256; fd++ {
				buffer := make([]byte, 16)
				if n, err := unix.Pread(fd, buffer, 0); err == nil && string(buffer[:n]) == "secret of anothe" {
					return nil
				}
			}
			return errors.New("no descriptor leads to the secret")
		}},
		{name: "read the worker's environment as its own", unnamed: nothingToRefuse, attack: func(world) error {
			if os.Getenv("WORKER_SECRET") == "" {
				return errors.New("the secret is not in the environment")
			}
			return nil
		}},
	}
}

// symlinkRace exchanges a directory for a link to another workspace while it opens a file below it.
func symlinkRace(w world) error {
	inside, link, name := filepath.Join(w.Workspace, "in"), filepath.Join(w.Workspace, "swap"), filepath.Base(w.Secret)
	if err := errors.Join(os.MkdirAll(inside, 0o700), os.Symlink(inside, link)); err != nil {
		return err
	}
	var stop atomic.Bool
	defer stop.Store(true)
	go func() {
		for i := 0; !stop.Load(); i++ {
			next := filepath.Join(w.Workspace, "next")
			to := inside
			if i%2 == 0 {
				to = filepath.Dir(w.Secret)
			}
			_ = os.Symlink(to, next)
			_ = os.Rename(next, link)
		}
	}()
	for deadline := time.Now().Add(300 * time.Millisecond); time.Now().Before(deadline); {
		if reads(filepath.Join(link, name)) == nil {
			return nil
		}
	}
	return errors.New("the secret was never behind the link")
}

// leaveCgroup succeeds when it can move the process into the root of a hierarchy.
func leaveCgroup(world) error {
	for _, name := range []string{"/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs",
		"/sys/fs/cgroup/cgroup.procs"} {
		if os.WriteFile(name, []byte("0"), 0) == nil {
			return nil
		}
	}
	return errors.New("no cgroup could be entered")
}
