//go:build unix && (!linux || race)

package ws

import "syscall"

// write is a non-blocking write to a socket. With the race detector it must be syscall.Write: the detector treats it as
// synchronisation between the writer and the reader of the data.
func write(fd uintptr, b []byte) (int, error) { return syscall.Write(int(fd), b) }
