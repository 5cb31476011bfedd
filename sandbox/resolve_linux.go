package sandbox

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links the kernel follows in one path.
const maxLinks = 40

// Bounds of what the worker follows one component at a time for one path. Without them a program could choose how long
// the worker is busy, because the kernel itself stops at the first component that does not exist.
const (
	maxComponents = 512              // of the path and its links
	maxPathText   = 4 * unix.PathMax // bytes of the path and its links
	maxAncestors  = 256              // processes whose parents are read
)

// target is where a path leads in the root of the program.
type target struct {
	path    string // without links; the components after a missing one are unchanged
	missing int    // how many components at the end do not exist
	mode    uint32 // of the file; 0 when it does not exist
	foreign bool   // in the directory of a process that does not belong to the step
}

// errUnexplained is for a path that no rule of the sandbox decides, for example a pipe.
var errUnexplained = errors.New("sandbox: the path is not explained")

// errTooLong is for a path above maxComponents, maxPathText or maxAncestors.
var errTooLong = errors.New("sandbox: the path is too long to explain")

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

// resolve returns where the path of an access leads, and the path from the root of the program without resolved links.
// It returns errUnexplained when no rule decides the path, and errTooLong when it would take too long to follow it.
func (t *tree) resolve(tid int, p pathAccess, name string) (to target, full string, err error) {
	if strings.HasPrefix(name, "/") {
		to, err = t.resolveAbsolute(tid, p, name)
		return to, name, err
	}
	link := "/proc/" + strconv.Itoa(tid) + "/cwd"
	if p.dir != unix.AT_FDCWD {
		link = "/proc/" + strconv.Itoa(tid) + "/fd/" + strconv.Itoa(p.dir)
	}
	base, err := readLink(unix.AT_FDCWD, link)
	if err != nil && !errors.Is(err, unix.ENAMETOOLONG) || err == nil && !strings.HasPrefix(base, "/") {
		return target{}, "", errUnexplained
	}
	if err == nil && !strings.HasSuffix(base, removedSuffix) {
		full = joinBase(base, name)
		to, err = t.resolveAbsolute(tid, p, full)
		return to, full, err
	}
	fd, err := unix.Open(link, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return target{}, "", errUnexplained
	}
	if base = t.pathOf(fd); base != "" {
		_ = unix.Close(fd)
		full = joinBase(base, name)
		to, err = t.resolveAbsolute(tid, p, full)
		return to, full, err
	}
	to, err = t.follow(tid, p, name, fd, "")
	return to, name, err
}

func joinBase(base, name string) string {
	if name == "" {
		return base
	}
	return base + "/" + name
}

// resolveAbsolute is resolve for an absolute path. It lets the kernel follow the whole path, or else the path of the
// directory, because most paths lead to a file, or to a missing one in a directory.
func (t *tree) resolveAbsolute(tid int, p pathAccess, name string) (target, error) {
	if strings.HasPrefix(name, "/proc") {
		return t.follow(tid, p, name, t.root, "/")
	}
	fd, err := t.open(name, !p.noFollow)
	if err == nil {
		defer unix.Close(fd)
		if text := t.pathOf(fd); text != "" && !strings.HasPrefix(text, "/proc") {
			to := target{path: text}
			if p.kind == accessExecute {
				var stat unix.Stat_t
				if unix.Fstat(fd, &stat) == nil {
					to.mode = stat.Mode
				}
			}
			return to, nil
		}
	}
	dir, base := path.Split(strings.TrimRight(name, "/"))
	if errors.Is(err, unix.ENOENT) && dir != "/" && base != "." && base != ".." {
		if fd, err := t.open(dir, true); err == nil {
			if text := t.pathOf(fd); text != "" && !strings.HasPrefix(text, "/proc") {
				return t.follow(tid, p, base, fd, text)
			}
			_ = unix.Close(fd)
		}
	}
	return t.follow(tid, p, name, t.root, "/")
}

// follow follows a path one component at a time from a directory. It takes ownership of dir, unless that is the root.
func (t *tree) follow(tid int, p pathAccess, name string, dir int, at string) (target, error) {
	w := walk{tree: t, tid: tid, follow: !p.noFollow, kind: p.kind, fd: dir, at: at}
	defer func() { w.enter(t.root, "/") }()
	if err := w.prepend(name); err != nil {
		return target{}, err
	}
	return w.run()
}

// removedSuffix ends the name that the kernel gives to a removed file. A file may also have such a name.
const removedSuffix = " (deleted)"

// pathOf returns the path of a descriptor in the root of the program, or "" when the file has none or one of more than
// 4095 bytes.
func (t *tree) pathOf(fd int) string {
	text, err := readLink(unix.AT_FDCWD, descriptorPath(fd))
	if err != nil || !strings.HasPrefix(text, "/") {
		return ""
	}
	if !strings.HasSuffix(text, removedSuffix) {
		return text
	}
	named, err := t.open(text, false)
	if err != nil {
		return ""
	}
	defer unix.Close(named)
	var a, b unix.Stat_t
	if unix.Fstat(fd, &a) != nil || unix.Fstat(named, &b) != nil || a.Dev != b.Dev || a.Ino != b.Ino {
		return ""
	}
	return text
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

	fd         int      // O_PATH descriptor of the directory that the walk has reached
	at         string   // the path of fd without links; "" when it is not known
	left       []string // the remaining components, without "" and "."
	links      int
	components int         // of the path and the links so far
	text       int         // bytes of the path and the links so far
	parents    map[int]int // of the processes that were read
}

// prepend puts the components of a path in front of the remaining ones. It returns errTooLong when the walk would
// exceed its bounds.
func (w *walk) prepend(name string) error {
	if w.text += len(name); w.text > maxPathText {
		return errTooLong
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." {
			continue
		}
		if w.components++; w.components > maxComponents {
			return errTooLong
		}
		parts = append(parts, part)
	}
	w.left = append(parts, w.left...)
	return nil
}

func (w *walk) run() (target, error) {
	for len(w.left) > 0 {
		name := w.left[0]
		w.left = w.left[1:]
		if name == ".." {
			if err := w.ascend(); err != nil {
				return target{}, err
			}
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
	return w.end(w.at, 0)
}

// enter makes a descriptor the directory of the walk and closes the one before it.
func (w *walk) enter(fd int, at string) {
	if w.fd != w.tree.root {
		_ = unix.Close(w.fd)
	}
	w.fd, w.at = fd, at
}

// end returns the target of a path that exists, or errUnexplained when its path is not known.
func (w *walk) end(name string, mode uint32) (target, error) {
	if name == "" {
		if name = w.tree.pathOf(w.fd); name == "" {
			return target{}, errUnexplained
		}
	}
	return target{path: name, mode: mode}, nil
}

// ascend enters the parent of the directory.
func (w *walk) ascend() error {
	if w.at == "/" {
		return nil
	}
	fd, err := unix.Openat(w.fd, "..", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return errUnexplained
	}
	at := ""
	if w.at != "" {
		at = parentPath(w.at)
	}
	w.enter(fd, at)
	return nil
}

// step enters one component. It returns the target when the path ends there, and otherwise the zero value.
func (w *walk) step(name string) (target, error) {
	last := len(w.left) == 0
	if w.at == "" {
		w.at = w.tree.pathOf(w.fd)
	}
	if w.at == "/proc" {
		name = w.processName(name)
	}
	next := ""
	if w.at != "" {
		next = joinPath(w.at, name)
		foreign, err := w.isForeign(next, last)
		if err != nil {
			return target{}, err
		}
		if foreign {
			return target{path: path.Join(next, strings.Join(w.left, "/")), foreign: true}, nil
		}
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(w.fd, name, &how)
	if errors.Is(err, unix.ENOENT) && next != "" {
		return w.missingTarget(next), nil
	}
	if err != nil {
		return target{}, errUnexplained
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		_ = unix.Close(fd)
		return target{}, errUnexplained
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFLNK && (!last || w.follow) {
		return target{}, w.followLink(fd, name)
	}
	w.enter(fd, next)
	if last {
		return w.end(next, stat.Mode)
	}
	return target{}, nil
}

// followLink enters the directory of a link, or the file of a link that the kernel makes below /proc/PID. It takes
// ownership of fd, the link.
func (w *walk) followLink(fd int, name string) error {
	defer unix.Close(fd)
	if w.links++; w.links > maxLinks {
		return errUnexplained
	}
	if strings.HasPrefix(w.at, "/proc/") {
		file, err := unix.Openat(w.fd, name, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return errUnexplained
		}
		w.enter(file, w.tree.pathOf(file))
		return nil
	}
	to, err := readLink(fd, "")
	if err != nil {
		return errUnexplained
	}
	if strings.HasPrefix(to, "/") {
		w.enter(w.tree.root, "/")
	}
	return w.prepend(to)
}

// missingTarget returns the target of a path in which the component next does not exist. Its path ends before the
// first "..".
func (w *walk) missingTarget(next string) target {
	up := slices.Index(w.left, "..")
	if up < 0 {
		return target{path: joinPath(next, w.left...), missing: 1 + len(w.left)}
	}
	return target{path: joinPath(next, w.left[:up]...), missing: max(1+up, 2)}
}

// joinPath joins an absolute path without links and names. It does not read the whole path again, as path.Join does.
func joinPath(dir string, names ...string) string {
	if len(names) == 0 {
		return dir
	}
	return strings.TrimSuffix(dir, "/") + "/" + strings.Join(names, "/")
}

// parentPath returns the directory of an absolute path without links. It does not read the whole path, as path.Dir
// does.
func parentPath(name string) string {
	return name[:max(strings.LastIndexByte(name, '/'), 1)]
}

// processName replaces the names of /proc that depend on the process that reads them.
func (w *walk) processName(name string) string {
	switch name {
	case "self":
		return innermostID(w.tid, "NStgid:")
	case "thread-self":
		return innermostID(w.tid, "NStgid:") + "/task/" + innermostID(w.tid, "NSpid:")
	}
	return name
}

// innermostID returns the last number of a line of a thread's status: the id in its own process namespace.
func innermostID(tid int, field string) string {
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

// isForeign reports whether a path below /proc is refused because it belongs to a process outside of the step. The
// shim belongs to the sandbox, not to the step. isForeign returns errTooLong when it would read too many processes.
func (w *walk) isForeign(next string, last bool) (bool, error) {
	below, ok := strings.CutPrefix(next, "/proc/")
	if !ok {
		return false, nil
	}
	parts := strings.Split(below, "/")
	id, err := strconv.ParseUint(parts[0], 10, 31) // without a sign
	if err != nil {
		return false, nil //nolint:nilerr // it is no process
	}
	pid := int(id)
	if w.tree.own && pid != 1 {
		return len(parts) == 1 && !w.exists(next), nil
	}
	if !w.tree.own {
		own, err := w.isOfStep(pid)
		if err != nil || own || !w.exists("/proc/"+parts[0]) {
			return false, err
		}
	}
	return w.isTraced(parts, last), nil
}

// isTraced reports whether the kernel shows an entry of a process only to its tracers. The first of parts is the
// process.
func (w *walk) isTraced(parts []string, last bool) bool {
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

// isOfStep reports whether a process descends from the shim. It returns errTooLong when the walk would read the parents
// of more than maxAncestors processes.
func (w *walk) isOfStep(pid int) (bool, error) {
	for range maxAncestors {
		parent, ok := w.parents[pid]
		if !ok {
			if len(w.parents) >= maxAncestors {
				return false, errTooLong
			}
			if w.parents == nil {
				w.parents = map[int]int{}
			}
			parent = parentOf(pid)
			w.parents[pid] = parent
		}
		if parent == w.tree.shim || parent <= 1 {
			return parent == w.tree.shim, nil
		}
		pid = parent
	}
	return false, errTooLong
}

// parentOf returns the parent of a process, or 0 when there is none.
func parentOf(pid int) int {
	parent := 0
	eachLine(fmt.Sprintf("/proc/%d/status", pid), func(line string) {
		if value, ok := strings.CutPrefix(line, "PPid:"); ok {
			parent, _ = strconv.Atoi(strings.TrimSpace(value))
		}
	})
	return parent
}
