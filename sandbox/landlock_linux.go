package sandbox

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	landlockRead = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landlockRun  = landlockRead | unix.LANDLOCK_ACCESS_FS_EXECUTE
	// landlockDevice holds the rights on the devices of deviceNames.
	landlockDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	landlockV1     = landlockRun | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	// landlockFiles are the rights that a rule for a file, not a directory, may hold.
	landlockFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// landlockRule permits rights below a path.
type landlockRule struct {
	Path   string
	Access uint64
}

// landlockABI returns the version of Landlock's ABI that the kernel supports, or 0.
func landlockABI() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

// landlockAll returns every right on files that an ABI knows. An ABI before 5 does not restrict ioctl on devices.
func landlockAll(abi int) uint64 {
	all := uint64(landlockV1)
	if abi >= 2 {
		all |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		all |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 5 {
		all |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return all
}

// landlockWrite returns the rights on a directory that a program may change. They exclude devices.
func landlockWrite(abi int) uint64 {
	return landlockAll(abi) &^ (unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)
}

// landlockConnects is the first ABI with which Landlock can refuse TCP connections.
const landlockConnects = 4

// restrict applies Landlock to the calling thread and its later children. It also refuses every TCP connection that the
// program makes by itself, because the worker's supervisor makes the permitted ones. A connect that the supervisor
// leaves to the kernel thus cannot become a TCP connection, even if the program swaps socket and address in between.
func restrict(s *spec) error {
	if s.Landlock == 0 {
		return nil
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: landlockAll(s.Landlock)}
	size := unsafe.Sizeof(attr.Handled_access_fs)
	if s.Landlock >= landlockConnects {
		size = unsafe.Offsetof(attr.Scoped)
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if s.Landlock >= 6 {
		size = unsafe.Offsetof(attr.Scoped) + unsafe.Sizeof(attr.Scoped)
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("landlock: create: %w", errno)
	}
	defer unix.Close(int(ruleset))
	for _, r := range s.Rules {
		if err := addLandlockRule(int(ruleset), r, attr.Handled_access_fs); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return fmt.Errorf("landlock: restrict: %w", errno)
	}
	return nil
}

// addLandlockRule adds one rule. It skips paths that do not exist, because not every system has all of them.
func addLandlockRule(ruleset int, r landlockRule, handled uint64) error {
	fd, err := unix.Open(r.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("landlock: %s: %w", r.Path, err)
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("landlock: %s: %w", r.Path, err)
	}
	access := r.Access & handled
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= landlockFiles
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("landlock: rule of %s: %w", r.Path, errno)
	}
	return nil
}
