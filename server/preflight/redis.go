package preflight

import (
	"context"

	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/server/connect"
)

// accessList is the least that the user of Redis needs.
const accessList = "ACL SETUSER dvt on >PASSWORD resetkeys resetchannels &dvt:* -@all +ping +hello +auth +client " +
	"+publish +subscribe +unsubscribe"

func (t *target) redis(ctx context.Context, l *list) {
	if t.Redis == "" {
		return // a finding of the settings
	}
	to, err := connect.Redis(t.Config, t.log)
	if err != nil {
		l.missing("files", err.Error(), "the process cannot connect without them", "correct the file that the finding names")
		return
	}
	calls, err := redisbus.Inspect(ctx, to)
	if err != nil {
		l.missing("address", err.Error(), "the process cannot connect", "write redis as redis://HOST:PORT/0 or rediss://…")
		return
	}
	for _, call := range calls {
		switch {
		case call.Err == nil:
		case call.Command == "PING":
			l.missing("reachable", "the connection failed: "+call.Err.Error(),
				"without Redis views are polled and seconds late",
				"check redis, redis-password-file and redis-tls-…; the user needs: "+accessList)
			return
		default:
			l.missing("rights", call.Command+" failed: "+call.Err.Error(), "viewers get no live updates", accessList)
		}
	}
	l.ok("reachable", "Redis answers")
	if len(l.findings) == 1 {
		l.ok("rights", "the user may call every command of dvt on the channels dvt:*")
	}
	if to.TLS == nil {
		l.note("TLS", "the connection is in plain text", "others on the way could read what viewers see",
			"use rediss:// in redis unless the server is on this machine")
	} else {
		l.ok("TLS", "the connection is encrypted")
	}
	l.ok("eviction", "dvt keeps no keys in Redis, so its policy of eviction has no effect on dvt")
}
