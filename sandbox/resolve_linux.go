package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links the kernel follows in one path.
const maxLinks = 40

// target is where a path leads in the root of the program.
type target struct {
	path    string // without links; the components after a missing one are unchanged
	missing int    // how many components at the end do not exist
	mode    uint32 // of the file; 0 when it does not exist
	foreign bool   // in the directory of a process that does not belong to the step
}

// errUnexplained is for a path that no rule of the sandbox decides, for example a pipe.
var errUnexplained = errors.New("sandbox: the path is not explained")

// tree resolves paths as a program of the sandbox sees them. It opens nothing but descriptors that can neither be read
// nor written, so that no file notices it.
type tree struct {
	root int  // O_PATH descriptor of the program's root
	shim int  // process id of the shim in this process namespace
	own  bool // the program has its own process namespace, in which the shim is the process 1
}

func (t *tree) close() { _ = unix.Close(t.root) }

func (t *tree) open(name string, follow bool) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if !follow {
		how.Flags |= unix.O_NOFOLLOW
	}
	return unix.Openat2(t.root, name, &how)
}

// resolve returns where an absolute path of a thread leads. It returns errUnexplained when no rule decides the path.
func (t *tree) resolve(tid int, name string, follow bool, kind accessKind) (target, error) {
	if !strings.HasPrefix(name, "/proc") {
		if fd, err := t.open(name, follow); err == nil {
			defer unix.Close(fd)
			text, err := readLink(unix.AT_FDCWD, descriptorPath(fd))
			if err == nil && !strings.HasPrefix(text, "/proc") {
				p := target{path: text}
				if kind == accessExecute {
					var stat unix.Stat_t
					if unix.Fstat(fd, &stat) == nil {
						p.mode = stat.Mode
					}
				}
				return p, nil
			}
		}
	}
	w := walk{tree: t, tid: tid, follow: follow, kind: kind, at: "/", left: strings.Split(name, "/")}
	return w.run()
}

func descriptorPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// readLink returns the target of a symbolic link that is at most 4095 bytes long.
func readLink(dir int, name string) (string, error) {
	var buffer [unix.PathMax]byte
	n, err := unix.Readlinkat(dir, name, buffer[:])
	if err != nil {
		return "", err
	}
	return string(buffer[:n]), nil
}

// walk follows a path one component at a time.
type walk struct {
	tree   *tree
	tid    int
	follow bool
	kind   accessKind

	at    string   // without links
	left  []string // the remaining components
	links int
}

func (w *walk) run() (target, error) {
	for len(w.left) > 0 {
		name := w.left[0]
		w.left = w.left[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			w.at = filepath.Dir(w.at)
			continue
		}
		done, err := w.step(name)
		if err != nil {
			return target{}, err
		}
		if done != (target{}) {
			return done, nil
		}
	}
	return target{path: w.at}, nil
}

// step enters one component. It returns the target when the path ends there, and otherwise the zero value.
func (w *walk) step(name string) (target, error) {
	last := w.isLast()
	if w.at == "/proc" {
		name = w.processName(name)
	}
	next := path.Join(w.at, name)
	if w.protected(next, last) {
		return target{path: path.Join(next, path.Join(w.left...)), foreign: true}, nil
	}
	fd, err := w.tree.open(next, false)
	if errors.Is(err, unix.ENOENT) {
		return w.absent(next), nil
	}
	if err != nil {
		return target{}, errUnexplained
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return target{}, errUnexplained
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFLNK || last && !w.follow {
		w.at = next
		if last {
			return target{path: next, mode: stat.Mode}, nil
		}
		return target{}, nil
	}
	to, err := readLink(fd, "")
	if w.links++; err != nil || w.links > maxLinks || strings.HasSuffix(to, " (deleted)") {
		return target{}, errUnexplained
	}
	magic := strings.HasPrefix(w.at, "/proc/") && !strings.HasPrefix(to, "/")
	if magic && strings.Contains(to, ":[") {
		return target{}, errUnexplained // for example pipe:[4711]
	}
	if strings.HasPrefix(to, "/") {
		w.at = "/"
	}
	w.left = append(strings.Split(to, "/"), w.left...)
	return target{}, nil
}

func (w *walk) isLast() bool {
	for _, name := range w.left {
		if name != "" && name != "." {
			return false
		}
	}
	return true
}

// absent returns the target of a path in which the component next does not exist.
func (w *walk) absent(next string) target {
	p := target{path: next, missing: 1}
	for _, name := range w.left {
		switch name {
		case "", ".":
		case "..":
			p.missing = max(p.missing, 2)
			return p
		default:
			p.path, p.missing = path.Join(p.path, name), p.missing+1
		}
	}
	return p
}

// processName replaces the names of /proc that depend on the process that reads them.
func (w *walk) processName(name string) string {
	switch name {
	case "self":
		return innermost(w.tid, "NStgid:")
	case "thread-self":
		return innermost(w.tid, "NStgid:") + "/task/" + innermost(w.tid, "NSpid:")
	}
	return name
}

// innermost returns the last number of a line of a thread's status: the id in its own process namespace.
func innermost(tid int, field string) string {
	id := "self"
	eachLine(fmt.Sprintf("/proc/%d/status", tid), func(line string) {
		if ids, ok := strings.CutPrefix(line, field); ok {
			if all := strings.Fields(ids); len(all) > 0 {
				id = all[len(all)-1]
			}
		}
	})
	return id
}

// The entries of a process that the kernel shows to its tracers only.
var (
	tracedFiles = map[string]bool{"environ": true, "mem": true, "maps": true, "smaps": true, "smaps_rollup": true,
		"numa_maps": true, "auxv": true, "pagemap": true, "io": true, "personality": true, "stack": true, "syscall": true}
	tracedLinks = map[string]bool{"root": true, "cwd": true, "exe": true}
	tracedDirs  = map[string]bool{"fd": true, "fdinfo": true, "ns": true, "map_files": true}
)

// protected reports whether a path below /proc is refused because it belongs to a process outside of the step. The
// shim belongs to the sandbox, not to the step.
func (w *walk) protected(next string, last bool) bool {
	below, ok := strings.CutPrefix(next, "/proc/")
	if !ok {
		return false
	}
	parts := strings.Split(below, "/")
	pid, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	if w.tree.own && pid != 1 {
		return len(parts) == 1 && !w.exists(next)
	}
	if !w.tree.own && (pid != w.tree.shim && isBelow(pid, w.tree.shim) || !w.exists("/proc/"+parts[0])) {
		return false
	}
	if len(parts) > 2 && parts[1] == "task" {
		parts = parts[2:]
	}
	switch {
	case len(parts) < 2:
		return false
	case tracedFiles[parts[1]]:
		return w.kind != accessLookUp
	case tracedLinks[parts[1]]:
		return !last || w.follow || w.kind == accessRead
	}
	return tracedDirs[parts[1]] && len(parts) > 2 && (w.follow || w.kind != accessLookUp)
}

func (w *walk) exists(name string) bool {
	fd, err := w.tree.open(name, false)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// isBelow reports whether a process descends from root.
func isBelow(pid, root int) bool {
	for range 1 << 10 {
		if pid == root {
			return true
		}
		parent := 0
		eachLine(fmt.Sprintf("/proc/%d/status", pid), func(line string) {
			if value, ok := strings.CutPrefix(line, "PPid:"); ok {
				parent, _ = strconv.Atoi(strings.TrimSpace(value))
			}
		})
		if parent <= 1 {
			return false
		}
		pid = parent
	}
	return false
}

// absolute returns the path of an access from the root of the program.
func absolute(tid int, p pathAccess, name string) (string, error) {
	if strings.HasPrefix(name, "/") {
		return name, nil
	}
	base := "/proc/" + strconv.Itoa(tid) + "/cwd"
	if p.dir != unix.AT_FDCWD {
		base = "/proc/" + strconv.Itoa(tid) + "/fd/" + strconv.Itoa(p.dir)
	}
	dir, err := os.Readlink(base)
	if err != nil || !strings.HasPrefix(dir, "/") {
		return "", errUnexplained
	}
	if name == "" {
		return dir, nil
	}
	return strings.TrimSuffix(dir, " (deleted)") + "/" + name, nil
}
