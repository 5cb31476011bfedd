package rig

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Cores on which processes of a figure run. A measured server has a core of its own, so that the load generator does
// not take processor time from it.
const (
	ServerCore = 0
	loaderCore = 1
	AnyCore    = -1
)

// Apart wraps the Setup of the named figure: each repetition runs in a process of its own on the core of the load
// generator, and that process starts the servers on their core. It works on Linux with at least two cores only;
// otherwise each repetition fails.
func Apart(name string, setup func(context.Context, *Rig) (*Trial, error)) func(context.Context, *Rig) (*Trial, error) {
	return func(ctx context.Context, r *Rig) (*Trial, error) {
		if r.Child {
			return setup(ctx, r)
		}
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return &Trial{Repeat: func(ctx context.Context) (Sample, error) {
			child := exec.CommandContext(ctx, self, "-once", name)
			return repetition(child, func() error { return startOn(loaderCore, child) })
		}}, nil
	}
}

// repetition starts a process of this program with -once, waits for it and parses the sample that it prints.
func repetition(child *exec.Cmd, start func() error) (s Sample, err error) {
	var out, stderr strings.Builder
	child.Stdout, child.Stderr = &out, &stderr
	if err := start(); err != nil {
		return s, err
	}
	if err := child.Wait(); err != nil {
		return s, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	_, err = fmt.Sscan(out.String(), &s.Cost, &s.Floor)
	return s, err
}

// Service is a server in a process of its own. It reads one command per line from its standard input and prints one
// line for each (the protocol is described at serve in package main). Start it with StartService or StartOwn. It is not
// safe for concurrent use.
type Service struct {
	Addr   string // host:port on which it listens
	child  *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr strings.Builder
}

// StartService starts program on a core (or AnyCore), sends it the options and waits for its address. The process is
// killed when ctx ends; the caller must call Close.
func StartService(ctx context.Context, core int, o Options, program ...string) (*Service, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	s := &Service{child: exec.CommandContext(ctx, program[0], program[1:]...)}
	s.child.Stderr = &s.stderr
	if s.in, err = s.child.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.child.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	if err := startOn(core, s.child); err != nil {
		return nil, err
	}
	if err = s.send(string(text)); err == nil {
		s.Addr, err = s.line()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// CoreOf returns the core on which a server with these options runs.
func CoreOf(o Options) int {
	if o.Spread {
		return AnyCore
	}
	return ServerCore
}

// StartOwn starts this program as a server: bench -serve kind. See StartService.
func StartOwn(ctx context.Context, core int, kind string, o Options) (*Service, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return StartService(ctx, core, o, self, "-serve", kind)
}

// send writes one command.
func (s *Service) send(line string) error {
	_, err := io.WriteString(s.in, line+"\n")
	return err
}

// line reads the next line that the server prints.
func (s *Service) line() (string, error) {
	text, err := s.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the server of the figure does not answer: %w", err)
	}
	return strings.TrimSpace(text), nil
}

// number sends a command and parses the reply as an integer.
func (s *Service) number(command string) (n int64, err error) {
	if err := s.send(command); err != nil {
		return 0, err
	}
	text, err := s.line()
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(text, &n)
	return n, err
}

// CPU returns the processor time of the process so far, including that in the kernel.
func (s *Service) CPU() (time.Duration, error) {
	n, err := s.number("cpu")
	return time.Duration(n), err
}

// Memory returns the resident memory of the process in bytes, after a garbage collection.
func (s *Service) Memory() (int64, error) { return s.number("memory") }

// Publish makes the server publish n updates, one every interval. It does not wait; the caller must call Published
// before the next command.
func (s *Service) Publish(n int, interval time.Duration) error {
	return s.send(fmt.Sprintf("publish %d %d", n, interval))
}

// Published waits until the last Publish is done. It returns the commit time of each update by its seq.
func (s *Service) Published() (at map[int64]time.Time, err error) {
	text, err := s.line()
	if err != nil {
		return nil, err
	}
	at = map[int64]time.Time{}
	for read := strings.NewReader(text); read.Len() > 0; {
		var seq, nanos int64
		if _, err := fmt.Fscan(read, &seq, &nanos); err != nil {
			return nil, fmt.Errorf("the server says %q: %w", text, err)
		}
		at[seq] = time.Unix(0, nanos)
	}
	return at, nil
}

// Close closes the standard input of the process, upon which it ends. If it has not ended within Patience, Close kills
// it. It returns an error with the standard error of a process that failed.
func (s *Service) Close() error {
	s.in.Close()
	kill := time.AfterFunc(Patience, func() { _ = s.child.Process.Kill() })
	defer kill.Stop()
	if err := s.child.Wait(); err != nil {
		return fmt.Errorf("the server of the figure: %w: %s", err, strings.TrimSpace(s.stderr.String()))
	}
	return nil
}

// Options configure a Service. Each kind of server reads only the fields that it needs.
type Options struct {
	Dir   string `json:"dir"`   // directory for its files
	Stock bool   `json:"stock"` // use gqlgen's own handler and transport
	Redis string `json:"redis"` // URL of the bus; empty: bus and runs in memory, without a store
	// Temporal is namespace@host:port of the Temporal server for `dvt dev`; empty: `dvt dev` starts its own.
	Temporal string `json:"temporal"`
	Runs     int    `json:"runs"`  // number of runs
	Steps    int    `json:"steps"` // steps of each run
	// Spread lets the server run on all cores, including that of the load generator.
	Spread bool `json:"spread"`
	// Payload is a message as a viewer receives it. The server replaces the number of its runSeq in each update.
	Payload string `json:"payload"`
}
