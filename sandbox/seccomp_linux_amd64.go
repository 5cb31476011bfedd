package sandbox

import "golang.org/x/sys/unix"

// auditArch is the kernel's number of this architecture in audit records and filters.
const auditArch = 0xc000003e

var archMknod = []uint32{unix.SYS_MKNOD}

var archQuietCalls = []uint32{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL,
	unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE,
}
