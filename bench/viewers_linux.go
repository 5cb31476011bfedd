package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"
)

func newViewers(d dialect) (*viewers, error) {
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	return &viewers{dialect: d, poll: poll, bySock: map[int32]*viewer{}, buf: make([]byte, 256<<10)}, err
}

// open connects one more viewer.
func (v *viewers) open(addr string) error {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	sock, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if errors.Is(err, syscall.EMFILE) {
		var limit syscall.Rlimit
		_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
		return fmt.Errorf("this process may open only %d files, at most %d; raise the limit with `ulimit -Hn`", limit.Cur,
			limit.Max)
	}
	if err != nil {
		return err
	}
	w := &viewer{sock: sock, first: len(v.all) == 0, begin: make([]byte, 0, prefixSize)}
	v.all, v.bySock[int32(sock)] = append(v.all, w), w
	waits := syscall.NsecToTimeval(int64(4 * rig.Patience))
	if err := errors.Join(
		syscall.SetsockoptTimeval(sock, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &waits),
		syscall.SetsockoptInt(sock, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1),
	); err != nil {
		return err
	}
	if err := syscall.Connect(sock, &syscall.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
		return err
	}
	if _, err := syscall.Write(sock, []byte(v.dialect.handshake(addr))); err != nil {
		return err
	}
	rest, err := v.readUpgrade(sock)
	if err != nil {
		return err
	}
	if v.dialect.hello != nil {
		for _, text := range v.dialect.hello(len(v.all) - 1) {
			v.send(w, opText, text)
		}
	}
	v.receive(w, rest)
	if err := syscall.SetNonblock(sock, true); err != nil {
		return err
	}
	return syscall.EpollCtl(v.poll, syscall.EPOLL_CTL_ADD, sock, &syscall.EpollEvent{Events: syscall.EPOLLIN,
		Fd: int32(sock)})
}

// readUpgrade reads the response to the handshake and returns the data after it.
func (v *viewers) readUpgrade(sock int) (rest []byte, err error) {
	for have := 0; ; {
		n, err := syscall.Read(sock, v.buf[have:])
		if errors.Is(err, syscall.EINTR) {
			continue // a signal of Go's scheduler
		}
		if err != nil {
			return nil, fmt.Errorf("read the response to a handshake: %w", err)
		}
		have += n
		head, rest, whole := bytes.Cut(v.buf[:have], []byte("\r\n\r\n"))
		if whole && bytes.HasPrefix(head, []byte("HTTP/1.1 101 ")) {
			return rest, nil
		}
		if whole || n == 0 {
			return nil, fmt.Errorf("a viewer was refused: %q", v.buf[:have])
		}
	}
}

// busyPoll is the time after the last data during which the viewers poll without sleeping. If the thread sleeps, the
// server's write has to wake it, and the kernel counts that as processor time of the server for each message.
const busyPoll = 2 * time.Millisecond

// look reads all sockets that have data, and waits at most this long for the first.
func (v *viewers) look(wait time.Duration) error {
	if time.Since(v.heard) < busyPoll {
		wait = 0
	}
	var events [512]syscall.EpollEvent
	n, err := syscall.EpollWait(v.poll, events[:], int(wait.Milliseconds()))
	if n > 0 {
		v.heard = time.Now()
	}
	if err != nil && !errors.Is(err, syscall.EINTR) {
		return err
	}
	for _, e := range events[:max(n, 0)] {
		n, err := syscall.Read(int(e.Fd), v.buf)
		switch {
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
		case err != nil, n == 0:
			v.err = errors.Join(errors.New("a viewer was disconnected"), err)
			return v.err
		default:
			v.receive(v.bySock[e.Fd], v.buf[:n])
		}
	}
	return nil
}

func (v *viewers) send(w *viewer, op byte, text string) {
	if _, err := syscall.Write(w.sock, frameOf(op, text)); err != nil {
		v.err = err
	}
}

func (v *viewers) close() {
	for _, w := range v.all {
		_ = syscall.Close(w.sock)
	}
	_ = syscall.Close(v.poll)
}
