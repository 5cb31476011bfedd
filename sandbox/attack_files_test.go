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

const protectedInit = "a machine that protects its first process from root"

func fileAttempts() []attempt {
	return []attempt{
		{name: "read another workspace", attack: func(w world) error { return reads(w.Secret) }},
		{name: "read another workspace by dot dot", attack: func(w world) error {
			relative, err := filepath.Rel(w.Workspace, w.Secret)
			return errors.Join(err, reads(w.Workspace+"/"+relative))
		}},
		{name: "read another workspace by a symbolic link", attack: func(w world) error {
			link := filepath.Join(w.Workspace, "link")
			return errors.Join(os.Symlink(w.Secret, link), reads(link))
		}},
		{name: "read another workspace by a hard link", attack: func(w world) error {
			link := filepath.Join(w.Workspace, "hard")
			return errors.Join(os.Link(w.Secret, link), reads(link))
		}},
		{name: "read another workspace in a race of symbolic links", attack: symlinkRace},
		{name: "read another workspace in a race of hard links", attack: func(w world) error {
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
		{name: "read another workspace by proc self root",
			attack: func(w world) error { return reads("/proc/self/root" + w.Secret) }},
		{name: "read another workspace by proc 1 root", attack: func(w world) error {
			return reads("/proc/1/root" +
				w.Secret)
		}, hostMayRefuse: protectedInit},
		{name: "read another workspace by the victim's root",
			attack: func(w world) error { return reads(fmt.Sprintf("/proc/%d/root%s", w.Victim, w.Secret)) }},
		{name: "read another workspace by the worker's directory", attack: func(w world) error {
			_, err := os.ReadDir(fmt.Sprintf("/proc/%d/cwd/", w.Worker))
			return err
		}},
		{name: "write into another workspace", attack: func(w world) error {
			return os.WriteFile(filepath.Join(filepath.Dir(w.Secret), "planted"), nil, 0o600)
		}},
		{name: "make a link in another workspace", attack: func(w world) error {
			return os.Symlink("/etc/passwd", filepath.Join(filepath.Dir(w.Secret), filepath.Base(w.Workspace)))
		}},
		{name: "write into the project", attack: func(w world) error {
			return os.WriteFile(
				filepath.Join(w.Project, "planted"), nil, 0o600)
		}},
		{name: "read a denied file of the project", attack: func(w world) error { return reads(w.Denied) }},
		{name: "read the system's passwords", attack: func(world) error { return reads("/etc/shadow") }},
		{name: "write into the system's programs", attack: func(world) error {
			fd, err := unix.Open("/usr", unix.O_TMPFILE|unix.O_WRONLY, 0o600)
			return errors.Join(err, unix.Close(fd))
		}},
		{name: "write into the root", attack: func(world) error {
			err := os.Mkdir("/dvt-planted", 0o700)
			_ = os.Remove("/dvt-planted")
			return err
		}},
		{name: "open the machine's disk", attack: func(world) error {
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
		{name: "open the machine's memory", attack: func(world) error { return reads("/dev/mem") },
			hostMayRefuse: "a kernel without /dev/mem"},
		{name: "read the kernel's memory", attack: func(world) error { return reads("/proc/kcore") },
			hostMayRefuse: "a kernel without /proc/kcore"},
		{name: "read the kernel's messages", attack: func(world) error {
			fd, err := unix.Open("/proc/kmsg", unix.O_RDONLY|unix.O_NONBLOCK, 0)
			return errors.Join(err, unix.Close(fd))
		}},
		{name: "set the program of core dumps", attack: func(world) error { return opens("/proc/sys/kernel/core_pattern") }},
		{name: "set the program of modules", attack: func(world) error { return opens("/proc/sys/kernel/modprobe") },
			hostMayRefuse: "a kernel without modules"},
		{name: "press sysrq", attack: func(world) error { return opens("/proc/sysrq-trigger") },
			hostMayRefuse: "a kernel without sysrq"},
		{name: "write to the kernel's devices", attack: func(world) error { return opens("/sys/power/state") },
			hostMayRefuse: "a machine that cannot sleep"},
		{name: "leave the cgroup", attack: leaveCgroup},
		{name: "make a cgroup", attack: func(world) error {
			for _, dir := range []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup"} {
				if os.Mkdir(dir+"/dvt-planted", 0o700) == nil {
					return os.Remove(dir + "/dvt-planted")
				}
			}
			return errors.New("no cgroup could be made")
		}},
		{name: "list what other workspaces exist", attack: func(w world) error {
			_, err := os.ReadDir(filepath.Dir(filepath.Dir(w.Secret)))
			if err != nil {
				return err
			}
			_, err = os.Stat(filepath.Dir(w.Secret))
			return err
		}},
		{name: "use an inherited descriptor", attack: func(world) error {
			for fd := 3; fd < 256; fd++ {
				buffer := make([]byte, 16)
				if n, err := unix.Pread(fd, buffer, 0); err == nil && string(buffer[:n]) == "secret of anothe" {
					return nil
				}
			}
			return errors.New("no descriptor leads to the secret")
		}},
		{name: "read the worker's environment as its own", attack: func(world) error {
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
