package main

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

// A server that is measured has a core to itself, and what loads it has another.
const (
	serverCore = 0
	loaderCore = 1
	anyCore    = -1
)

// apart measures each repetition of the named figure in a process of its own on
// the loader's core, which starts the servers on theirs.
func apart(name string, setup func(context.Context, *rig) (*trial, error)) func(context.Context, *rig) (*trial, error) {
	return func(ctx context.Context, r *rig) (*trial, error) {
		if r.child {
			return setup(ctx, r)
		}
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return &trial{repeat: func(ctx context.Context) (sample, error) {
			child := exec.CommandContext(ctx, self, "-once", name)
			return repetition(child, func() error { return startOn(loaderCore, child) })
		}}, nil
	}
}

// repetition is what a process found that was started with -once.
func repetition(child *exec.Cmd, start func() error) (s sample, err error) {
	var out, complaint strings.Builder
	child.Stdout, child.Stderr = &out, &complaint
	if err := start(); err != nil {
		return s, err
	}
	if err := child.Wait(); err != nil {
		return s, fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String()))
	}
	_, err = fmt.Sscan(out.String(), &s.cost, &s.floor)
	return s, err
}

// service is a server in a process of its own, which does what is asked of it line
// by line (see serve).
type service struct {
	addr      string
	child     *exec.Cmd
	in        io.WriteCloser
	out       *bufio.Reader
	complaint strings.Builder
}

// startService starts program on a core; o tells it how to serve. It ends with ctx at the latest.
func startService(ctx context.Context, core int, o options, program ...string) (*service, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	s := &service{child: exec.CommandContext(ctx, program[0], program[1:]...)}
	s.child.Stderr = &s.complaint
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
	if err = s.tell(string(text)); err == nil {
		s.addr, err = s.line()
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// coreOf is where a server with these options runs.
func coreOf(o options) int {
	if o.Spread {
		return anyCore
	}
	return serverCore
}

// startOwn starts a server of this program.
func startOwn(ctx context.Context, core int, kind string, o options) (*service, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startService(ctx, core, o, self, "-serve", kind)
}

func (s *service) tell(line string) error {
	_, err := io.WriteString(s.in, line+"\n")
	return err
}

// line is the next answer.
func (s *service) line() (string, error) {
	text, err := s.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the server of the figure does not answer: %w", err)
	}
	return strings.TrimSpace(text), nil
}

func (s *service) number(question string) (n int64, err error) {
	if err := s.tell(question); err != nil {
		return 0, err
	}
	text, err := s.line()
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(text, &n)
	return n, err
}

// cpu is how long the process has had the processor, in the kernel too.
func (s *service) cpu() (time.Duration, error) {
	n, err := s.number("cpu")
	return time.Duration(n), err
}

// memory is how many bytes the process has after its garbage was collected.
func (s *service) memory() (int64, error) { return s.number("memory") }

// publish has it publish n updates, one each interval; published is its answer.
func (s *service) publish(n int, interval time.Duration) error {
	return s.tell(fmt.Sprintf("publish %d %d", n, interval))
}

// published waits for the answer to publish: which updates, and when each was committed.
func (s *service) published() (at map[int64]time.Time, err error) {
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

// close ends the process, which does so by itself when nothing more can be asked.
func (s *service) close() error {
	s.in.Close()
	kill := time.AfterFunc(patience, func() { _ = s.child.Process.Kill() })
	defer kill.Stop()
	if err := s.child.Wait(); err != nil {
		return fmt.Errorf("the server of the figure: %w: %s", err, strings.TrimSpace(s.complaint.String()))
	}
	return nil
}
