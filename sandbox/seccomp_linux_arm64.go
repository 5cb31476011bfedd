package sandbox

// auditArch is AUDIT_ARCH_AARCH64, the kernel's number of this architecture.
const auditArch = 0xc00000b7

var archMknod []uint32

var archQuietCalls []uint32
