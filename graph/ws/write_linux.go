//go:build !race

package ws

import (
	"syscall"
	"unsafe"
)

// write is a non-blocking write to a socket. It uses RawSyscall6, which does not inform the scheduler: the call cannot
// block, and informing the scheduler costs a tenth of the processor time of a group.
func write(fd uintptr, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)),
		syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
