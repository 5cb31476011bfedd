package temporal_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store/postgres"
)

// proxy is a TCP proxy in front of a real PostgreSQL that can hold bytes back.
type proxy struct {
	addr   string
	server string
	// sees gets the bytes of a client before the proxy sends them, and may hold or mute.
	sees func(p *proxy, l *link, sent []byte)

	lossy atomic.Bool // whether release drops the held bytes

	mu     sync.Mutex
	opened *sync.Cond
	held   bool // whether the proxy holds the bytes of all connections
}

// link is one connection through a proxy. mute drops the answers of the server.
type link struct{ mute atomic.Bool }

func newProxy(t *testing.T, server string, sees func(*proxy, *link, []byte)) *proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	p := &proxy{addr: l.Addr().String(), server: server, sees: sees}
	p.opened = sync.NewCond(&p.mu)
	t.Cleanup(p.release)
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

// hold keeps all bytes back until release. The proxy then sends them, also those of clients that have disconnected.
func (p *proxy) hold() { p.mu.Lock(); defer p.mu.Unlock(); p.held = true }

func (p *proxy) release() { p.mu.Lock(); defer p.mu.Unlock(); p.held = false; p.opened.Broadcast() }

// wait waits for a release and reports whether the held bytes may be sent.
func (p *proxy) wait() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := p.held
	for p.held {
		p.opened.Wait()
	}
	return !held || !p.lossy.Load()
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	p.wait()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	l := &link{}
	go func() {
		pump(server, client, func([]byte) bool { return p.wait() && !l.mute.Load() })
		_ = client.Close()
	}()
	pump(client, server, func(sent []byte) bool { p.sees(p, l, sent); return p.wait() })
	time.Sleep(100 * time.Millisecond) // PostgreSQL executes the last statement before the connection closes
}

// pump copies the bytes for which pass returns true, until either side closes.
func pump(from, to net.Conn, pass func([]byte) bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && pass(buf[:n]) {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// newProxiedHarness returns a harness on PostgreSQL. Only its journal uses the proxy.
func newProxiedHarness(
	t *testing.T, budget time.Duration, sees func(*proxy, *link, []byte),
) (*harness, *faulty, *proxy) {
	t.Helper()
	dsn := testserver.Postgres(t)
	_, rest, _ := strings.Cut(dsn, "@")
	server, _, _ := strings.Cut(rest, "/")
	direct, err := postgres.Open(t.Context(), dsn, postgres.Options{Migrate: true})
	must(t, err)
	t.Cleanup(func() { _ = direct.Close() })
	p := newProxy(t, server, sees)
	far, err := postgres.Open(t.Context(), strings.Replace(dsn, server, p.addr, 1), postgres.Options{})
	must(t, err)
	t.Cleanup(func() { _ = far.Close() })
	f := &faulty{Store: far}
	return f.harness(t, budget, options{store: direct}), f, p
}

// completion reports whether a client sends the values of an append with a StepCompleted. The statement itself was
// prepared before.
func completion(sent []byte) bool {
	return bytes.Contains(sent, []byte(run.StepCompletedEvent)) && !bytes.Contains(sent, []byte("SELECT"))
}

// The proxy delays the StepStarted. The step waits for the log and runs once.
// contract: B02
// contract: W-15
func TestBudget_ProxyDelaysStepStarted(t *testing.T) {
	t.Parallel()
	h, f, p := newProxiedHarness(t, 3*time.Second, func(*proxy, *link, []byte) {})
	f.begin = func(ctx context.Context, try int, write func(context.Context) error) error {
		if try == 1 {
			p.hold()
			time.AfterFunc(4*time.Second, p.release)
		}
		return write(ctx)
	}
	id := h.start(document(0, step{id: "s1"}))
	h.waitForEnd(id)
	h.expect(id, 3, "StepStarted(s1,1)", "StepCompleted(s1,1)", "RunCompleted")
	expectOnce(t, h, "s1/1.1")
	if n := f.metric(t, "state_store_write_timeouts_total"); n < 1 {
		t.Errorf("%v write timeouts, want at least 1", n)
	}
}

// PostgreSQL commits the completion, and the proxy drops its answer.
// contract: B03
// contract: W-15
func TestBudget_ProxySwallowsTheAnswer(t *testing.T) {
	t.Parallel()
	var muted atomic.Int64
	h, f, _ := newProxiedHarness(t, short(), func(_ *proxy, l *link, sent []byte) {
		if completion(sent) && muted.CompareAndSwap(0, 1) {
			l.mute.Store(true)
		}
	})
	id := h.start(document(0, step{id: "s1"}))
	h.waitForEnd(id)
	h.expect(id, 3, "StepStarted(s1,1)", "StepCompleted(s1,1)", "RunCompleted")
	expectOnce(t, h, "s1/1.1")
	if muted.Load() == 0 || f.tries[0].Load() < 2 {
		t.Fatalf("the proxy dropped no answer; %d tries of the completion", f.tries[0].Load())
	}
	if o := f.found[len(f.found)-1]; !o.Deduplicated {
		t.Errorf("outcome of the last try %+v, want a duplicate", o)
	}
}

// The proxy holds all bytes from the completion on until the worker tries to write the failure. It then sends the held
// bytes to PostgreSQL, or drops them. The log has only the end that was written first.
// contract: B04, W-15
func TestBudget_ProxyBlocksTheCompletion(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"held bytes are sent": false, "held bytes are lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var once sync.Once
			h, f, p := newProxiedHarness(t, short(), func(p *proxy, _ *link, sent []byte) {
				if completion(sent) {
					once.Do(p.hold)
				}
			})
			p.lossy.Store(lost)
			f.failed = func(ctx context.Context, try int, write func(context.Context) error) error {
				if try == 1 {
					time.AfterFunc(2*time.Second, p.release)
				}
				return write(ctx)
			}
			id := h.start(document(0, step{id: "s1"}, step{id: "s2", deps: "s1"}))
			st := h.waitForEnd(id)
			want := []string{"StepStarted(s1,1)", "StepFailed(s1,1)", "StepSkipped(s2,1)", "RunFailed"}
			if st.Status == run.Completed && !lost {
				want = []string{"StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s2,1)", "StepCompleted(s2,1)",
					"RunCompleted"}
			}
			h.expect(id, 3, want...)
			if n := h.steps.count("s1"); n != 1 {
				t.Errorf("%d executions of s1, want 1", n)
			}
			if n := f.metric(t, "state_store_write_timeouts_total"); n < 2 || f.tries[1].Load() == 0 {
				t.Errorf("%v write timeouts, %d tries of the failure; want at least 2 and 1", n, f.tries[1].Load())
			}
			t.Logf("the run is %s after %d tries of the failure", st.Status, f.tries[1].Load())
		})
	}
}
