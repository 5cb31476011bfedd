package sandbox

// auditArch is AUDIT_ARCH_AARCH64, the kernel's number of this architecture.
const auditArch = 0xc00000b7

var archMknod []uint32

var archQuietCalls []uint32

// archFileCalls is empty: this architecture has only the calls that take a descriptor of a directory.
var archFileCalls map[uint32]fileCall
