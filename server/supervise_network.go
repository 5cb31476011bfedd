package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/internal/machine"

	"github.com/dvt-engine/dvt/internal/privatenet"
	"github.com/dvt-engine/dvt/sandbox"
)

// maxForwarded is the maximum number of concurrent connections of one forwarded port. Further ones are closed.
const maxForwarded = 256

// acceptRetry is the pause after a connection could not be accepted.
const acceptRetry = 100 * time.Millisecond

// errNoServer means that no process of the server runs at the moment.
var errNoServer = errors.New("the Temporal server does not run")

// openNetwork decides once, for all processes of the server, whether they have a network of their own, and opens the
// ports that the settings name. A later failure must not move the server into the network of the machine.
func (t *temporalServer) openNetwork(ctx context.Context, port int) (err error) {
	if t.private, err = privatenet.Open(ctx); err != nil {
		t.private = nil
		if ctx.Err() != nil {
			return ctx.Err()
		}
		t.log.Warn("other users of this machine can reach the Temporal server of dvt dev: they can read names and results "+
			"of runs there and end runs", slog.Any("reason", err), slog.String("do", sandbox.NamespaceRemedy()))
		return nil
	}
	for setting, port := range map[string]int{"temporal-port": port, "temporal-ui-port": t.uiPort} {
		if port == 0 {
			continue
		}
		ln, err := listen(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), setting)
		if err != nil {
			for _, f := range t.forwards {
				_ = f.ln.Close()
			}
			return err
		}
		t.forwards = append(t.forwards, &portForward{ln: ln, port: port, dial: t.dialPrivate})
	}
	return nil
}

// startPrivate starts cmd, a server, in a network of its own.
func (t *temporalServer) startPrivate(ctx context.Context, cmd *exec.Cmd, logged int64) (*child, error) {
	p, err := t.private.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	t.current.Store(p)
	starter := p.Cmd.Process.Pid
	t.remember(processID{PID: p.PID, Starter: &processID{PID: starter, Start: machine.StartOf(starter)}})
	c := &child{cmd: p.Cmd, private: p, logged: logged, exited: make(chan struct{})}
	go func() {
		defer close(c.exited)
		c.err = p.Wait()
		t.current.CompareAndSwap(p, nil)
	}()
	return c, nil
}

// dialer returns the function that connects to the server's API, or nil when the address is enough.
func (t *temporalServer) dialer() func(ctx context.Context) (net.Conn, error) {
	if t.private == nil {
		return nil
	}
	return func(ctx context.Context) (net.Conn, error) { return t.dialPrivate(ctx, t.port) }
}

func (t *temporalServer) dialPrivate(ctx context.Context, port int) (net.Conn, error) {
	p := t.current.Load()
	if p == nil {
		return nil, errNoServer
	}
	return p.Dial(ctx, port)
}

// serveForwards serves the forwarded ports until ctx ends or stop is called. stop waits for their connections to end.
func (t *temporalServer) serveForwards(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	for _, f := range t.forwards {
		serving.Go(func() { f.serve(ctx) })
	}
	return func() { cancel(); serving.Wait() }
}

// portForward connects a port on the loopback of the machine with the same port in a private network.
type portForward struct {
	ln   net.Listener
	port int
	dial func(ctx context.Context, port int) (net.Conn, error)
}

// serve forwards connections until ctx ends, and closes them then.
func (f *portForward) serve(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = f.ln.Close() })
	defer stop()
	slots := make(chan struct{}, maxForwarded)
	var open sync.WaitGroup
	defer open.Wait()
	for {
		conn, err := f.ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(acceptRetry): // for example, this process has too many open files
			}
			continue
		}
		select {
		case slots <- struct{}{}:
			open.Go(func() { f.forward(ctx, conn); <-slots })
		default:
			_ = conn.Close()
		}
	}
}

func (f *portForward) forward(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	to, err := f.dial(ctx, f.port)
	if err != nil {
		return
	}
	splice(ctx, conn, to)
}

// splice copies between two connections until both have ended or ctx ends, and closes them.
func splice(ctx context.Context, a, b net.Conn) {
	defer a.Close()
	defer b.Close()
	stop := context.AfterFunc(ctx, func() { _ = a.Close(); _ = b.Close() })
	defer stop()
	var copies sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		copies.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			if half, ok := pair[0].(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			} else {
				_ = pair[0].Close()
			}
		})
	}
	copies.Wait()
}

// warnOfOpenPorts warns of the ports without a password that the settings open.
func warnOfOpenPorts(c *config.Config, log *slog.Logger) {
	if c.TemporalPort != 0 {
		log.Warn("the setting temporal-port opens Temporal's API without a password: every user of this machine can reach it",
			slog.String("address", fmt.Sprintf("127.0.0.1:%d", c.TemporalPort)))
	}
	if c.TemporalUIPort != 0 {
		log.Warn("the setting temporal-ui-port opens Temporal's UI without a password: every user of this machine can "+
			"reach it", slog.String("address", fmt.Sprintf("http://127.0.0.1:%d", c.TemporalUIPort)))
	}
}
