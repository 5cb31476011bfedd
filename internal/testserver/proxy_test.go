package testserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/internal/testserver"
)

// echo starts a server that returns all bytes that it receives, and returns its address.
func echo(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	return ln.Addr().String()
}

// wire is a connection of a test that reads lines.
type wire struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dialWire(t *testing.T, addr string) *wire {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &wire{t, c, bufio.NewReader(c)}
}

func (w *wire) send(format string, args ...any) {
	w.t.Helper()
	if _, err := fmt.Fprintf(w, format, args...); err != nil {
		w.t.Fatal(err)
	}
}

// readLine returns the next line, the part of a line that arrives within the time limit, or "over" when the connection
// ended.
func (w *wire) readLine(within time.Duration) string {
	w.t.Helper()
	if err := w.SetReadDeadline(time.Now().Add(within)); err != nil {
		w.t.Fatal(err)
	}
	line, err := w.in.ReadString('\n')
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return line
	case err != nil:
		return "over"
	}
	return strings.TrimRight(line, "\r\n")
}

func TestProxy_BreaksConnections(t *testing.T) {
	t.Parallel()
	p := testserver.NewProxy(t, echo(t))
	old := dialWire(t, p.Addr)
	old.send("one\n")
	if got := old.readLine(time.Minute); got != "one" || p.Open() != 1 {
		t.Fatalf("a passing proxy returned %q and has %d connections, want one and 1", got, p.Open())
	}

	p.Hold()
	inside := dialWire(t, p.Addr)
	old.send("two\n")
	inside.send("three\n")
	if a, b := old.readLine(200*time.Millisecond), inside.readLine(200*time.Millisecond); a+b != "" {
		t.Errorf("a holding proxy forwarded %q and %q, want nothing", a, b)
	}
	p.Pass()
	if a, b := old.readLine(time.Minute), inside.readLine(time.Minute); a != "two" || b != "three" {
		t.Errorf("after Pass the held lines are %q and %q, want two and three", a, b)
	}

	p.Refuse()
	refused := dialWire(t, p.Addr)
	old.send("four\n")
	if a, b := old.readLine(time.Minute), refused.readLine(time.Minute); a != "four" || b != "over" {
		t.Errorf("a refusing proxy: the old connection has %q and the new one %q, want four and over", a, b)
	}
	p.Cut()
	if a, b := old.readLine(time.Minute), inside.readLine(time.Minute); a != "over" || b != "over" {
		t.Errorf("after Cut the connections have %q and %q, want over", a, b)
	}
	p.Pass()
	again := dialWire(t, p.Addr)
	again.send("five\n")
	if got := again.readLine(time.Minute); got != "five" {
		t.Errorf("after the second Pass a new connection has %q, want five", got)
	}
	p.Hold()
	p.Cut()
	if got := again.readLine(time.Minute); got != "over" {
		t.Errorf("after Cut of a holding proxy the connection has %q, want over", got)
	}
}

// subscribe subscribes to a channel through a proxy, in RESP 2 or 3.
func subscribe(t *testing.T, addr, channel string, version int) *wire {
	t.Helper()
	w := dialWire(t, addr)
	if version == 3 {
		w.send("HELLO 3\r\n")
	}
	w.send("SUBSCRIBE %s\r\n", channel)
	for got := "?"; got != ":1"; { // the end of the confirmation
		if got = w.readLine(time.Minute); got == "" || got == "over" {
			t.Fatalf("Redis did not confirm the subscription, the last line is %q", got)
		}
		if got == ":3" || got == ":2" { // the protocol version in the reply to HELLO
			continue
		}
	}
	return w
}

// messages returns the payloads of count messages, and of further messages that arrive within 100 ms.
func (w *wire) messages(count int) string {
	w.t.Helper()
	var got []string
	for {
		within := time.Minute
		if len(got) >= count {
			within = 100 * time.Millisecond
		}
		line := w.readLine(within)
		if line == "" || line == "over" {
			return strings.Join(got, " ")
		}
		if strings.HasPrefix(line, "m-") {
			got = append(got, line)
		}
	}
}

func TestBusProxy_DecidesTheFateOfEachMessage(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	for _, version := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP %d", version), func(t *testing.T) {
			t.Parallel()
			p := testserver.NewBusProxy(t, redis.Addr)
			channel := fmt.Sprintf("c%d", version)
			out := dialWire(t, redis.Addr)
			publish := func(names ...string) {
				for _, n := range names {
					out.send("PUBLISH %s m-%s\r\n", channel, n)
					out.readLine(time.Minute)
				}
			}
			in := subscribe(t, p.Addr, channel, version)
			if p.Subscribers() != 1 {
				t.Fatalf("the proxy has %d subscribers, want 1", p.Subscribers())
			}
			fates := map[string]testserver.Fate{
				"m-lost": {Drop: true}, "m-twice": {Copies: 1}, "m-late": {Delay: time.Second}, "m-behind": {Behind: true},
			}
			seen := map[testserver.BusMessage]int{}
			p.SetFate(func(m testserver.BusMessage) testserver.Fate { seen[m]++; return fates[m.Payload] })
			for _, c := range []struct {
				publish []string
				want    string
			}{
				{[]string{"a", "lost", "b"}, "m-a m-b"},
				{[]string{"twice", "c"}, "m-twice m-twice m-c"},
				{[]string{"late", "d", "e"}, "m-d m-e m-late"},
				{[]string{"behind", "f", "g"}, "m-f m-behind m-g"},
				{[]string{"behind"}, "m-behind"},
			} {
				publish(c.publish...)
				if got := in.messages(len(strings.Fields(c.want))); got != c.want {
					t.Errorf("the messages %v arrived as %q, want %q", c.publish, got, c.want)
				}
			}
			p.SetFate(nil)
			publish("lost")
			if got := in.messages(1); got != "m-lost" || seen[testserver.BusMessage{Channel: channel,
				Payload: "m-behind"}] != 2 {
				t.Errorf("without a function m-lost arrived as %q; the function saw %v, want m-behind twice", got, seen)
			}
			plain := dialWire(t, p.Addr)
			plain.send("SET k%d m-x\r\nGET k%d\r\nLRANGE none 0 1\r\nECHO message\r\n", version, version)
			var reply []string
			for range 6 {
				reply = append(reply, plain.readLine(time.Minute))
			}
			if got := strings.Join(reply, " "); got != "+OK $3 m-x *0 $7 message" {
				t.Errorf("a connection without a subscription received %q, want the replies unchanged", got)
			}
			p.CutSubscribers()
			plain.send("PING\r\n")
			if a, b := in.readLine(time.Minute), plain.readLine(time.Minute); a != "over" || b != "+PONG" {
				t.Errorf("after CutSubscribers the subscriber has %q and the other connection %q, want over and +PONG", a, b)
			}
		})
	}
}

func TestOdds_FollowFromTheirSeed(t *testing.T) {
	t.Parallel()
	o := testserver.Odds{Drop: 0.2, Duplicate: 0.2, Delay: 0.2, Behind: 0.2, MaxDelay: time.Second}
	a, b, counts := o.Fates(7), o.Fates(7), map[string]int{}
	for range 1000 {
		f := a(testserver.BusMessage{})
		if f != b(testserver.BusMessage{}) {
			t.Fatal("the same seed gave different fates")
		}
		for name, drawn := range map[string]bool{"drop": f.Drop, "copy": f.Copies > 0, "delay": f.Delay > 0,
			"behind": f.Behind} {
			if drawn {
				counts[name]++
			}
		}
	}
	for name, n := range counts {
		if n < 150 || n > 250 {
			t.Errorf("%s was drawn %d times in 1000, want about 200", name, n)
		}
	}
	if len(counts) != 4 {
		t.Errorf("the draws are %v, want all four parts of a Fate", counts)
	}
}

func TestPostgresProxy_CountsStatements(t *testing.T) {
	t.Parallel()
	dsn := testserver.Postgres(t)
	p := testserver.NewPostgresProxy(t, dsn)
	if at, err := url.Parse(p.DSN); err != nil || at.Host != p.Addr {
		t.Fatalf("the DSN is %s (%v), want the host %s", p.DSN, err, p.Addr)
	}
	c, err := pgx.Connect(t.Context(), p.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	query := func() (n int) {
		t.Helper()
		if err := c.QueryRow(t.Context(), "SELECT $1::int + 1", 41).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 5 {
		if n := query(); n != 42 {
			t.Fatalf("the query returned %d, want 42", n)
		}
	}
	if _, err := c.Exec(t.Context(), "SELECT 1; SELECT 2"); err != nil {
		t.Fatal(err)
	}
	got := p.Statements()
	if got["SELECT $1::int + 1"] != 5 || got["SELECT 1; SELECT 2"] != 1 || len(got) != 2 {
		t.Errorf("the proxy counted %v, want the query 5 times and the simple query once", got)
	}
	p.Reset()
	query()
	if got := p.Statements(); len(got) != 1 || got["SELECT $1::int + 1"] != 1 {
		t.Errorf("the proxy counted %v after Reset, want the query once", got)
	}
	p.Stop()
	if err := c.Ping(t.Context()); err == nil {
		t.Error("a stopped server answered")
	}
}
