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

// served is what a server of a figure has.
type served struct {
	handler http.Handler
	addr    string // where it listens already; else handler is served
	// publish makes one update of everything that is watched, and returns its seq and
	// when it was committed.
	publish func(ctx context.Context) (seq int64, at time.Time, err error)
	close   func() error
}

// serve answers on a port of its own until standard input ends. Its first line says
// how to serve; the answer is the address. Then: "publish N NS" publishes N updates, one
// every NS nanoseconds, and answers with the seq and the nanoseconds since 1970 of each;
// "cpu" with the nanoseconds of processor time; "memory" with the resident bytes.
func serve(ctx context.Context, kind string) int {
	if err := serving(ctx, kind); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serving(ctx context.Context, kind string) (err error) {
	// A thread that waits in read would keep the only processor from the update that
	// was just published, until the runtime notices.
	if err := syscall.SetNonblock(syscall.Stdin, true); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.NewFile(uintptr(syscall.Stdin), "standard input"))
	lines.Buffer(nil, 1<<20)
	lines.Scan()
	var o rig.Options
	if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
		return fmt.Errorf("%q does not say how to serve: %w", lines.Text(), err)
	}
	begin, ok := map[string]func(context.Context, rig.Options) (served, error){
		"runs": serveRuns, "prepared": servePrepared, "list": serveList, "encoding": serveEncoding, "dev": serveDev,
	}[kind]
	if !ok {
		return fmt.Errorf("there is no server %q", kind)
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
		go func() { _ = http.Serve(ln, s.handler) }() // ends with the process
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

func (s served) answer(ctx context.Context, question string) (string, error) {
	switch word, rest, _ := strings.Cut(question, " "); word {
	case "publish":
		return s.updates(ctx, rest)
	case "cpu":
		used, err := ownCPU()
		return fmt.Sprint(used.Nanoseconds()), err
	case "memory":
		debug.FreeOSMemory()
		debug.FreeOSMemory() // stacks shrink in the first, and are given back in the second
		n, err := resident()
		return fmt.Sprint(n), err
	}
	return "", fmt.Errorf("this server does not know %q", question)
}

func (s served) updates(ctx context.Context, rest string) (string, error) {
	var n int
	var interval time.Duration
	if _, err := fmt.Sscan(rest, &n, (*int64)(&interval)); err != nil {
		return "", err
	}
	var told strings.Builder
	for due := time.Now(); n > 0; n, due = n-1, due.Add(interval) {
		if err := rig.Wait(ctx, time.Until(due)); err != nil {
			return "", err
		}
		seq, at, err := s.publish(ctx)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&told, "%d %d ", seq, at.UnixNano())
	}
	return told.String(), nil
}
