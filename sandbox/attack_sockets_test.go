//go:build linux

package sandbox_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socketAttempts returns attacks that reuse a permitted connection, because that is a socket of the worker's network.
func socketAttempts() []attempt {
	return []attempt{
		{name: "disconnect a permitted connection and connect it to the store", named: "connect to 127.0.0.1:",
			attack: func(w world) error {
				fd, err := connected(w.Permitted)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				disconnectErr := disconnect(fd)
				return errors.Join(greets(fd, w.Store["store"]), disconnectErr)
			}},
		{name: "connect a refused connection to the loopback of the host", named: "connect to 127.0.0.1:",
			attack: func(w world) error {
				// The permitted server does not listen on this port of its list, so the socket stays unconnected.
				fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				_ = connect4(fd, w.Closed)
				time.Sleep(50 * time.Millisecond)
				_ = connect4(fd, w.Store["store"]) // adds the refusal to the log
				if err := unix.SetNonblock(fd, false); err != nil {
					return err
				}
				return greets(fd, w.Store["store"])
			}},
		{name: "listen on the host by a permitted connection", attack: func(w world) error {
			fd, err := connected(w.Permitted)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			if err := disconnect(fd); err != nil {
				return err
			}
			at := sockaddr4("127.0.0.1:0")
			if _, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(fd), uintptrOf(at[:]), uintptr(len(at))); errno != 0 &&
				errno != unix.EINVAL {
				return errno
			}
			return unix.Listen(fd, 1)
		}, named: "listen"},
		{name: "swap the socket while the connection is judged", named: "connect to 127.0.0.1:", attack: swapSocket},
	}
}

func connected(address string) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, err
	}
	if err := connect4(fd, address); err != nil {
		return 0, errors.Join(fmt.Errorf("connect to %s: %w", address, err), unix.Close(fd))
	}
	return fd, nil
}

func connect4(fd int, address string) error {
	at := netip.MustParseAddrPort(address)
	return unix.Connect(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
}

// disconnect dissolves the connection of a socket, so that it can be connected again.
func disconnect(fd int) error {
	var unspecified [16]byte
	if _, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptrOf(unspecified[:]), 16); errno != 0 {
		return errno
	}
	return nil
}

// greets connects a socket to a server of the host and reads its greeting.
func greets(fd int, address string) error {
	if err := connect4(fd, address); err != nil {
		return err
	}
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1})
	greeting := make([]byte, 5)
	if n, err := unix.Read(fd, greeting); err != nil || string(greeting[:n]) != "store" {
		return errors.Join(fmt.Errorf("the answer is %q", greeting[:max(n, 0)]), err)
	}
	return nil
}

// swapSocket connects to a Unix socket, which the supervisor leaves to the kernel. Meanwhile other threads put a socket
// of the worker's network in its place and the store's address into the memory.
func swapSocket(w world) error {
	outside, err := connected(w.Permitted)
	if err != nil {
		return err
	}
	_ = disconnect(outside)
	inside, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	const place = 200
	var file [110]byte
	file[0] = unix.AF_UNIX
	copy(file[2:], "/tmp/none")
	store := sockaddr4(w.Store["store"])
	shared := make([]byte, len(file))
	var stop atomic.Bool
	defer stop.Store(true)
	go func() {
		for !stop.Load() {
			copy(shared, file[:])
			_ = unix.Dup3(inside, place, 0)
			copy(shared, store[:])
			_ = unix.Dup3(outside, place, 0)
		}
	}()
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); {
		_, _, errno := unix.Syscall(unix.SYS_CONNECT, place, uintptr(unsafe.Pointer(&shared[0])), 16)
		if errno != 0 && errno != unix.EISCONN {
			continue
		}
		_ = unix.SetsockoptTimeval(outside, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})
		greeting := make([]byte, 5)
		if n, err := unix.Read(outside, greeting); err == nil && string(greeting[:n]) == "store" {
			return nil
		}
		_ = disconnect(outside)
	}
	return errors.New("the store was never reached")
}

// closedPort returns an address of the loopback on which no server listens.
func closedPort() (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
