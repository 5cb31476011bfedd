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

// echo is a server that says everything again.
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

type wire struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func wired(t *testing.T, addr string) *wire {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &wire{t, c, bufio.NewReader(c)}
}

func (w *wire) say(format string, args ...any) {
	w.t.Helper()
	if _, err := fmt.Fprintf(w, format, args...); err != nil {
		w.t.Fatal(err)
	}
}

// hear is the next line, "" when none comes in time, or the error in words.
func (w *wire) hear(within time.Duration) string {
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

func TestProxy_BreaksWhatLiesBetween(t *testing.T) {
	t.Parallel()
	p := testserver.NewProxy(t, echo(t))
	old := wired(t, p.Addr)
	old.say("one\n")
	if got := old.hear(time.Minute); got != "one" || p.Open() != 1 {
		t.Fatalf("passing: %q, %d open", got, p.Open())
	}

	p.Hold()
	inside := wired(t, p.Addr)
	old.say("two\n")
	inside.say("three\n")
	if a, b := old.hear(200*time.Millisecond), inside.hear(200*time.Millisecond); a+b != "" {
		t.Errorf("a black hole said %q and %q", a, b)
	}
	p.Pass()
	if a, b := old.hear(time.Minute), inside.hear(time.Minute); a != "two" || b != "three" {
		t.Errorf("what was held came as %q and %q", a, b)
	}

	p.Refuse()
	refused := wired(t, p.Addr)
	old.say("four\n")
	if a, b := old.hear(time.Minute), refused.hear(time.Minute); a != "four" || b != "over" {
		t.Errorf("refusing: an old connection said %q, a new one %q", a, b)
	}
	p.Cut()
	if a, b := old.hear(time.Minute), inside.hear(time.Minute); a != "over" || b != "over" {
		t.Errorf("cut: %q and %q", a, b)
	}
	p.Pass()
	again := wired(t, p.Addr)
	again.say("five\n")
	if got := again.hear(time.Minute); got != "five" {
		t.Errorf("passing again: %q", got)
	}
	p.Hold()
	p.Cut()
	if got := again.hear(time.Minute); got != "over" {
		t.Errorf("cut in a black hole: %q", got)
	}
}

// listen subscribes to a channel over a proxy, in RESP 2 or 3.
func listen(t *testing.T, addr, channel string, version int) *wire {
	t.Helper()
	w := wired(t, addr)
	if version == 3 {
		w.say("HELLO 3\r\n")
	}
	w.say("SUBSCRIBE %s\r\n", channel)
	for got := "?"; got != ":1"; { // the end of the confirmation
		if got = w.hear(time.Minute); got == "" || got == "over" {
			t.Fatalf("no confirmation: %q", got)
		}
		if got == ":3" || got == ":2" { // proto of HELLO's answer
			continue
		}
	}
	return w
}

// messages are the payloads that come: as many as there should be, and what more comes soon.
func (w *wire) messages(most int) string {
	w.t.Helper()
	var got []string
	for {
		within := time.Minute
		if len(got) >= most {
			within = 100 * time.Millisecond
		}
		line := w.hear(within)
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
			out := wired(t, redis.Addr)
			publish := func(names ...string) {
				for _, n := range names {
					out.say("PUBLISH %s m-%s\r\n", channel, n)
					out.hear(time.Minute)
				}
			}
			in := listen(t, p.Addr, channel, version)
			if p.Subscribers() != 1 {
				t.Fatalf("%d subscribers", p.Subscribers())
			}
			fates := map[string]testserver.Fate{
				"m-lost": {Drop: true}, "m-twice": {Copies: 1}, "m-late": {Delay: time.Second}, "m-behind": {Behind: true},
			}
			seen := map[testserver.BusMessage]int{}
			p.Each(func(m testserver.BusMessage) testserver.Fate { seen[m]++; return fates[m.Payload] })
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
					t.Errorf("%v came as %q, want %q", c.publish, got, c.want)
				}
			}
			p.Each(nil)
			publish("lost")
			if got := in.messages(1); got != "m-lost" || seen[testserver.BusMessage{Channel: channel,
				Payload: "m-behind"}] != 2 {
				t.Errorf("without a rule: %q, seen %v", got, seen)
			}
			plain := wired(t, p.Addr)
			plain.say("SET k%d m-x\r\nGET k%d\r\nLRANGE none 0 1\r\nECHO message\r\n", version, version)
			var reply []string
			for range 6 {
				reply = append(reply, plain.hear(time.Minute))
			}
			if got := strings.Join(reply, " "); got != "+OK $3 m-x *0 $7 message" {
				t.Errorf("a plain connection heard %q", got)
			}
			p.CutSubscribers()
			plain.say("PING\r\n")
			if a, b := in.hear(time.Minute), plain.hear(time.Minute); a != "over" || b != "+PONG" {
				t.Errorf("after the subscribers were cut: %q and %q", a, b)
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
		for name, is := range map[string]bool{"drop": f.Drop, "copy": f.Copies > 0, "delay": f.Delay > 0,
			"behind": f.Behind} {
			if is {
				counts[name]++
			}
		}
	}
	for name, n := range counts {
		if n < 150 || n > 250 {
			t.Errorf("%s: %d of 1000", name, n)
		}
	}
	if len(counts) != 4 {
		t.Errorf("counts %v", counts)
	}
}

func TestPostgresProxy_CountsStatements(t *testing.T) {
	t.Parallel()
	dsn := testserver.Postgres(t)
	p := testserver.NewPostgresProxy(t, dsn)
	if at, err := url.Parse(p.DSN); err != nil || at.Host != p.Addr {
		t.Fatalf("DSN %s of %s", p.DSN, p.Addr)
	}
	c, err := pgx.Connect(t.Context(), p.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	ask := func() (n int) {
		t.Helper()
		if err := c.QueryRow(t.Context(), "SELECT $1::int + 1", 41).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 5 {
		if n := ask(); n != 42 {
			t.Fatalf("answer %d", n)
		}
	}
	if _, err := c.Exec(t.Context(), "SELECT 1; SELECT 2"); err != nil {
		t.Fatal(err)
	}
	got := p.Statements()
	if got["SELECT $1::int + 1"] != 5 || got["SELECT 1; SELECT 2"] != 1 || len(got) != 2 {
		t.Errorf("counted %v", got)
	}
	p.Reset()
	ask()
	if got := p.Statements(); len(got) != 1 || got["SELECT $1::int + 1"] != 1 {
		t.Errorf("counted after Reset %v", got)
	}
	p.Stop()
	if err := c.Ping(t.Context()); err == nil {
		t.Error("a stopped server answered")
	}
}
