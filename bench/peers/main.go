// Command peers is the server with which the figures of dvt's live path are compared: centrifuge, with its broker in
// memory and JSON. It is a module of its own, so that dvt does not depend on centrifuge. It serves websockets on a free
// port until standard input ends, and reads commands line by line as described in bench/serve.go.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/centrifugal/centrifuge"
)

func main() {
	if err := serve(); err != nil {
		log.Fatal(err)
	}
}

func serve() error {
	// As in bench/serve.go: a thread that blocks in read would occupy the only processor.
	if err := syscall.SetNonblock(syscall.Stdin, true); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.NewFile(uintptr(syscall.Stdin), "standard input"))
	lines.Buffer(nil, 1<<20)
	lines.Scan()
	var o struct {
		Payload string `json:"payload"`
	}
	if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
		return err
	}
	p, err := newPublisher(o.Payload)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/connection/websocket", centrifuge.NewWebsocketHandler(p.node,
		centrifuge.WebsocketConfig{UseWriteBufferPool: true}))
	go func() { log.Fatal(http.Serve(ln, mux)) }()
	fmt.Println(ln.Addr())
	for lines.Scan() {
		answer, err := p.answer(lines.Text())
		if err != nil {
			return err
		}
		fmt.Println(answer)
	}
	return lines.Err()
}

const channel = "run"

// publisher publishes a payload and increments its runSeq each time.
type publisher struct {
	node          *centrifuge.Node
	before, after string
	seq           int64
}

func newPublisher(payload string) (*publisher, error) {
	const key = `"runSeq":`
	at := strings.Index(payload, key) + len(key)
	p := &publisher{before: payload[:at], after: strings.TrimLeft(payload[at:], "0123456789")}
	var err error
	if p.node, err = centrifuge.New(centrifuge.Config{}); err != nil {
		return nil, err
	}
	p.node.OnConnecting(func(context.Context, centrifuge.ConnectEvent) (centrifuge.ConnectReply, error) {
		return centrifuge.ConnectReply{
			Credentials:   &centrifuge.Credentials{UserID: "viewer"},
			Subscriptions: map[string]centrifuge.SubscribeOptions{channel: {}},
		}, nil
	})
	return p, p.node.Run()
}

// answer executes one command and returns the line to print.
func (p *publisher) answer(command string) (string, error) {
	switch word, rest, _ := strings.Cut(command, " "); word {
	case "publish":
		return p.publish(rest)
	case "cpu":
		var u syscall.Rusage
		err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return strconv.FormatInt(u.Utime.Nano()+u.Stime.Nano(), 10), err
	case "memory":
		debug.FreeOSMemory()
		debug.FreeOSMemory()
		return resident()
	}
	return "", fmt.Errorf("unknown command %q", command)
}

// publish publishes n updates, one every interval, and returns the seq and the time of each.
func (p *publisher) publish(rest string) (string, error) {
	var n int
	var interval time.Duration
	if _, err := fmt.Sscan(rest, &n, (*int64)(&interval)); err != nil {
		return "", err
	}
	var published strings.Builder
	for due := time.Now(); n > 0; n, due = n-1, due.Add(interval) {
		time.Sleep(time.Until(due))
		p.seq++
		at := time.Now()
		if _, err := p.node.Publish(channel, append(strconv.AppendInt([]byte(p.before), p.seq, 10), p.after...)); err != nil {
			return "", err
		}
		fmt.Fprintf(&published, "%d %d ", p.seq, at.UnixNano())
	}
	return published.String(), nil
}

// resident returns the resident memory of this process, in bytes.
func resident() (string, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return "", err
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return "", err
	}
	return strconv.FormatInt(pages*int64(os.Getpagesize()), 10), nil
}
