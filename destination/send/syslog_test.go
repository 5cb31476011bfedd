package send_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dvt-engine/dvt/destination"
)

// collector is a syslog server that reads frames by octet counting.
type collector struct {
	url      string
	frames   chan string
	accepted chan net.Conn
}

func newCollector(t *testing.T, scheme string) *collector {
	t.Helper()
	c := &collector{frames: make(chan string, 1000), accepted: make(chan net.Conn, 100)}
	if scheme == "udp" {
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		go func() {
			buf := make([]byte, 65536)
			for {
				n, _, err := conn.ReadFrom(buf)
				if err != nil {
					return
				}
				c.frames <- string(buf[:n])
			}
		}()
		c.url = "udp://" + conn.LocalAddr().String()
		return c
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if scheme == "tls" {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate}})
	}
	t.Cleanup(func() { l.Close() })
	c.url = scheme + "://receiver.test:" + port
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			c.accepted <- conn
			go func() {
				in := bufio.NewReader(conn)
				for {
					length, err := in.ReadString(' ')
					n, bad := strconv.Atoi(strings.TrimSpace(length))
					if err != nil {
						return
					}
					frame := make([]byte, max(n, 0))
					if _, err := io.ReadFull(in, frame); bad != nil || err != nil {
						c.frames <- fmt.Sprintf("broken frame %q %v %v", length, bad, err)
						return
					}
					c.frames <- string(frame)
				}
			}()
		}
	}()
	return c
}

func (c *collector) next(t *testing.T) string {
	t.Helper()
	select {
	case frame := <-c.frames:
		return frame
	case <-time.After(5 * time.Second):
		t.Fatal("no message came in 5 seconds")
		return ""
	}
}

func syslogOf(t *testing.T, c *collector) destination.Sender {
	t.Helper()
	return newSender(t, destination.Config{Kind: destination.Syslog, URL: c.url})
}

// line is the grammar of RFC 5424 with one element of structured data and a text in UTF-8.
var line = regexp.MustCompile(`^<(\d{1,3})>1 (\S+) (\S{1,255}) dvt - ([!-~]{1,32}) ` +
	`\[dvt@32473((?: [!#-<>-\\^-~]{1,32}="(?:[^"\\\]]|\\["\\\]])*")*)\] ` + "\ufeff" + `([^\x00-\x1f\x7f]*)$`)

func parseLine(t *testing.T, frame string) (priority, msgID, data, text string) {
	t.Helper()
	m := line.FindStringSubmatch(frame)
	if m == nil || !utf8.ValidString(frame) {
		t.Fatalf("the message does not follow RFC 5424: %q", frame)
	}
	if at, err := time.Parse(time.RFC3339Nano, m[2]); err != nil || at.Unix() != eventMessage().At.Unix() {
		t.Errorf("the time is %s, want that of the message", m[2])
	}
	return m[1], m[4], m[5], m[6]
}

func TestSyslog_SendsRFC5424OverEachTransport(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"tcp", "tls", "udp"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t, scheme)
			s := syslogOf(t, c)
			wantKind(t, s.Send(t.Context(), alertMessage()), "accepted")
			priority, msgID, data, text := parseLine(t, c.next(t))
			wantData := ` id="alert-1-3" topic="alerts" code="NO_WORKER" tenant="acme" project="sales" environment="prod"` +
				` plan="nightly" run="run-1" level="HIGH" key="NO_WORKER/acme/tq-data-prod"`
			wantText := "No worker takes steps of tq-data-prod Open. Level: High. Seen 3 times. Start a worker for this queue. " +
				"Ask the administrator of the installation. https://dvt.example.com/alerts/NO_WORKER"
			if priority != "130" || msgID != "AlertOpened" || data != wantData || text != wantText {
				t.Errorf("the message is <%s> %s [%s] %q,\nwant <130> AlertOpened [%s] %q",
					priority, msgID, data, text, wantData, wantText)
			}
			wantKind(t, s.Send(t.Context(), eventMessage()), "accepted")
			priority, _, data, text = parseLine(t, c.next(t))
			if !json.Valid([]byte(text)) || priority != "134" || !strings.Contains(data, ` seq="17"`) {
				t.Errorf("the event is <%s> [%s] %q, want <134>, its position and JSON", priority, data, text)
			}
		})
	}
}

func TestSyslog_MapsLevels(t *testing.T) {
	t.Parallel()
	c := newCollector(t, "tcp")
	s := syslogOf(t, c)
	for level, want := range map[string]string{"HIGH": "130", "MEDIUM": "131", "LOW": "132", "": "132"} {
		m := alertMessage()
		m.Level = level
		wantKind(t, s.Send(t.Context(), m), "accepted")
		if priority, _, _, _ := parseLine(t, c.next(t)); priority != want {
			t.Errorf("the level %q has the priority %s, want %s", level, priority, want)
		}
	}
	m := alertMessage()
	m.Type, m.Alert.Resolved = "AlertResolved", true
	wantKind(t, s.Send(t.Context(), m), "accepted")
	if priority, _, _, _ := parseLine(t, c.next(t)); priority != "133" {
		t.Errorf("a resolved alert has the priority %s, want 133", priority)
	}
}

// One message stays one message of one line, whatever a tenant writes, and says when it was shortened.
func TestSyslog_HostileTextForgesNothing(t *testing.T) {
	t.Parallel()
	for scheme, limit := range map[string]int{"tcp": 8192, "udp": 1400} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t, scheme)
			s := syslogOf(t, c)
			quotes := hostileAlert()
			for _, field := range []*string{&quotes.ID, &quotes.TenantID, &quotes.ProjectID, &quotes.EnvironmentID,
				&quotes.PlanID, &quotes.RunID, &quotes.Level, &quotes.Alert.Key, &quotes.Alert.Code, &quotes.Type} {
				*field = strings.Repeat(`\"]`, 200)
			}
			event := eventMessage()
			event.Data = []byte("{\"a\":\n\"" + strings.Repeat("é", 20000) + "\"}")
			for _, m := range []destination.Message{hostileAlert(), quotes, event} {
				wantKind(t, s.Send(t.Context(), m), "accepted")
				frame := c.next(t)
				_, _, data, text := parseLine(t, frame)
				if len(frame) > limit || !strings.Contains(data, ` truncated="true"`) || !strings.HasSuffix(text, "…") {
					t.Errorf("the message has %d bytes, want at most %d and the mark of a shortened one: %.200q", len(frame), limit, data)
				}
			}
		})
	}
}

func TestSyslog_ConnectsAgain(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"tcp", "tls"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t, scheme)
			s := syslogOf(t, c)
			for range 3 {
				wantKind(t, s.Send(t.Context(), eventMessage()), "accepted")
				c.next(t)
				wantKind(t, s.Send(t.Context(), eventMessage()), "accepted")
				c.next(t)
				(<-c.accepted).Close()
				time.Sleep(100 * time.Millisecond) // the end must arrive: syslog acknowledges nothing
			}
			if n := len(c.accepted); n > 0 {
				t.Errorf("%d connections more than restarts were made", n)
			}
		})
	}
}

// A collector that reads nothing costs the deadline, and not more for those that wait for the connection.
func TestSyslog_HangingCollectorCostsTheDeadline(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := newSender(t, destination.Config{Kind: destination.Syslog, URL: "tcp://" + l.Addr().String()})
	m := eventMessage()
	m.Data = []byte(`"` + strings.Repeat("x", 8_000) + `"`)
	const deadline = 3 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	began := time.Now()
	ended := make(chan error, 8)
	for range 8 {
		go func() {
			for {
				if err := s.Send(ctx, m); err != nil {
					ended <- err
					return
				}
			}
		}()
	}
	err = nil
	var took time.Duration
	for err == nil { // until the buffers of both sides are full
		short, cancelShort := context.WithTimeout(t.Context(), deadline/10)
		start := time.Now()
		err = s.Send(short, m)
		took = time.Since(start)
		cancelShort()
	}
	wantKind(t, err, "again")
	if took > deadline/2 {
		t.Errorf("a send that waits for its turn ended after %s, want its own deadline", took)
	}
	for range 8 {
		wantKind(t, <-ended, "again")
	}
	if took = time.Since(began); took > deadline+2*time.Second {
		t.Errorf("the sends ended after %s, want %s", took, deadline)
	}
}

func TestSyslog_RefusesAnUnknownAuthority(t *testing.T) {
	t.Parallel()
	s := newSender(t, destination.Config{Kind: destination.Syslog, URL: "tls://receiver.test:" + listenTLS(t, stranger)})
	err := s.Send(t.Context(), eventMessage())
	if wantKind(t, err, "again"); !strings.Contains(fmt.Sprint(err), "certificate is not valid") {
		t.Errorf("the error is %v, want that the certificate is not valid", err)
	}
}
