package artifact_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
)

const logServerEnv = "DVT_ARTIFACT_LOG_SERVER"

// appendCall is what a worker sends to the server of the campaign.
type appendCall struct {
	EngineAttempt int
	From          int64
	Lines         []artifact.Line
}

// TestLogServer_Child is the server that the campaign kills: it appends the lines of each call to the bucket at the
// address in the environment. It ends when its input does, and does nothing in other processes.
func TestLogServer_Child(t *testing.T) {
	address := os.Getenv(logServerEnv)
	if address == "" {
		return
	}
	s, err := artifact.Open(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
	fmt.Println("listening", listener.Addr())
	_ = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // a test
		var c appendCall
		err := json.NewDecoder(r.Body).Decode(&c)
		if err == nil {
			err = s.Append(r.Context(), attempt, c.EngineAttempt, c.From, c.Lines)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}))
}

// logServer is a running server of the campaign.
type logServer struct {
	url  string
	cmd  *exec.Cmd
	stop io.Closer
}

func startLogServer(t *testing.T, address string) *logServer {
	t.Helper()
	for range 20 { // the bucket may be down at that moment
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^TestLogServer_Child$")
		cmd.Env = append(os.Environ(), logServerEnv+"="+address)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, _ := bufio.NewReader(out).ReadString('\n')
		if at, ok := strings.CutPrefix(line, "listening "); ok {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return &logServer{"http://" + strings.TrimSpace(at), cmd, in}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Fatal("the server of the campaign does not start")
	return nil
}

func (s *logServer) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = s.stop.Close()
}

// logWorkerEnv makes this test binary a worker of the campaign; its value is the engine attempt.
const logWorkerEnv = "DVT_ARTIFACT_LOG_WORKER"

// TestLogWorker_Child is the worker that the campaign kills: it sends lines of one engine attempt to the server whose
// address it reads last from its input, in batches of random sizes, each until it is acknowledged. It prints the last
// acknowledged line after each batch. It ends when its input does, and does nothing in other processes.
func TestLogWorker_Child(t *testing.T) {
	engineAttempt, err := strconv.Atoi(os.Getenv(logWorkerEnv))
	if err != nil {
		return
	}
	var server atomic.Value
	in := bufio.NewScanner(os.Stdin)
	if !in.Scan() {
		t.Fatal("the worker got no address")
	}
	server.Store(in.Text())
	go func() {
		for in.Scan() {
			server.Store(in.Text())
		}
		os.Exit(0)
	}()
	client := http.Client{Timeout: 2 * time.Second}
	for from := int64(1); ; {
		n := rand.Int64N(400) + 1
		lines := make([]artifact.Line, n)
		for i := range lines {
			lines[i] = artifact.Line{Stream: "stdout", Text: fmt.Sprint(engineAttempt, " ", from+int64(i))}
		}
		body, err := json.Marshal(appendCall{engineAttempt, from, lines})
		if err != nil {
			t.Fatal(err)
		}
		for isAcknowledged := false; !isAcknowledged; {
			address, _ := server.Load().(string)
			res, err := client.Post(address, "application/json", bytes.NewReader(body))
			if err == nil {
				_ = res.Body.Close()
				isAcknowledged = res.StatusCode == http.StatusOK
			}
			if !isAcknowledged {
				time.Sleep(5 * time.Millisecond)
			}
		}
		from += n
		fmt.Println("acknowledged", from-1)
		time.Sleep(rand.N(5 * time.Millisecond))
	}
}

// logWorker is a running worker of the campaign.
type logWorker struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan struct{} // closed when everything that it printed was read
}

// campaign is the state of a run of kills.
type campaign struct {
	t      *testing.T
	bucket *testserver.S3Server
	server *logServer
	worker *logWorker
	acked  map[int]int64 // the last acknowledged line, by engine attempt
}

// startWorker starts the worker of an engine attempt.
func (c *campaign) startWorker(engineAttempt int) {
	c.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(c.t.Context()), os.Args[0], "-test.run=^TestLogWorker_Child$")
	cmd.Env = append(os.Environ(), logWorkerEnv+"="+strconv.Itoa(engineAttempt))
	in, err := cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.worker = &logWorker{cmd, in, make(chan struct{})}
	c.tellServer()
	go func() {
		defer close(c.worker.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if n, ok := strings.CutPrefix(lines.Text(), "acknowledged "); ok {
				if last, err := strconv.ParseInt(n, 10, 64); err == nil {
					c.acked[engineAttempt] = last
				}
			}
		}
	}()
}

// tellServer tells the worker where the server is.
func (c *campaign) tellServer() {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.worker.in, c.server.url); err != nil {
		c.t.Fatalf("the worker does not read: %v", err)
	}
}

// killWorker kills the worker with SIGKILL, and reads the rest of its output.
func (c *campaign) killWorker() {
	c.t.Helper()
	_ = c.worker.cmd.Process.Kill()
	<-c.worker.done
	_ = c.worker.cmd.Wait()
	_ = c.worker.in.Close()
}

// A kill of the worker, the server or the bucket at any moment loses no acknowledged line, repeats none, and tears no
// object.
func TestLogs_NoAcknowledgedLineIsLostByAKill(t *testing.T) {
	t.Parallel()
	bucket := testserver.S3(t)
	address := bucket.URL(bucket.Addr)
	c := &campaign{t: t, bucket: bucket, server: startLogServer(t, address), acked: map[int]int64{}}
	t.Cleanup(func() { c.server.kill() })
	rounds := testtime.Rounds(20)
	engineAttempt := 1
	c.startWorker(engineAttempt)
	t.Cleanup(func() { _ = c.worker.cmd.Process.Kill() })
	kills := map[string]int{}
	for range rounds {
		time.Sleep(20*time.Millisecond + rand.N(100*time.Millisecond))
		victim := []string{"worker", "server", "bucket"}[rand.IntN(3)]
		kills[victim]++
		switch victim {
		case "worker": // the platform starts the next engine attempt
			c.killWorker()
			engineAttempt++
			c.startWorker(engineAttempt)
		case "server":
			c.server.kill()
			c.server = startLogServer(t, address)
			c.tellServer()
		case "bucket":
			bucket.Kill()
			bucket.Start()
		}
	}
	time.Sleep(200 * time.Millisecond)
	c.killWorker()
	c.check(open(t, address, artifact.Limits{}), kills)
}

// check compares the log with what was acknowledged.
func (c *campaign) check(s *artifact.Store, kills map[string]int) {
	c.t.Helper()
	next := map[int]int64{}
	for from := int64(1); ; {
		page, err := s.Read(c.t.Context(), attempt, from, artifact.MaxReadLines)
		if err != nil {
			c.t.Fatalf("read from %d: %v", from, err)
		}
		if len(page.Lines) == 0 {
			break
		}
		for _, l := range page.Lines {
			next[l.EngineAttempt]++
			if want := fmt.Sprint(l.EngineAttempt, " ", next[l.EngineAttempt]); l.Text != want {
				c.t.Fatalf("line %d is %q, want %q", l.No, l.Text, want)
			}
		}
		from = page.Lines[len(page.Lines)-1].No + 1
	}
	var acked, lost int64
	for engineAttempt, n := range c.acked {
		acked += n
		lost += max(0, n-next[engineAttempt])
	}
	c.t.Logf("kills %v: %d acknowledged lines of %d engine attempts, %d lost, 0 torn", kills, acked, len(c.acked), lost)
	if lost > 0 || acked == 0 {
		c.t.Errorf("%d of %d acknowledged lines are lost", lost, acked)
	}
}
