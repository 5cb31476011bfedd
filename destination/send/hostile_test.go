package send_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/destination"
)

// rawServer starts a server that leaves each connection to talk, and returns its address. With a config it speaks TLS.
func rawServer(t *testing.T, config *tls.Config, talk func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if config != nil {
		l = tls.NewListener(l, config)
	}
	var mu sync.Mutex
	var open []net.Conn
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			served.Go(func() { defer conn.Close(); talk(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, conn := range open {
			if secure, ok := conn.(*tls.Conn); ok {
				secure.NetConn().Close()
			}
			conn.Close()
		}
		mu.Unlock()
		served.Wait()
	})
	return "receiver.test:" + port
}

// listenTLS starts a server that ends each connection after the handshake and returns its port.
func listenTLS(t *testing.T, cert tls.Certificate) string {
	t.Helper()
	address := rawServer(t, &tls.Config{Certificates: []tls.Certificate{cert}}, func(conn net.Conn) {
		_ = conn.(*tls.Conn).HandshakeContext(t.Context())
	})
	return address[strings.LastIndex(address, ":")+1:]
}

// endless writes the text until the other side ends the connection.
func endless(w io.Writer, text string) {
	for {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
	}
}

// drip writes the text a byte at a time.
func drip(w io.Writer, text string) {
	for i := range len(text) {
		if _, err := io.WriteString(w, text[i:i+1]); err != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// script writes a line, and the next after each line that it reads.
func script(conn net.Conn, lines ...string) {
	in := bufio.NewReader(conn)
	for _, text := range lines {
		if _, err := io.WriteString(conn, text+"\r\n"); err != nil {
			return
		}
		if _, err := in.ReadString('\n'); err != nil {
			return
		}
	}
	_, _ = io.Copy(io.Discard, in)
}

// withinDeadline sends a message to a server that accepts none, and checks what the port promises.
func withinDeadline(t *testing.T, s destination.Sender, m destination.Message, deadline time.Duration) error {
	t.Helper()
	began := time.Now()
	err := s.Send(t.Context(), m)
	if took := time.Since(began); took > deadline+1500*time.Millisecond {
		t.Errorf("the send took %s with a deadline of %s", took, deadline)
	}
	text := fmt.Sprint(err)
	if err == nil || len(text) > 400 || strings.ContainsAny(text, "\r\n\x1b\x00") || strings.Contains(text, "pa55word") {
		t.Errorf("the send ended with %q, want an error of one short line", text)
	}
	return err
}

// afterRequest reads the head of a request, and leaves the rest to talk.
func afterRequest(talk func(net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			talk(conn)
		}
	}
}

// say answers the request with a text and waits until the other side ends the connection.
func say(text string) func(net.Conn) {
	return afterRequest(func(conn net.Conn) {
		_, _ = io.WriteString(conn, text)
		_, _ = io.Copy(io.Discard, conn)
	})
}

// sayEndless answers with a head and then with the same text for ever.
func sayEndless(head, text string) func(net.Conn) {
	return afterRequest(func(conn net.Conn) {
		_, _ = io.WriteString(conn, head)
		endless(conn, text)
	})
}

const (
	refusal = "HTTP/1.1 500 No\r\n"
	chunked = "Transfer-Encoding: chunked\r\n\r\n"
)

// many returns the text a thousand times, written for ever.
func many(text string) string { return strings.Repeat(text, 1000) }

// below returns the connection below TLS.
func below(c net.Conn) net.Conn { return c.(*tls.Conn).NetConn() }

func shakeHands(c net.Conn) { _ = c.(*tls.Conn).HandshakeContext(neverDone{}) }

// misbehaviours are 50 ways of a receiver to be no receiver. None accepts a message.
var misbehaviours = map[string]func(net.Conn){
	"accepts and closes":               func(c net.Conn) { c.Close() },
	"shakes hands and closes":          shakeHands,
	"never reads":                      func(c net.Conn) { shakeHands(c); time.Sleep(3 * time.Second) },
	"reads and says nothing":           func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
	"closes after the request":         afterRequest(func(c net.Conn) { c.Close() }),
	"resets after the request":         afterRequest(reset),
	"resets at once":                   reset,
	"speaks before TLS":                func(c net.Conn) { _, _ = io.WriteString(below(c), "no TLS here\r\n") },
	"endless bytes before TLS":         func(c net.Conn) { endless(below(c), many("\x16\x03\x01")) },
	"drips before TLS":                 func(c net.Conn) { drip(below(c), strings.Repeat("\x16", 1000)) },
	"hangs in TLS":                     func(c net.Conn) { _, _ = io.Copy(io.Discard, below(c)) },
	"endless line of status":           sayEndless("HTTP/1.1 200 ", many("x")),
	"endless zeros":                    sayEndless("", strings.Repeat("\x00", 1<<16)),
	"endless header":                   sayEndless("HTTP/1.1 200 OK\r\nX: ", many("x")),
	"endless headers":                  sayEndless("HTTP/1.1 200 OK\r\n", many("X: y\r\n")),
	"endless continues":                sayEndless("", many("HTTP/1.1 100 Continue\r\n\r\n")),
	"endless early hints":              sayEndless("", many("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")),
	"drips its head":                   afterRequest(func(c net.Conn) { drip(c, "HTTP/1.1 200 OK\r\n"+many("X: y\r\n")) }),
	"head without end":                 say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"),
	"half a line":                      say("HTTP/1.1 2"),
	"no HTTP":                          say("220 receiver.test ESMTP\r\n"),
	"HTTP/0.9":                         say("<html>hello</html>"),
	"HTTP/9.9":                         say("HTTP/9.9 500 No\r\n\r\n"),
	"status of two digits":             say("HTTP/1.1 20 OK\r\n\r\n"),
	"status of four digits":            say("HTTP/1.1 2000 OK\r\n\r\n"),
	"negative status":                  say("HTTP/1.1 -200 OK\r\n\r\n"),
	"status zero":                      say("HTTP/1.1 000 OK\r\n\r\n"),
	"switches protocols":               say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"),
	"negative length":                  say("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
	"two lengths":                      say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"),
	"length that is no number":         say("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"),
	"unknown coding":                   say("HTTP/1.1 200 OK\r\nTransfer-Encoding: rot13\r\n\r\n"),
	"space before a colon":             say("HTTP/1.1 500 No\r\nX : y\r\n\r\n"),
	"control characters in a header":   say("HTTP/1.1 200 OK\r\nX\x00Y: z\r\n\r\n"),
	"error with an endless body":       sayEndless("HTTP/1.1 500 No\r\n\r\n", many("x")),
	"error with an endless chunk":      sayEndless(refusal+chunked+"fffffffffffffff\r\n", many("x")),
	"error with endless chunks":        sayEndless(refusal+chunked, many("1\r\nx\r\n")),
	"error with endless extensions":    sayEndless(refusal+chunked+"1;", many("x")),
	"error with endless trailers":      sayEndless(refusal+chunked+"0\r\n", many("X: y\r\n")),
	"error with a chunk of no size":    say(refusal + chunked + "zz\r\n"),
	"error with a body that ends":      say("HTTP/1.1 500 No\r\nContent-Length: 1000\r\n\r\nx"),
	"error that drips":                 afterRequest(func(c net.Conn) { drip(c, refusal+"\r\n"+many("x")) }),
	"error with control characters":    say("HTTP/1.1 400 \x1b[2J\r\nContent-Length: 8\r\n\r\n\x1b[2J\r\n\x00\xff"),
	"error with a bomb":                say("HTTP/1.1 400 No\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08"),
	"redirect to itself":               say("HTTP/1.1 302 Found\r\nLocation: /hook\r\nContent-Length: 0\r\n\r\n"),
	"redirect inside":                  say("HTTP/1.1 307 No\r\nLocation: http://169.254.169.254/latest\r\nContent-Length: 0\r\n\r\n"),
	"redirect to a file":               say("HTTP/1.1 301 No\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n"),
	"redirect without a target":        say("HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"),
	"pause without end":                say("HTTP/1.1 429 No\r\nRetry-After: 999999999999\r\nContent-Length: 0\r\n\r\n"),
	"two answers to one request, late": say("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
}

// reset ends a connection so that the other side gets an error.
func reset(c net.Conn) {
	raw := below(c)
	_ = raw.(*net.TCPConn).SetLinger(0)
	raw.Close()
}

// neverDone is a context for handshakes that only the end of their connection stops.
type neverDone struct{}

func (neverDone) Deadline() (time.Time, bool) { return time.Time{}, false }
func (neverDone) Done() <-chan struct{}       { return nil }
func (neverDone) Err() error                  { return nil }
func (neverDone) Value(any) any               { return nil }

// No receiver holds a send longer than the deadline, fills the memory, or leaves a goroutine behind.
func TestWebhook_HostileReceivers(t *testing.T) {
	if len(misbehaviours) != 50 {
		t.Errorf("the table has %d rows, want 50", len(misbehaviours))
	}
	const deadline = time.Second
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // the heap is bounded at the percentage of the product
	goroutines, heap := runtime.NumGoroutine(), heapInUse()
	var largest atomic.Uint64
	stop := make(chan struct{})
	var sampled sync.WaitGroup
	sampled.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				var stats runtime.MemStats
				runtime.ReadMemStats(&stats)
				largest.Store(max(largest.Load(), stats.HeapInuse))
			}
		}
	})
	t.Run("each", func(t *testing.T) {
		for name, talk := range misbehaviours {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				address := rawServer(t, &tls.Config{Certificates: []tls.Certificate{certificate}}, talk)
				s := newSender(t, destination.Config{Kind: destination.Webhook, URL: "https://" + address + "/hook",
					Timeout: deadline, Secrets: []destination.SecretRef{secretFile(t, newKey('a'))}})
				_ = withinDeadline(t, s, eventMessage(), deadline)
			})
		}
	})
	close(stop)
	sampled.Wait()
	for range 50 { // connections end a little later
		if runtime.NumGoroutine() <= goroutines+2 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > goroutines+2 {
		t.Errorf("%d goroutines run after the last send, %d before the first", n, goroutines)
	}
	if after := heapInUse(); after > heap+8<<20 || largest.Load() > heap+64<<20 {
		t.Errorf("the heap has %d MiB after the last send, had up to %d MiB, and %d MiB before the first",
			after>>20, largest.Load()>>20, heap>>20)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapInuse
}
