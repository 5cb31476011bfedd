package redisbus_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dvt-engine/dvt/internal/secretfile"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/live/redisbus"
)

// lines is a log buffer for concurrent writers.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func TestBus_UsesTLSAndTheCurrentPassword(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	servers, clients := testserver.NewAuthority(t, "servers"), testserver.NewAuthority(t, "clients")
	addr := testserver.RedisTLS(t, servers.Issue(t, "redis", "127.0.0.1"), clients, "--requirepass", "first")
	ca := testserver.WriteFile(t, dir, "ca.pem", servers.PEM)
	cert, key := clients.Issue(t, "dvt").Write(t, dir, "dvt")
	files := secretfile.Files{CA: ca, Cert: cert, Key: key}
	config, err := files.Client(slog.New(slog.DiscardHandler), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	var password atomic.Value
	password.Store("first")
	log := &lines{}
	b, err := redisbus.Open(redisbus.Config{
		URL: "rediss://" + addr + "/0", TLS: config, Password: func() string { return password.Load().(string) },
		Logger: slog.New(slog.NewTextHandler(log, nil)), PingInterval: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	eventually(t, 5*time.Second, "up", b.Up)
	publish(t, b, message("r1", 7))
	admin := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: config, Password: "first"})
	defer admin.Close()
	drop := func() {
		for _, kind := range []string{"normal", "pubsub"} {
			_ = admin.Do(context.Background(), "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes").Err()
		}
	}
	if err := admin.Do(t.Context(), "CONFIG", "SET", "requirepass", "second").Err(); err != nil {
		t.Fatal(err)
	}
	drop()
	eventually(t, 5*time.Second, "down, because the bus still sends the old password", func() bool { return !b.Up() })
	password.Store("second")
	eventually(t, 5*time.Second, "up with the new password", b.Up)
	publish(t, b, message("r1", 8))
	said := log.String()
	if n := strings.Count(said, "level=WARN"); n == 0 || n > 3 || !strings.Contains(said, "WRONGPASS") ||
		!strings.Contains(said, "answers again") ||
		strings.Contains(said, "second") {
		t.Errorf("want a log that names the reason one to three times and never the password; got:\n%s", said)
	}
	others, err := secretfile.Files{CA: ca}.Client(slog.New(slog.DiscardHandler), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	stranger := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: others, Password: "second", MaxRetries: -1})
	defer stranger.Close()
	if err := stranger.Ping(t.Context()).Err(); err == nil {
		t.Error("the server accepts connections without a client certificate, so this test proves nothing about certificates")
	}
}
