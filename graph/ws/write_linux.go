package ws

import (
	"net"
	"syscall"
	"unsafe"
)

// rawConn gives access to the descriptor of a socket; nil for one that has none, such
// as TLS.
func rawConn(conn net.Conn) syscall.RawConn {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// writeOnce is one write that does not wait: it never asks the runtime to try again.
// Because it cannot block, the runtime need not hear of it, which would keep looking
// after a goroutine that does little else.
func (o *outlet) writeOnce(fd uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(o.pending))), uintptr(len(o.pending)),
			syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			o.pending = o.pending[n:]
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
		default:
			o.err = errno
		}
		return true
	}
}
