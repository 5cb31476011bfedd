//go:build !unix

package ws

import (
	"net"
	"syscall"
)

// rawConn is nil where a write that does not wait is not known: a goroutine writes.
func rawConn(net.Conn) syscall.RawConn { return nil }

func (*outlet) writeOnce(uintptr) bool { return true }
