//go:build unix

package ws

import (
	"errors"
	"net"
	"syscall"
)

// rawConn returns access to the file descriptor of a socket, or nil if there is none, for example with TLS.
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

// writeOnce does one non-blocking write of o.pending. It always returns true, so that RawConn.Write does not wait until
// the socket is writable.
func (o *frameWriter) writeOnce(fd uintptr) bool {
	for {
		n, err := write(fd, o.pending)
		switch {
		case err == nil:
			o.pending = o.pending[n:]
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EAGAIN):
			o.err = err
		}
		return true
	}
}
