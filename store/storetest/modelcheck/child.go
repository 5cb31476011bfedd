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

// Child is the name of the test that a child process runs. The test must call Live.
const Child = "TestModelCheckChild"

// environment is the variable with the JSON of the life of a child.
const environment = "DVT_MODELCHECK_LIFE"

// Live does the work of a child process until the parent closes standard input or ends. In a process that is not a
// child it returns at once.
func Live(t *testing.T, target Target) {
	config := os.Getenv(environment)
	if config == "" {
		return
	}
	var l life
	if err := json.Unmarshal([]byte(config), &l); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, os.Stdin) // its end means that the parent has closed it or ended
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
	config, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	//nolint:gosec // the command is this test binary
	c := &child{Cmd: exec.Command(os.Args[0], "-test.run=^"+Child+"$", "-test.timeout=0"), ended: make(chan error, 1)}
	c.Env = append(os.Environ(), environment+"="+string(config))
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

// stop ends the process gracefully, like a server.
func (c *child) stop() error {
	if err := c.stdin.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	select {
	case err := <-c.ended:
		if err != nil {
			return fmt.Errorf("a process failed: %w\n%s", err, c.output.String())
		}
		return nil
	case <-time.After(patience):
		return errors.Join(fmt.Errorf("a process did not end within %v after it was stopped", patience), c.kill())
	}
}

// kill ends the process abruptly, like a power failure.
func (c *child) kill() error {
	if err := c.Process.Kill(); err != nil {
		return err
	}
	<-c.ended
	return nil
}

// kill keeps the processes running until ctx ends, and meanwhile kills and restarts one of them at random times. At the
// end it stops them.
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
	for pause(ctx, time.Duration(500+dice.IntN(1500))*time.Millisecond) && r.waitForProgress(ctx) {
		p := dice.IntN(processes)
		select {
		case err := <-running[p].ended:
			r.Errorf("a process ended although it was not stopped: %v\n%s", err, running[p].output.String())
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

// Between two kills the processes must do some work, which takes long under the race detector. The wait is limited, so
// that a blocked store does not end the kills.
const (
	workBetweenKills = 128 << 10 // bytes of the journal
	waitForWork      = 50        // checks, 100 ms apart
)

// waitForProgress waits until the processes have worked enough for the next kill. It returns false if ctx ended.
func (r *round) waitForProgress(ctx context.Context) bool {
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
