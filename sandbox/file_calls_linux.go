package sandbox

import (
	"encoding/binary"
	"maps"

	"golang.org/x/sys/unix"
)

// accessKind is the kind of access that a system call makes to a path.
type accessKind uint8

const (
	accessNone accessKind = iota

	// accessLookUp needs to see that the path exists.
	accessLookUp

	// These need an existing file or directory.
	accessRead
	accessExecute
	accessLink    // the file gets a second name
	accessConnect // the file is a Unix socket

	// These need an existing file that the step may change.
	accessWrite
	accessTruncate
	accessMode
	accessOwner
	accessTimes
	accessAttribute

	// These need a directory that the step may change.
	accessCreate   // harmless when the path exists
	accessCreateIn // creates a file without a name in the directory of the path
	accessRemove
	accessRename
)

// String returns the words in front of the path in a line of the step's log.
func (k accessKind) String() string {
	return [...]string{
		"", "look-up of", "read of", "execution of", "link to", "connection to", "write to", "truncation of",
		"change of the mode of", "change of the owner of", "change of the times of", "change of the attributes of",
		"creation of", "creation of a file in", "removal of", "rename of",
	}[k]
}

// changes reports whether the access needs the right to write.
func (k accessKind) changes() bool { return k >= accessWrite }

// describes reports whether the access changes only the description of a file. Landlock does not restrict it.
func (k accessKind) describes() bool { return k >= accessMode && k <= accessAttribute }

// removes reports whether the access takes away the name of the file.
func (k accessKind) removes() bool { return k == accessRemove || k == accessRename }

// opens reports whether the access may be the one of an open.
func (k accessKind) opens() bool {
	return k == accessLookUp || k == accessRead || k == accessWrite || k == accessCreate
}

// pathAccess is one path of a system call with the access that the call makes.
type pathAccess struct {
	kind     accessKind
	dir      int    // descriptor of the directory from which a relative path leads; AT_FDCWD for the working directory
	name     uint64 // address of the path; 0 when dir is the file itself
	noFollow bool   // a link at the end of the path is not followed
	empty    bool   // an empty path means dir itself
	creates  bool   // a file that does not exist is created

	owner, group uint32 // of accessOwner
	size         int64  // of accessTruncate
}

// memory reads the memory of the thread that made a call.
type memory func(at uint64, into []byte) error

// fileCall returns the paths of a call with its arguments; both are accessNone when it is of no interest.
type fileCall func(a *[6]uint64, m memory) (first, second pathAccess)

// fileCalls are the system calls on paths that the supervisor explains. The kernel carries out each of them. Calls that
// only ask whether a path exists (stat, access) are not among them: programs make them by the thousand, mostly for
// paths that nobody expects to exist, and they may not fail with EINTR.
var fileCalls = mergeCalls(map[uint32]fileCall{
	unix.SYS_OPENAT: func(a *[6]uint64, _ memory) (pathAccess, pathAccess) {
		return openAccess(dirOf(a[0]), a[1], a[2]), pathAccess{}
	},
	unix.SYS_OPENAT2: func(a *[6]uint64, m memory) (pathAccess, pathAccess) {
		var flags [8]byte
		if m(a[2], flags[:]) != nil {
			return pathAccess{}, pathAccess{}
		}
		return openAccess(dirOf(a[0]), a[1], binary.NativeEndian.Uint64(flags[:])), pathAccess{}
	},
	unix.SYS_MKDIRAT:  inDir(accessCreate, true),
	unix.SYS_MKNODAT:  inDir(accessCreate, true),
	unix.SYS_UNLINKAT: inDir(accessRemove, true),
	unix.SYS_SYMLINKAT: func(a *[6]uint64, _ memory) (pathAccess, pathAccess) {
		return pathAccess{kind: accessCreate, dir: dirOf(a[1]), name: a[2], noFollow: true}, pathAccess{}
	},
	unix.SYS_LINKAT: func(a *[6]uint64, _ memory) (pathAccess, pathAccess) {
		return pathAccess{kind: accessLink, dir: dirOf(a[0]), name: a[1], noFollow: a[4]&unix.AT_SYMLINK_FOLLOW == 0,
				empty: a[4]&unix.AT_EMPTY_PATH != 0},
			pathAccess{kind: accessCreate, dir: dirOf(a[2]), name: a[3], noFollow: true}
	},
	unix.SYS_RENAMEAT:   renameIn,
	unix.SYS_RENAMEAT2:  renameIn,
	unix.SYS_READLINKAT: inDir(accessRead, true),
	unix.SYS_CHDIR:      here(accessLookUp, 0, false),
	unix.SYS_EXECVE:     here(accessExecute, 0, false),
	unix.SYS_EXECVEAT:   inDirWithFlags(accessExecute, 4),
	unix.SYS_TRUNCATE: func(a *[6]uint64, _ memory) (pathAccess, pathAccess) {
		return pathAccess{kind: accessTruncate, dir: unix.AT_FDCWD, name: a[0], size: int64(a[1])}, pathAccess{}
	},
	unix.SYS_FTRUNCATE: func(a *[6]uint64, _ memory) (pathAccess, pathAccess) {
		return pathAccess{kind: accessTruncate, dir: dirOf(a[0]), size: int64(a[1])}, pathAccess{}
	},
	unix.SYS_FCHMOD:    ofFile(accessMode),
	unix.SYS_FCHMODAT:  inDir(accessMode, false),
	unix.SYS_FCHMODAT2: inDirWithFlags(accessMode, 3),
	unix.SYS_FCHOWN: func(a *[6]uint64, _ memory) (pathAccess, pathAccess) {
		return pathAccess{kind: accessOwner, dir: dirOf(a[0]), owner: uint32(a[1]), group: uint32(a[2])}, pathAccess{}
	},
	unix.SYS_FCHOWNAT: func(a *[6]uint64, m memory) (pathAccess, pathAccess) {
		p, _ := inDirWithFlags(accessOwner, 4)(a, m)
		p.owner, p.group = uint32(a[2]), uint32(a[3])
		return p, pathAccess{}
	},
	unix.SYS_UTIMENSAT:     inDirWithFlags(accessTimes, 3),
	unix.SYS_SETXATTR:      here(accessAttribute, 0, false),
	unix.SYS_LSETXATTR:     here(accessAttribute, 0, true),
	unix.SYS_FSETXATTR:     ofFile(accessAttribute),
	unix.SYS_REMOVEXATTR:   here(accessAttribute, 0, false),
	unix.SYS_LREMOVEXATTR:  here(accessAttribute, 0, true),
	unix.SYS_FREMOVEXATTR:  ofFile(accessAttribute),
	unix.SYS_SETXATTRAT:    inDirWithFlags(accessAttribute, 2),
	unix.SYS_REMOVEXATTRAT: inDirWithFlags(accessAttribute, 2),
}, archFileCalls)

func mergeCalls(all ...map[uint32]fileCall) map[uint32]fileCall {
	out := map[uint32]fileCall{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// dirOf returns a descriptor argument. The kernel ignores its upper half.
func dirOf(arg uint64) int { return int(int32(arg)) }

// here returns the fileCall for a path in argument i, from the working directory.
func here(kind accessKind, i int, noFollow bool) fileCall {
	return func(a *[6]uint64, _ memory) (pathAccess, pathAccess) {
		return pathAccess{kind: kind, dir: unix.AT_FDCWD, name: a[i], noFollow: noFollow}, pathAccess{}
	}
}

// inDir returns the fileCall for a descriptor and a path in the first two arguments.
func inDir(kind accessKind, noFollow bool) fileCall {
	return func(a *[6]uint64, _ memory) (pathAccess, pathAccess) {
		return pathAccess{kind: kind, dir: dirOf(a[0]), name: a[1], noFollow: noFollow}, pathAccess{}
	}
}

// inDirWithFlags is inDir with AT_ flags in argument i.
func inDirWithFlags(kind accessKind, i int) fileCall {
	return func(a *[6]uint64, _ memory) (pathAccess, pathAccess) {
		return pathAccess{kind: kind, dir: dirOf(a[0]), name: a[1], noFollow: a[i]&unix.AT_SYMLINK_NOFOLLOW != 0,
			empty: a[i]&unix.AT_EMPTY_PATH != 0}, pathAccess{}
	}
}

// ofFile returns the fileCall for the descriptor of the file in the first argument.
func ofFile(kind accessKind) fileCall {
	return func(a *[6]uint64, _ memory) (pathAccess, pathAccess) {
		return pathAccess{kind: kind, dir: dirOf(a[0])}, pathAccess{}
	}
}

func renameIn(a *[6]uint64, _ memory) (pathAccess, pathAccess) {
	return pathAccess{kind: accessRename, dir: dirOf(a[0]), name: a[1], noFollow: true},
		pathAccess{kind: accessRename, dir: dirOf(a[2]), name: a[3], noFollow: true}
}

// openAccess returns the access of an open with these flags.
func openAccess(dir int, name, flags uint64) pathAccess {
	p := pathAccess{kind: accessRead, dir: dir, name: name, noFollow: flags&unix.O_NOFOLLOW != 0}
	writes := flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0
	switch {
	case flags&unix.O_PATH != 0:
		p.kind = accessLookUp
	case flags&unix.O_TMPFILE == unix.O_TMPFILE:
		p.kind = accessCreateIn
	case flags&unix.O_CREAT != 0 && flags&unix.O_EXCL != 0:
		p.kind, p.noFollow = accessCreate, true
	case writes:
		p.kind = accessWrite
	}
	p.creates = flags&unix.O_CREAT != 0 && flags&unix.O_PATH == 0
	return p
}
