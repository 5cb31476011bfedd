//go:build !unix

package ws

import (
	"net"
	"syscall"
)

// rawConn returns nil, because this platform has no non-blocking write here; the frameWriter then writes in a
// goroutine.
func rawConn(net.Conn) syscall.RawConn { return nil }

func (*frameWriter) writeOnce(uintptr) bool { return true }
