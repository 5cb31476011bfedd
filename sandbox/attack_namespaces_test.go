//go:build linux

package sandbox_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

func namespaceAttempts() []attempt {
	return []attempt{
		{name: "mount a file system", named: "mount was refused", attack: func(w world) error {
			dir := filepath.Join(w.Workspace, "mnt")
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
			return unix.Mount("x", dir, "tmpfs", 0, "")
		}},
		{name: "mount the process table", named: "mount was refused", attack: func(w world) error {
			dir := filepath.Join(w.Workspace, "proc")
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
			return unix.Mount("proc", dir, "proc", 0, "")
		}},
		{name: "bind the root", named: "mount was refused", attack: func(w world) error {
			dir := filepath.Join(w.Workspace, "root")
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
			return unix.Mount("/", dir, "", unix.MS_BIND, "")
		}},
		{name: "unmount", named: "umount2", attack: func(w world) error {
			name := append([]byte(w.Workspace), 0)
			return call(unix.SYS_UMOUNT2, uintptrOf(name), 0)
		}},
		{name: "mount by descriptors", named: "fsopen", attack: func(world) error {
			fd, err := unix.Fsopen("tmpfs", 0)
			return errors.Join(err, unix.Close(fd))
		}},
		{name: "copy a mount", named: "open_tree", attack: func(world) error {
			fd, err := unix.OpenTree(unix.AT_FDCWD, "/tmp", unix.OPEN_TREE_CLONE)
			return errors.Join(err, unix.Close(fd))
		}},
		{name: "make mounts writable", named: "mount_setattr", attack: func(w world) error {
			name := append([]byte(w.Workspace), 0)
			return call(unix.SYS_MOUNT_SETATTR, ^uintptr(99), uintptrOf(name), 0, 0, 0)
		}},
		{name: "exchange the root", named: "pivot_root", attack: func(w world) error {
			name := append([]byte(w.Workspace), 0)
			return call(unix.SYS_PIVOT_ROOT, uintptrOf(name), uintptrOf(name))
		}},
		{name: "leave the root by chroot", named: "chroot", attack: func(w world) error {
			dir := filepath.Join(w.Workspace, "jail")
			if err := errors.Join(os.Mkdir(dir, 0o700), unix.Chroot(dir)); err != nil {
				return err
			}
			for range 32 {
				_ = unix.Chdir("..")
			}
			if err := unix.Chroot("."); err != nil {
				return err
			}
			return reads(w.Secret)
		}},
		{name: "make a user namespace", named: "unshare",
			attack:        func(world) error { return call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER) },
			hostMayRefuse: "a process with threads cannot"},
		{name: "make a mount namespace", named: "unshare",
			attack: func(world) error { return call(unix.SYS_UNSHARE, unix.CLONE_NEWNS) }},
		{name: "start a program in a user namespace", named: "clone with a new namespace", attack: func(world) error {
			cmd := exec.Command("/bin/true")
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
				UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
			}
			return cmd.Run()
		}},
		{name: "start a process in a namespace by clone3", unnamed: "libraries try clone3 before clone",
			attack: func(world) error {
				args := [11]uint64{unix.CLONE_NEWUSER | unix.CLONE_NEWNS, 4: uint64(unix.SIGCHLD)}
				pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptrOf64(args[:]), 88, 0)
				if errno == 0 && pid == 0 {
					_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
				}
				if errno != 0 {
					return errno
				}
				return nil
			}},
		{name: "enter the network of the host", named: "setns", attack: func(world) error {
			fd, err := unix.Open("/proc/1/ns/net", unix.O_RDONLY, 0)
			if err != nil {
				fd, err = unix.Open("/proc/self/ns/net", unix.O_RDONLY, 0)
			}
			if err != nil {
				return err
			}
			return unix.Setns(fd, unix.CLONE_NEWNET)
		}},
	}
}
