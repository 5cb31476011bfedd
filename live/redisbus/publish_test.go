package redisbus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/live/redisbus"
)

// unmonitored opens a bus that does not ping the server.
func unmonitored(t *testing.T, addr string) *redisbus.Bus {
	t.Helper()
	b, err := redisbus.Open(redisbus.Config{URL: "redis://" + addr + "/0", PingInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// contract: T124
func TestPublish_DistinguishesRefusalsFromOutages(t *testing.T) {
	t.Parallel()
	for reply, refused := range map[string]bool{
		"ERR Protocol error: invalid bulk length":                       true,
		"ERR value is out of range":                                     true,
		"LOADING Redis is loading the dataset in memory":                false,
		"READONLY You can't write against a read only replica.":         false,
		"CLUSTERDOWN The cluster is down":                               false,
		"MASTERDOWN Link with MASTER is down":                           false,
		"OOM command not allowed when used memory > 'maxmemory'.":       false,
		"NOAUTH Authentication required.":                               false,
		"WRONGPASS invalid username-password pair or user is disabled.": false,
		"NOPERM No permissions to access a channel":                     false,
		"TRYAGAIN Multiple keys request during rehashing of slot":       false,
		"MISCONF Redis is configured to save RDB snapshots":             false,
		"BUSY Redis is busy running a script.":                          false,
		"NOREPLICAS Not enough good replicas to write.":                 false,
		"ERR max number of clients reached":                             false,
		"LOADINGS is no code of a server that cannot serve":             true,
	} {
		server := miniredis.RunT(t)
		b := unmonitored(t, server.Addr())
		publish(t, b, message("r1", 7))
		server.SetError(reply)
		if err := b.Publish(t.Context(), message("r1", 8)); err == nil || errors.Is(err, live.ErrRefused) != refused {
			t.Errorf("reply %q: error %v", reply, err)
		}
		server.SetError("")
		publish(t, b, message("r1", 8))
	}
}

// contract: T124
func TestPublish_NetworkErrorsAreNotRefusals(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	b := unmonitored(t, server.Addr())
	publish(t, b, message("r1", 7))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Publish(over, message("r1", 8)); err == nil || errors.Is(err, live.ErrRefused) {
		t.Errorf("error after the context ended is %v", err)
	}
	server.Close()
	if err := b.Publish(t.Context(), message("r1", 8)); err == nil || errors.Is(err, live.ErrRefused) {
		t.Errorf("error without a server is %v", err)
	}
}

// Redis refuses the user, not the message, when the user has no right to publish.
// contract: T124
func TestPublish_MissingRightIsNoRefusalOfTheMessage(t *testing.T) {
	t.Parallel()
	addr := testserver.Redis(t).Addr
	admin := redis.NewClient(&redis.Options{Addr: addr})
	defer admin.Close()
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "dvt", "on", ">pw", "+@all", "-publish", "~*",
		"&*").Err(); err != nil {
		t.Fatal(err)
	}
	b, err := redisbus.Open(redisbus.Config{URL: "redis://dvt:pw@" + addr + "/0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	if err := b.Publish(t.Context(), message("r1", 8)); err == nil || errors.Is(err, live.ErrRefused) {
		t.Error(err)
	}
	eventually(t, 5*time.Second, "up, because it answers pings", b.Up)
}
