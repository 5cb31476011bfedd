package sandbox

// auditArch is how the kernel names this architecture to a filter.
const auditArch = 0xc00000b7

var archMknod []uint32

var archQuietCalls []uint32
