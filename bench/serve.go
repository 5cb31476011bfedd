package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"
)

// figureServer is a server that a figure measures, in a process of its own.
type figureServer struct {
	handler http.Handler
	addr    string // address on which it already listens; empty: serve listens and serves handler
	// publish makes one update of each run, and returns the seq and the commit time of the last one. nil: the kind of
	// server has no updates.
	publish func(ctx context.Context) (seq int64, at time.Time, err error)
	close   func() error
}

// serve runs a server of a figure on a free port until standard input ends. The first line of standard input contains
// the rig.Options as JSON; serve prints the address. Each further line is a command, for which serve prints one line:
//
//	publish N NS  publish N updates, one every NS nanoseconds; prints the seq and the Unix time in nanoseconds of each
//	cpu           prints the processor time so far in nanoseconds
//	memory        prints the resident memory in bytes after a garbage collection
//
// It returns the exit status.
func serve(ctx context.Context, kind string) int {
	if err := serveKind(ctx, kind); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// serveKind runs the server of serve.
func serveKind(ctx context.Context, kind string) (err error) {
	// Standard input is non-blocking. Otherwise a thread that blocks in read would hold the only processor until the
	// runtime notices, and delay the update that was just published.
	if err := syscall.SetNonblock(syscall.Stdin, true); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.NewFile(uintptr(syscall.Stdin), "standard input"))
	lines.Buffer(nil, 1<<20)
	lines.Scan()
	var o rig.Options
	if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
		return fmt.Errorf("parse the options %q: %w", lines.Text(), err)
	}
	begin, ok := map[string]func(context.Context, rig.Options) (figureServer, error){
		"runs": serveRuns, "prepared": servePrepared, "list": serveList, "encoding": serveEncoding, "dev": serveDev,
		"traces": serveTraces,
	}[kind]
	if !ok {
		return fmt.Errorf("unknown kind of server %q", kind)
	}
	s, err := begin(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if s.addr == "" {
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
		if err != nil {
			return err
		}
		go func() { _ = http.Serve(ln, s.handler) }() // it ends with the process
		s.addr = ln.Addr().String()
	}
	fmt.Println(s.addr)
	for lines.Scan() {
		answer, err := s.answer(ctx, lines.Text())
		if err != nil {
			return err
		}
		fmt.Println(answer)
	}
	return lines.Err()
}

// answer executes one command and returns the line to print.
func (s figureServer) answer(ctx context.Context, command string) (string, error) {
	switch word, rest, _ := strings.Cut(command, " "); word {
	case "publish":
		return s.publishAll(ctx, rest)
	case "cpu":
		used, err := ownCPU()
		return fmt.Sprint(used.Nanoseconds()), err
	case "memory":
		debug.FreeOSMemory()
		debug.FreeOSMemory() // the first call shrinks the stacks, the second returns their memory
		n, err := resident()
		return fmt.Sprint(n), err
	}
	return "", fmt.Errorf("unknown command %q", command)
}

// publishAll executes the command publish.
func (s figureServer) publishAll(ctx context.Context, rest string) (string, error) {
	var n int
	var interval time.Duration
	if _, err := fmt.Sscan(rest, &n, (*int64)(&interval)); err != nil {
		return "", err
	}
	var published strings.Builder
	for due := time.Now(); n > 0; n, due = n-1, due.Add(interval) {
		if err := rig.Wait(ctx, time.Until(due)); err != nil {
			return "", err
		}
		seq, at, err := s.publish(ctx)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&published, "%d %d ", seq, at.UnixNano())
	}
	return published.String(), nil
}
