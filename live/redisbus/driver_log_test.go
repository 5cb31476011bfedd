package redisbus_test

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/secretfile"
	"github.com/dvt-engine/dvt/live/redisbus"
)

// addressOfDriver names the address that the process of the test below connects to.
const addressOfDriver = "DVT_TEST_REDIS_OF_DRIVER"

// The driver has a logger of its own, which writes several lines a second to stderr while TLS fails, whatever the level
// and the form of dvt's log are. The bus says the reason, in one line.
func TestBus_TheDriverWritesNoLines(t *testing.T) {
	t.Parallel()
	if at := os.Getenv(addressOfDriver); at != "" {
		useBrokenTLS(t, at)
		return
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("-ERR this speaks no TLS\r\n"))
			_ = conn.Close()
		}
	}()
	var stderr bytes.Buffer
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBus_TheDriverWritesNoLines$")
	child.Env = append(os.Environ(), addressOfDriver+"="+l.Addr().String())
	child.Stderr = &stderr
	if out, err := child.Output(); err != nil {
		t.Fatalf("the process ended with %v: %s%s", err, out, stderr.Bytes())
	}
	if stderr.Len() > 0 {
		t.Errorf("the driver wrote to stderr, want nothing:\n%s", stderr.Bytes())
	}
}

// useBrokenTLS uses a bus for a second whose server does not speak TLS.
func useBrokenTLS(t *testing.T, at string) {
	t.Helper()
	config, err := secretfile.Files{}.Client(slog.New(slog.DiscardHandler), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	b, err := redisbus.Open(redisbus.Config{URL: "rediss://" + at + "/0", TLS: config,
		Logger: slog.New(slog.NewTextHandler(log, nil)), PingInterval: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	for range 20 {
		_ = b.Publish(t.Context(), message("r1", 1))
		time.Sleep(50 * time.Millisecond)
	}
	if b.Up() || log.String() == "" {
		t.Errorf("the bus is up %t and says %q, want down with a reason", b.Up(), log.String())
	}
}
