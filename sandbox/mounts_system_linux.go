package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// deviceNames are the devices that every program may use.
func deviceNames() []string { return []string{"null", "zero", "full", "random", "urandom"} }

// openDevices returns copies of the mounts of the devices, in the order of deviceNames.
func openDevices() ([]int, error) {
	var fds []int
	for _, name := range deviceNames() {
		fd, err := unix.OpenTree(unix.AT_FDCWD, "/dev/"+name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("mounts: /dev/%s: %w", name, err)
		}
		// A read-only mount lets programs write to a device. It keeps root from changing the mode of the machine's device.
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC | unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
			return nil, fmt.Errorf("mounts: protect /dev/%s: %w", name, err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// hiddenProcFiles and hiddenProcDirs are the entries of /proc that tell about the machine and its other processes.
func hiddenProcFiles() []string {
	return []string{
		"kcore", "keys", "key-users", "timer_list", "sched_debug", "sysrq-trigger", "kallsyms", "kmsg", "vmallocinfo",
		"slabinfo", "pagetypeinfo", "iomem", "ioports", "modules", "interrupts", "config.gz", "latency_stats",
	}
}

func hiddenProcDirs() []string { return []string{"acpi", "scsi", "bus", "fs", "irq", "tty", "driver"} }

// mountProc mounts the process table of the shim's own process namespace. All of it is read-only: root may change the
// kernel's settings there, and the program is root when the worker is.
func mountProc(at string) error {
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if err := unix.Mount("proc", at, "proc", flags, ""); err != nil {
		return fmt.Errorf("mounts: /proc: %w", err)
	}
	for _, name := range hiddenProcFiles() {
		if hasFile(at + "/" + name) {
			if err := unix.Mount(newRoot+"/dev/hidden", at+"/"+name, "", unix.MS_BIND, ""); err != nil {
				return fmt.Errorf("mounts: hide /proc/%s: %w", name, err)
			}
		}
	}
	for _, name := range hiddenProcDirs() {
		if hasFile(at + "/" + name) {
			if err := hide(at + "/" + name); err != nil {
				return fmt.Errorf("mounts: hide /proc/%s: %w", name, err)
			}
		}
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, at, unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("mounts: protect /proc: %w", err)
	}
	return nil
}
