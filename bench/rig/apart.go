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

// A server that is measured has a core to itself, and what loads it has another.
const (
	ServerCore = 0
	loaderCore = 1
	AnyCore    = -1
)

// apart measures each repetition of the named figure in a process of its own on
// the loader's core, which starts the servers on theirs.
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

// repetition is what a process found that was started with -once.
func repetition(child *exec.Cmd, start func() error) (s Sample, err error) {
	var out, complaint strings.Builder
	child.Stdout, child.Stderr = &out, &complaint
	if err := start(); err != nil {
		return s, err
	}
	if err := child.Wait(); err != nil {
		return s, fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String()))
	}
	_, err = fmt.Sscan(out.String(), &s.Cost, &s.Floor)
	return s, err
}

// service is a server in a process of its own, which does what is asked of it line
// by line (see serve).
type Service struct {
	Addr      string
	child     *exec.Cmd
	in        io.WriteCloser
	out       *bufio.Reader
	complaint strings.Builder
}

// startService starts program on a core; o tells it how to serve. It ends with ctx at the latest.
func StartService(ctx context.Context, core int, o Options, program ...string) (*Service, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	s := &Service{child: exec.CommandContext(ctx, program[0], program[1:]...)}
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
		s.Addr, err = s.line()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// coreOf is where a server with these options runs.
func CoreOf(o Options) int {
	if o.Spread {
		return AnyCore
	}
	return ServerCore
}

// startOwn starts a server of this program.
func StartOwn(ctx context.Context, core int, kind string, o Options) (*Service, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return StartService(ctx, core, o, self, "-serve", kind)
}

func (s *Service) tell(line string) error {
	_, err := io.WriteString(s.in, line+"\n")
	return err
}

// line is the next answer.
func (s *Service) line() (string, error) {
	text, err := s.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the server of the figure does not answer: %w", err)
	}
	return strings.TrimSpace(text), nil
}

func (s *Service) number(question string) (n int64, err error) {
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
func (s *Service) CPU() (time.Duration, error) {
	n, err := s.number("cpu")
	return time.Duration(n), err
}

// memory is how many bytes the process has after its garbage was collected.
func (s *Service) Memory() (int64, error) { return s.number("memory") }

// publish has it publish n updates, one each interval; published is its answer.
func (s *Service) Publish(n int, interval time.Duration) error {
	return s.tell(fmt.Sprintf("publish %d %d", n, interval))
}

// published waits for the answer to publish: which updates, and when each was committed.
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

// close ends the process, which does so by itself when nothing more can be asked.
func (s *Service) Close() error {
	s.in.Close()
	kill := time.AfterFunc(Patience, func() { _ = s.child.Process.Kill() })
	defer kill.Stop()
	if err := s.child.Wait(); err != nil {
		return fmt.Errorf("the server of the figure: %w: %s", err, strings.TrimSpace(s.complaint.String()))
	}
	return nil
}

// options say how to serve; each kind knows its own.
type Options struct {
	Dir   string `json:"dir"`   // for files
	Stock bool   `json:"stock"` // by gqlgen's own handler and transport
	Redis string `json:"redis"` // the bus; empty: in memory, without a store
	// Temporal is host:port of what `dvt dev` is to use, which else starts its own.
	Temporal string `json:"temporal"`
	Runs     int    `json:"runs"`
	Steps    int    `json:"steps"`
	// Spread has the server run on every core, those of what loads it too.
	Spread bool `json:"spread"`
	// Payload is a message as a viewer gets it. The digits of its runSeq are replaced.
	Payload string `json:"payload"`
}
