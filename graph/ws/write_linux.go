//go:build !race

package ws

import (
	"syscall"
	"unsafe"
)

// write is a write to a socket that does not wait. Because it cannot block, the
// runtime is not told of it; it would look after a goroutine that does little else, which
// costs a tenth of a group's time.
func write(fd uintptr, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)),
		syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
