//go:build unix

package ws

import (
	"errors"
	"net"
	"syscall"
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
func (o *outlet) writeOnce(fd uintptr) bool {
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
