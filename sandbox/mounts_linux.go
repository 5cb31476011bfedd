package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mountKind is how a path appears in the root of a step.
type mountKind string

const (
	mountRead   mountKind = "read"   // a read-only bind mount
	mountWrite  mountKind = "write"  // a bind mount
	mountHide   mountKind = "hide"   // an empty directory or file over the path
	mountLink   mountKind = "link"   // the system's own symbolic link, for example /bin
	mountSystem mountKind = "system" // as read, but skipped when the path is absent or leads through a link
)

// mount is one path of the root of a step.
type mount struct {
	Path string
	Kind mountKind
	To   string `json:",omitempty"` // target of a link
}

// systemMounts returns the mounts for Config.Read. It skips paths that do not exist.
func systemMounts(paths []string) []mount {
	var mounts []mount
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err != nil {
			continue
		}
		if info.Mode()&os.ModeSymlink != 0 {
			if to, err := os.Readlink(path); err == nil {
				mounts = append(mounts, mount{Path: path, Kind: mountLink, To: to})
			}
			continue
		}
		mounts = append(mounts, mount{Path: path, Kind: mountSystem})
	}
	return mounts
}

// orderMounts sorts by depth, so that a deeper path overrides the paths above it. The later of two entries for one path
// wins. Hidden paths that no other mount would show are dropped.
func orderMounts(mounts []mount) []mount {
	last := map[string]mount{}
	for _, m := range mounts {
		last[m.Path] = m
	}
	var out []mount
	for _, m := range last {
		if m.Kind == mountHide && !isShown(m.Path, last) {
			continue
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b mount) int {
		if d := strings.Count(a.Path, "/") - strings.Count(b.Path, "/"); d != 0 {
			return d
		}
		return strings.Compare(a.Path, b.Path)
	})
	return out
}

func isShown(path string, mounts map[string]mount) bool {
	for at := path; at != "/"; at = filepath.Dir(at) {
		if m, ok := mounts[at]; ok && m.Kind != mountHide && m.Kind != mountLink {
			return true
		}
	}
	return false
}

// newRoot is the directory on which the shim builds the root. Any existing directory serves, because it is covered only
// in the shim's namespace.
const newRoot = "/tmp"

// buildRoot creates and enters a root in the shim's mount namespace. It holds the mounts of the description and the
// system directories /dev, /proc and /tmp.
func buildRoot(s *spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts: make the root private: %w", err)
	}
	// Sources are opened before the new root covers anything.
	sources := make([]int, len(s.Mounts))
	for i, m := range s.Mounts {
		var err error
		if sources[i], err = openTree(m); err != nil {
			return err
		}
	}
	devices, err := openDevices()
	if err != nil {
		return err
	}
	if err := unix.Mount("root", newRoot, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV,
		"size=1m,nr_inodes=4096,mode=0755"); err != nil {
		return fmt.Errorf("mounts: root: %w", err)
	}
	if err := makeSystemDirs(s, devices); err != nil {
		return err
	}
	for i, m := range s.Mounts {
		if err := place(m, sources[i]); err != nil {
			return fmt.Errorf("mounts: %s: %w", m.Path, err)
		}
	}
	// Hidden paths become read-only last, because a visible path below a hidden one needed a directory in it.
	for _, m := range s.Mounts {
		if m.Kind != mountHide {
			continue
		}
		err := unix.Mount(
			"", newRoot+m.Path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // not covered: it does not exist
			return fmt.Errorf("mounts: hide %s: %w", m.Path, err)
		}
	}
	if err := writeResolver(); err != nil {
		return err
	}
	return enterRoot()
}

// openTree returns a descriptor of a detached copy of the mount tree at a path, or -1 for mounts without a source.
func openTree(m mount) (int, error) {
	if m.Kind == mountHide || m.Kind == mountLink {
		return -1, nil
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, m.Path, &how)
	switch {
	case errors.Is(err, unix.ELOOP) && m.Kind != mountSystem:
		return -1, &pathError{fmt.Sprintf("%q leads through a symbolic link; name the target of the link", m.Path)}
	case err != nil && m.Kind == mountSystem:
		return -1, nil
	case err != nil:
		return -1, &pathError{fmt.Sprintf("%q: %s", m.Path, err)}
	}
	defer unix.Close(fd)
	tree, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("mounts: open %s: %w", m.Path, err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if m.Kind != mountWrite {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return -1, fmt.Errorf("mounts: protect %s: %w", m.Path, err)
	}
	return tree, nil
}

// pathError becomes ErrPath in the worker.
type pathError struct{ text string }

func (e *pathError) Error() string { return e.text }

// place puts a mount below newRoot.
func place(m mount, tree int) error {
	target := newRoot + m.Path
	switch {
	case m.Kind == mountLink:
		return os.Symlink(m.To, target)
	case m.Kind == mountHide:
		return hide(target)
	case tree < 0:
		return nil
	}
	defer unix.Close(tree)
	var stat unix.Stat_t
	if err := unix.Fstat(tree, &stat); err != nil {
		return err
	}
	if err := makeTarget(m.Path, stat.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	return nil
}

// makeTarget creates the file or directory that a mount covers. Below a read-only mount the target exists already,
// because it is the same tree. Every component is checked for links: a program of an earlier step may have planted them
// in a writable tree.
func makeTarget(path string, dir bool) error {
	at := newRoot
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, part := range parts {
		at += "/" + part
		info, err := os.Lstat(at)
		switch {
		case err == nil && info.Mode()&os.ModeSymlink != 0:
			return &pathError{fmt.Sprintf("%q leads through a symbolic link", path)}
		case err == nil:
			continue
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if i == len(parts)-1 && !dir {
			err = os.WriteFile(at, nil, 0o444)
		} else {
			err = os.Mkdir(at, 0o755)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hide covers a path below newRoot with an empty directory or file. A path that does not exist needs no cover.
func hide(target string) error {
	info, err := os.Lstat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&os.ModeSymlink != 0:
		return nil // a link shows nothing that its target does not show
	case info.IsDir():
		return unix.Mount("hidden", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
			"size=64k,nr_inodes=256,mode=0755")
	}
	return unix.Mount(newRoot+"/dev/hidden", target, "", unix.MS_BIND, "")
}

// makeSystemDirs creates /dev, /proc and /tmp of the step.
func makeSystemDirs(s *spec, devices []int) error {
	for _, dir := range []string{"/dev", "/dev/shm", "/proc", "/tmp", "/old"} {
		if err := os.Mkdir(newRoot+dir, 0o755); err != nil {
			return fmt.Errorf("mounts: %w", err)
		}
	}
	for i, name := range deviceNames() {
		target := newRoot + "/dev/" + name
		if err := os.WriteFile(target, nil, 0o444); err != nil {
			return fmt.Errorf("mounts: %w", err)
		}
		if err := unix.MoveMount(devices[i], "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("mounts: /dev/%s: %w", name, err)
		}
		_ = unix.Close(devices[i])
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
		"stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, newRoot+"/dev/"+name); err != nil {
			return fmt.Errorf("mounts: %w", err)
		}
	}
	// An empty file without permissions. Paths that it covers cannot be read.
	if err := os.WriteFile(newRoot+"/dev/hidden", nil, 0o000); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	for _, dir := range []string{"/tmp", "/dev/shm"} {
		options := fmt.Sprintf("size=%d,nr_inodes=262144,mode=1777", s.Tmp)
		if err := unix.Mount("tmp", newRoot+dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
			return fmt.Errorf("mounts: %s: %w", dir, err)
		}
	}
	return mountProc(newRoot + "/proc")
}

// writeResolver covers the files that configure name resolution, because the worker answers look-ups on the step's
// loopback.
func writeResolver() error {
	files := map[string]string{
		"resolv.conf": "nameserver 127.0.0.1\noptions timeout:5 attempts:2\n",
		"hosts":       "127.0.0.1 localhost step\n::1 localhost ip6-localhost\n",
		"hostname":    "step\n",
	}
	for name, text := range files {
		source, target := newRoot+"/dev/"+name, newRoot+"/etc/"+name
		info, err := os.Stat(filepath.Dir(target))
		if err != nil || !info.IsDir() {
			continue
		}
		info, err = os.Lstat(target)
		if err == nil && info.Mode()&os.ModeSymlink != 0 {
			if target, err = linkTarget(target); err != nil {
				return err
			}
		} else if err != nil {
			continue
		}
		if err := os.WriteFile(source, []byte(text), 0o444); err != nil {
			return fmt.Errorf("mounts: %w", err)
		}
		if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounts: /etc/%s: %w", name, err)
		}
		if err := unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV,
			""); err != nil {
			return fmt.Errorf("mounts: protect /etc/%s: %w", name, err)
		}
	}
	return nil
}

// linkTarget creates the file that a link of /etc names, for example /run/systemd/resolve/stub-resolv.conf.
func linkTarget(link string) (string, error) {
	to, err := os.Readlink(link)
	if err != nil {
		return "", fmt.Errorf("mounts: %w", err)
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(strings.TrimPrefix(filepath.Dir(link), newRoot), to)
	}
	if err := makeTarget(filepath.Clean(to), false); err != nil {
		return "", fmt.Errorf("mounts: %s: %w", to, err)
	}
	return newRoot + filepath.Clean(to), nil
}

// enterRoot makes newRoot the root, detaches the old one and makes the new one read-only.
func enterRoot() error {
	if err := os.Chdir(newRoot); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	if err := unix.PivotRoot(".", "old"); err != nil {
		return fmt.Errorf("mounts: pivot_root: %w", err)
	}
	if err := unix.Unmount("/old", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("mounts: drop the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	if err := os.Remove("/old"); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV,
		""); err != nil {
		return fmt.Errorf("mounts: protect the root: %w", err)
	}
	return nil
}
