package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kinds of descriptors in a ready message.
const (
	socketListener = "seccomp"
	socketUDP      = "udp" // bound to port 53 of the step's loopback, for DNS queries
	socketTCP      = "tcp"
	descriptorRoot = "root" // O_PATH descriptor of the root directory of the program
)

// openNetwork brings up the loopback of the shim's network namespace and opens the sockets on which the worker answers
// DNS queries.
func openNetwork() (fds []int, kinds []string, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("network: %w", err)
	}
	defer unix.Close(fd)
	if err := upLoopback(fd); err != nil {
		return nil, nil, err
	}
	resolver := &unix.SockaddrInet4{Port: 53, Addr: [4]byte{127, 0, 0, 1}}
	udp, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("network: %w", err)
	}
	if err := unix.Bind(udp, resolver); err != nil {
		return nil, nil, fmt.Errorf("network: resolver: %w", err)
	}
	tcp, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("network: %w", err)
	}
	if err := unix.Bind(tcp, resolver); err != nil {
		return nil, nil, fmt.Errorf("network: resolver: %w", err)
	}
	if err := unix.Listen(tcp, 8); err != nil {
		return nil, nil, fmt.Errorf("network: resolver: %w", err)
	}
	return []int{udp, tcp}, []string{socketUDP, socketTCP}, nil
}

// upLoopback brings up the loopback and gives it addresses of the documentation networks. Some libraries look up IPv4
// or IPv6 addresses only on a machine with such an address, and do not count 127.0.0.1 and ::1.
func upLoopback(fd int) error {
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("network: loopback: %w", err)
	}
	if alias, err := unix.NewIfreq("lo:1"); err == nil && alias.SetInet4Addr([]byte{192, 0, 2, 1}) == nil {
		if unix.IoctlIfreq(fd, unix.SIOCSIFADDR, alias) == nil {
			_ = alias.SetInet4Addr([]byte{255, 255, 255, 255})
			_ = unix.IoctlIfreq(fd, unix.SIOCSIFNETMASK, alias)
		}
	}
	fd6, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil // the kernel has no IPv6
	}
	defer unix.Close(fd6)
	request := struct {
		addr   [16]byte
		prefix uint32
		index  int32
	}{addr: [16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1}, prefix: 128, index: 1}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd6), unix.SIOCSIFADDR, uintptr(unsafe.Pointer(&request)))
	return nil
}
