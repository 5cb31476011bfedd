package sandbox

import "golang.org/x/sys/unix"

// auditArch is the kernel's number of this architecture in audit records and filters.
const auditArch = 0xc000003e

var archMknod = []uint32{unix.SYS_MKNOD}

var archQuietCalls = []uint32{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL,
	unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE,
}

// archFileCalls are the calls on paths that newer architectures do not have.
var archFileCalls = map[uint32]fileCall{
	unix.SYS_OPEN: func(a *[6]uint64, _ memory) (pathAccess, pathAccess) {
		return openAccess(unix.AT_FDCWD, a[0], a[1]), pathAccess{}
	},
	unix.SYS_CREAT: func(a *[6]uint64, _ memory) (pathAccess, pathAccess) {
		return openAccess(unix.AT_FDCWD, a[0], unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC), pathAccess{}
	},
	unix.SYS_READLINK: here(accessRead, 0, true),
	unix.SYS_MKDIR:    here(accessCreate, 0, true),
	unix.SYS_MKNOD:    here(accessCreate, 0, true),
	unix.SYS_RMDIR:    here(accessRemove, 0, true),
	unix.SYS_UNLINK:   here(accessRemove, 0, true),
	unix.SYS_SYMLINK:  here(accessCreate, 1, true),
	unix.SYS_LINK: func(a *[6]uint64, _ memory) (pathAccess, pathAccess) {
		return pathAccess{kind: accessLink, dir: unix.AT_FDCWD, name: a[0], noFollow: true},
			pathAccess{kind: accessCreate, dir: unix.AT_FDCWD, name: a[1], noFollow: true}
	},
	unix.SYS_RENAME: func(a *[6]uint64, _ memory) (pathAccess, pathAccess) {
		return pathAccess{kind: accessRename, dir: unix.AT_FDCWD, name: a[0], noFollow: true},
			pathAccess{kind: accessRename, dir: unix.AT_FDCWD, name: a[1], noFollow: true}
	},
	unix.SYS_CHMOD:     here(accessMode, 0, false),
	unix.SYS_CHOWN:     chown(false),
	unix.SYS_LCHOWN:    chown(true),
	unix.SYS_UTIME:     here(accessTimes, 0, false),
	unix.SYS_UTIMES:    here(accessTimes, 0, false),
	unix.SYS_FUTIMESAT: inDir(accessTimes, false),
}

func chown(noFollow bool) fileCall {
	return func(a *[6]uint64, _ memory) (pathAccess, pathAccess) {
		return pathAccess{kind: accessOwner, dir: unix.AT_FDCWD, name: a[0], noFollow: noFollow, owner: uint32(a[1]),
			group: uint32(a[2])}, pathAccess{}
	}
}
