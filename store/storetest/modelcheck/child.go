package modelcheck

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Child is the name of the test that a process under test runs: it calls Live.
const Child = "TestModelCheckChild"

// environment carries the life to a child.
const environment = "DVT_MODELCHECK_LIFE"

// Live does what the parent asked of this process, until the parent closes
// standard input or is gone. It returns at once in a process that is no child.
func Live(t *testing.T, target Target) {
	told := os.Getenv(environment)
	if told == "" {
		return
	}
	var l life
	if err := json.Unmarshal([]byte(told), &l); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, os.Stdin) // whatever ends it, the parent is done with us
	}()
	if err := l.live(ctx, target.Open); err != nil {
		t.Fatal(err)
	}
}

// child is a running process.
type child struct {
	*exec.Cmd
	stdin  io.Closer
	output bytes.Buffer
	ended  chan error
}

func spawn(l life) (*child, error) {
	told, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	//nolint:gosec // it is this program itself
	c := &child{Cmd: exec.Command(os.Args[0], "-test.run=^"+Child+"$", "-test.timeout=0"), ended: make(chan error, 1)}
	c.Env = append(os.Environ(), environment+"="+string(told))
	c.Stdout, c.Stderr = &c.output, &c.output
	if c.stdin, err = c.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	go func() { c.ended <- c.Wait() }()
	return c, nil
}

// stop ends the process as a server is stopped.
func (c *child) stop() error {
	if err := c.stdin.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	select {
	case err := <-c.ended:
		if err != nil {
			return fmt.Errorf("a process ended badly: %w\n%s", err, c.output.String())
		}
		return nil
	case <-time.After(patience):
		return errors.Join(fmt.Errorf("a process did not end within %v when told to", patience), c.kill())
	}
}

// kill ends the process as a power cut does.
func (c *child) kill() error {
	if err := c.Process.Kill(); err != nil {
		return err
	}
	<-c.ended
	return nil
}

// kill keeps the processes running until ctx ends, kills one of them now and then,
// and then ends them.
func (r *round) kill(ctx context.Context) {
	dice := rand.New(rand.NewPCG(r.seed, 3))
	var running [processes]*child
	var generation [processes]int
	start := func(p int) {
		generation[p]++
		c, err := spawn(r.life(p+1, generation[p]))
		if err != nil {
			r.Fatal(err)
		}
		running[p] = c
	}
	for p := range running {
		start(p)
	}
	for pause(ctx, time.Duration(500+dice.IntN(1500))*time.Millisecond) && r.worked(ctx) {
		p := dice.IntN(processes)
		select {
		case err := <-running[p].ended:
			r.Errorf("a process ended by itself: %v\n%s", err, running[p].output.String())
		default:
			if err := running[p].kill(); err != nil {
				r.Error(err)
			}
			r.kills++
			pause(ctx, time.Duration(dice.IntN(200))*time.Millisecond)
		}
		start(p)
	}
	for _, c := range running {
		if err := c.stop(); err != nil {
			r.Error(err)
		}
	}
}

// A kill waits until the processes have done something since the last one, which
// under the race detector takes them a while, but not for ever.
const (
	workBetweenKills = 128 << 10 // bytes of the journal
	waitForWork      = 50        // looks, 100 ms apart
)

// worked waits for the next kill's time, and reports false when ctx ended.
func (r *round) worked(ctx context.Context) bool {
	for range waitForWork {
		if info, err := os.Stat(r.path); err == nil && info.Size() > r.recorded+workBetweenKills {
			r.recorded = info.Size()
			break
		}
		if !pause(ctx, 100*time.Millisecond) {
			return false
		}
	}
	return ctx.Err() == nil
}
