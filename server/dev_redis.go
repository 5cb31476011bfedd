package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/alicebob/miniredis/v2"
)

// embeddedRedis is the Redis of `dvt dev`. It has no port, so no other process of the machine reaches it.
type embeddedRedis struct {
	server *miniredis.Miniredis
	//nolint:containedctx // the copies of all connections end with the server, not with a call
	ctx    context.Context
	cancel context.CancelFunc
	copies sync.WaitGroup
}

func newEmbeddedRedis() *embeddedRedis {
	r := &embeddedRedis{server: miniredis.NewMiniRedis()}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

func (r *embeddedRedis) close() {
	r.cancel()
	r.server.Close()
	r.copies.Wait()
}

// dial connects to the server through a pair of sockets. The server's own connections have no buffer: a client that
// writes several commands before it reads would wait for the server, and the server for the client.
func (r *embeddedRedis) dial(context.Context) (net.Conn, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("the embedded Redis: %w", err)
	}
	server, err := r.server.Dial()
	if err != nil {
		_ = ours.Close()
		_ = theirs.Close()
		return nil, fmt.Errorf("the embedded Redis: %w", err)
	}
	r.copies.Go(func() { splice(r.ctx, theirs, server) })
	return ours, nil
}

// socketPair returns two sockets without a name that are connected with each other.
func socketPair() (a, b net.Conn, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	first, second := os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket")
	defer first.Close() // the connections have duplicates
	defer second.Close()
	if a, err = net.FileConn(first); err != nil {
		return nil, nil, err
	}
	if b, err = net.FileConn(second); err != nil {
		_ = a.Close()
		return nil, nil, err
	}
	return a, b, nil
}
