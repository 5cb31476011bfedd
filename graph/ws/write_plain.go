//go:build unix && (!linux || race)

package ws

import "syscall"

// write is a write to a socket that does not wait, by which the race detector orders
// what it sees on both sides.
func write(fd uintptr, b []byte) (int, error) { return syscall.Write(int(fd), b) }
