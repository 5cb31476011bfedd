package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dvt-engine/dvt/plan"
)

// maxShownPath bounds a path in the step's log, in bytes.
const maxShownPath = 512

// rights are the permissions of a program on the files below a path.
type rights uint8

const (
	rightsNone   rights = iota // the sandbox does not show the path
	rightsHidden               // the worker covers the path
	rightsRead
	rightsDevice
	rightsWrite
)

// explainer names the accesses to files that the kernel will refuse. It never decides one: a program may change a path
// while it is read, so the kernel carries out each call, and mounts and Landlock refuse it. The explainer applies their
// rules to the path that it read. Only the thread of the supervisor may use it, because the allowance measures the time
// of that thread.
type explainer struct {
	tree       tree
	rights     map[string]rights // by path; the longest one above a path decides
	hidden     map[string]bool   // paths that the worker hides
	covers     map[string]bool   // those of them that a mount covers, because another mount shows them
	scaffold   map[string]bool   // directories that exist only because a mount lies below them
	allowance  allowance
	violations *violations
	uid, gid   int
	disk       int64
	started    atomic.Bool // the program runs, so its memory can be read

	// valid reports whether the caller still waits. Otherwise its thread id may belong to another program.
	valid func(*notification) bool
}

// newExplainer derives the rules from the description of the sandbox. It takes ownership of root.
func newExplainer(s *spec, root, shim int, v *violations) *explainer {
	e := &explainer{
		tree: tree{root: root, shim: shim, own: s.Level.Space}, rights: map[string]rights{}, hidden: map[string]bool{},
		covers: map[string]bool{}, scaffold: map[string]bool{}, allowance: newAllowance(), violations: v, uid: s.UID,
		gid: s.GID, disk: s.Disk,
	}
	e.rights["/"], e.rights["/proc"] = rightsNone, rightsRead
	for _, name := range deviceNames() {
		e.rights["/dev/"+name] = rightsDevice
	}
	if s.Level.Space {
		e.rights["/tmp"], e.rights["/dev/shm"], e.rights["/dev/hidden"] = rightsWrite, rightsWrite, rightsHidden
		for _, name := range slices.Concat(hiddenProcFiles(), hiddenProcDirs()) {
			e.rights["/proc/"+name] = rightsHidden
		}
		for _, name := range s.Hidden {
			e.rights[name] = rightsHidden
		}
	}
	for _, name := range s.Hidden {
		e.hidden[name] = true
	}
	for _, m := range s.Mounts {
		switch m.Kind {
		case mountRead, mountSystem:
			e.rights[m.Path] = rightsRead
		case mountWrite:
			e.rights[m.Path] = rightsWrite
		case mountHide:
			e.hidden[m.Path], e.covers[m.Path] = true, true
			if s.Level.Space {
				e.rights[m.Path] = rightsHidden
			}
			continue
		case mountLink:
			continue
		}
		for dir := path.Dir(m.Path); dir != "/"; dir = path.Dir(dir) {
			e.scaffold[dir] = true
		}
	}
	delete(e.scaffold, "/tmp")
	return e
}

// of returns the rights on a path and the path of their rule.
func (e *explainer) of(name string) (rights, string) {
	for {
		if r, ok := e.rights[name]; ok || name == "/" {
			return r, name
		}
		name = parentPath(name)
	}
}

// isHidden reports whether the worker hides a path, or a path between it and the rule that decides it.
func (e *explainer) isHidden(name, rule string) bool {
	for ; name != "/"; name = parentPath(name) {
		if e.hidden[name] {
			return true
		}
		if name == rule {
			break
		}
	}
	return false
}

// isOwnInTmp reports whether an access below a hidden path that no mount covers is one to the step's own files. Such a
// path exists in the private /tmp when a mount lies below it, and the step may create files there.
func (e *explainer) isOwnInTmp(kind accessKind, to target, rule string) bool {
	if e.covers[rule] || rule == "/dev/hidden" || strings.HasPrefix(rule, "/proc/") {
		return false
	}
	if to.missing == 0 && !kind.changes() {
		return true // a directory above a mount, or a file that the step created
	}
	private := strings.HasPrefix(rule, "/tmp/") || strings.HasPrefix(rule, "/dev/shm/")
	return private && (to.missing == 0 || to.missing == 1 && kind == accessCreate)
}

// explain adds a line for the first path of a call for which the kernel will refuse it.
func (e *explainer) explain(n *notification, call fileCall) {
	if e.violations.filesAreFull() || !e.hasTime() {
		return
	}
	defer e.charge()
	tid := int(n.PID)
	one, two := call(&n.Args, func(at uint64, into []byte) error { return readMemory(tid, at, into) })
	for _, p := range [...]pathAccess{one, two} {
		if p.kind != accessNone && e.explainPath(n, p) {
			return
		}
	}
}

// explainPath reports whether the kernel will refuse the access.
func (e *explainer) explainPath(n *notification, p pathAccess) bool {
	tid := int(n.PID)
	var name string
	if p.name != 0 {
		var err error
		if name, err = readPath(tid, p.name); err != nil {
			e.noteUnreadable(n, err)
			return false
		}
		if name == "" && !p.empty {
			return false // the kernel answers ENOENT
		}
	}
	return e.add(n, e.reason(tid, p, name))
}

// hasTime reports whether the program has processor time left for an explanation. The first time that it has none, a
// line says so. After true, the caller calls charge once it has explained.
func (e *explainer) hasTime() bool {
	if e.allowance.begin(time.Now(), threadTime()) {
		return true
	}
	e.violations.addFile("time", incomplete("the program uses files faster than the worker explains them, so some "+
		"refused files have no line"))
	return false
}

func (e *explainer) charge() { e.allowance.end(threadTime()) }

// incomplete returns a line that says why the log lacks lines. It is a notice, because operators count refusals.
func incomplete(action string) Violation {
	return Violation{Part: plan.SandboxFiles, Action: action, Notice: true}
}

// add adds a line unless the reason is zero or the caller no longer waits. It reports whether there is a reason.
func (e *explainer) add(n *notification, r reason) bool {
	if r == (reason{}) {
		return false
	}
	if e.valid(n) {
		e.violations.addFile(r.key, r.Violation)
	}
	return true
}

// noteUnreadable adds a line when a program closed its memory to the worker, because its refused files then have none.
func (e *explainer) noteUnreadable(n *notification, err error) {
	if errnoOf(err) == unix.EPERM && e.started.Load() && e.valid(n) {
		e.violations.addFile("memory", incomplete("a program closed its memory to the worker, so its refused files are "+
			"not named"))
	}
}

// reason says why an access is refused. The zero value means that the sandbox does not refuse it.
type reason struct {
	key string // accesses with the same key have one line
	Violation
}

func (e *explainer) reason(tid int, p pathAccess, name string) reason {
	to, full, err := e.tree.resolve(tid, p, name)
	if errors.Is(err, errTooLong) {
		return reason{"length", incomplete(fmt.Sprintf("a path takes too long to follow: with its links it has more than "+
			"%d components, %d bytes or %d processes, so refused files of such paths have no line", maxComponents,
			maxPathText, maxAncestors))}
	}
	if err != nil {
		return reason{}
	}
	if p.creates && to.missing > 0 {
		p.kind = accessCreate
	}
	r := reason{p.kind.String() + " " + quotePath(to.path), Violation{Part: plan.SandboxFiles}}
	shown := shownPath(name, full, to)
	why := e.judge(p, to, &r)
	if why == "" && p.kind == accessExecute && to.mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		r.Part, r.Notice = plan.SandboxSyscalls, true
		r.Action = fmt.Sprintf("%s runs without privileges: the sandbox ignores its set-user-id and set-group-id bits",
			quotePath(shown))
		return r
	}
	if why == "" {
		return reason{}
	}
	r.Action = fmt.Sprintf("%s %s was refused: %s", p.kind, quotePath(shown), why)
	if to.path != shown && !to.foreign {
		r.Action = fmt.Sprintf("%s %s, which leads to %s, was refused: %s", p.kind, quotePath(shown), quotePath(to.path), why)
	}
	return r
}

// shownPath returns the path for the step's log: from the root and without "..". Where a link stands before "..", only
// the kernel's result is right, so the path is shown as the program passed it.
func shownPath(name, full string, to target) string {
	shown := path.Clean(full)
	if shown == to.path || strings.HasPrefix(full, "/") && !slices.Contains(strings.Split(full, "/"), "..") {
		return shown
	}
	return name
}

// judge returns why the kernel will refuse an access, or "". It may change the part and the key of r.
func (e *explainer) judge(p pathAccess, to target, r *reason) string {
	if to.foreign {
		r.Part = plan.SandboxProcesses
		return "the step has only its own processes"
	}
	if why := e.judgeArguments(p, to); why != "" {
		return why
	}
	got, rule := e.of(to.path)
	if got == rightsWrite && to.missing > 0 && e.scaffold[existingParent(to)] && (to.missing > 1 ||
		p.kind != accessCreate) {
		got = rightsNone // beside a mount in the private /tmp
	}
	switch {
	case p.kind == accessCreate && to.missing == 0: // EEXIST, whether or not the step may create files there
		return ""
	case got == rightsWrite, got == rightsDevice && !p.kind.describes() && !p.kind.removes():
		return ""
	case to.path == terminal && p.kind.opens():
		return ""
	case !e.tree.own:
		return e.judgeLandlock(p.kind, got, to, rule)
	case got == rightsHidden && p.kind == accessLookUp && to.missing == 0: // the cover exists
		return ""
	case got == rightsHidden && e.isOwnInTmp(p.kind, to, rule):
		return ""
	case got == rightsHidden && strings.HasPrefix(rule, "/proc/"), got == rightsHidden && rule == "/dev/hidden":
		return "the sandbox hides it from every step"
	case got == rightsHidden:
		return hiddenText
	case got == rightsRead || got == rightsDevice:
		return readOnly(p.kind, to, rule)
	case to.missing == 0 && !p.kind.changes(): // a directory of the root itself
		return ""
	}
	if !p.kind.changes() && isQuiet(to.path) {
		return ""
	}
	return outsideReason(p.kind, to)
}

// judgeArguments returns why an access is refused regardless of its path, or "".
func (e *explainer) judgeArguments(p pathAccess, to target) string {
	const unchanged = ^uint32(0)
	switch {
	case to.missing > 0:
	case p.kind == accessOwner && (p.owner != unchanged && p.owner != uint32(e.uid) ||
		p.group != unchanged && p.group != uint32(e.gid)):
		return "a step cannot give files to another user or group"
	case p.kind == accessTruncate && p.size > e.disk:
		return fmt.Sprintf("the size is above the limit of %d bytes (sandbox.disk)", e.disk)
	}
	return ""
}

// judgeLandlock returns why Landlock alone will refuse an access, or "". It restricts neither the look-up of a path nor
// changes of its description.
func (e *explainer) judgeLandlock(kind accessKind, got rights, to target, rule string) string {
	switch {
	case kind == accessLookUp || kind == accessConnect || kind.describes():
		return ""
	case got == rightsRead && kind.changes() && (to.missing == 0 || to.missing == 1 && kind == accessCreate):
		return readOnlyText
	case got == rightsDevice:
		return deviceText
	case got == rightsRead:
		return ""
	case !kind.changes() && isQuiet(to.path):
		return ""
	case e.isHidden(to.path, rule):
		return hiddenText
	}
	return outsideReason(kind, to)
}

const (
	readOnlyText = "the step may only read it; if the step must change it, list it in sandbox.write"
	deviceText   = "a step cannot change devices"
	hiddenText   = "the worker hides this path from every step"
)

// readOnly returns why a read-only mount refuses an access, or "".
func readOnly(kind accessKind, to target, rule string) string {
	switch {
	case !kind.changes(),
		to.missing > 1,
		to.missing == 1 && kind != accessCreate && kind != accessRemove && kind != accessRename:
		return ""
	case rule == "/proc":
		return "the sandbox has a read-only /proc"
	case strings.HasPrefix(rule, "/dev/"):
		return deviceText
	}
	return readOnlyText
}

// outsideReason returns the reason for a path that the sandbox does not show. The reason is the same whether or not the
// path exists outside.
func outsideReason(kind accessKind, to target) string {
	field, setting := "sandbox.read", "sandbox-read"
	if kind.changes() {
		field, setting = "sandbox.write", "sandbox-write"
	}
	switch {
	case strings.HasPrefix(to.path, "/dev/"):
		return "the sandbox has only the devices " + strings.Join(deviceNames(), ", ")
	case path.Dir(to.path) == "/" && kind.changes():
		return "the root of the sandbox is read-only; list a directory in " + field
	}
	return fmt.Sprintf("it is outside of the sandbox of the step; if the step needs it, list it in %s, or ask the "+
		"operator for %s", field, setting)
}

// existingParent returns the deepest directory above a target that exists.
func existingParent(to target) string {
	name := to.path
	for range to.missing {
		name = parentPath(name)
	}
	return name
}

// terminal is opened by shells and many tools on their own, also for writing. Opens of it have no line.
const terminal = "/dev/tty"

// quietPaths are looked up by run-time systems and the C library on their own. Reads of them have no line.
var quietPaths = []string{
	"/sys/fs/cgroup", "/sys/devices/system", "/sys/kernel/mm", "/run/nscd", "/var/run/nscd",
}

func isQuiet(name string) bool {
	for _, quiet := range quietPaths {
		if name == quiet || strings.HasPrefix(name, quiet+"/") {
			return true
		}
	}
	return false
}

// quotePath returns a path without control characters and invalid UTF-8, cut to maxShownPath bytes.
func quotePath(name string) string {
	if len(name) > maxShownPath {
		return fmt.Sprintf("%q…", name[:maxShownPath])
	}
	return fmt.Sprintf("%q", name)
}

// explainSocket explains an access to the path in the address of a Unix socket.
func (e *explainer) explainSocket(n *notification, kind accessKind) {
	var address [unix.SizeofSockaddrUnix]byte
	if e.violations.filesAreFull() {
		return
	}
	length := min(int(int32(n.Args[2])), len(address))
	if length < 4 || readMemory(int(n.PID), n.Args[1], address[:length]) != nil ||
		binary.NativeEndian.Uint16(address[:2]) != unix.AF_UNIX || address[2] == 0 || !e.hasTime() {
		return
	}
	defer e.charge()
	name := address[2:length]
	if end := bytes.IndexByte(name, 0); end >= 0 {
		name = name[:end]
	}
	p := pathAccess{kind: kind, dir: unix.AT_FDCWD, noFollow: kind == accessCreate}
	e.add(n, e.reason(int(n.PID), p, string(name)))
}

// readMemory fills into from the memory of a thread.
func readMemory(tid int, at uint64, into []byte) error {
	local := [1]unix.Iovec{{Base: &into[0], Len: uint64(len(into))}}
	remote := [1]unix.RemoteIovec{{Base: uintptr(at), Len: len(into)}}
	n, err := unix.ProcessVMReadv(tid, local[:], remote[:], 0)
	if err == nil && n != len(into) {
		err = unix.EFAULT
	}
	return err
}

// readPath reads a string that ends with a zero byte. It reads page by page, because the next page may not exist.
func readPath(tid int, at uint64) (string, error) {
	var buffer [unix.PathMax]byte
	for have := 0; have < len(buffer); {
		page := uint64(unix.Getpagesize())
		part := buffer[have:min(len(buffer), have+int(page-(at+uint64(have))%page))]
		if err := readMemory(tid, at+uint64(have), part); err != nil {
			return "", err
		}
		if end := bytes.IndexByte(part, 0); end >= 0 {
			return string(buffer[:have+end]), nil
		}
		have += len(part)
	}
	return "", unix.ENAMETOOLONG
}
