package redisbus

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Call is one command that the bus needs, as Inspect tried it.
type Call struct {
	Command string // such as PUBLISH
	Err     error  // nil: the server accepted it
}

// Inspect tries every command of the bus on a channel that nobody listens to, in the order in which the bus uses them.
// It stops at the first command without which the later ones cannot be tried. The server keeps nothing of it. ctx
// bounds all calls together. The error is that of the settings.
func Inspect(ctx context.Context, cfg Config) ([]Call, error) {
	opts, err := cfg.options()
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(opts)
	defer client.Close()
	if err := client.Ping(ctx).Err(); err != nil {
		return []Call{{"PING", err}}, nil
	}
	out := []Call{{Command: "PING"}}
	channel := runChannel("preflight-" + rand.Text())
	out = append(out, subscribe(ctx, client, channel)...)
	return append(out, Call{"PUBLISH", client.Publish(ctx, channel, "").Err()}), nil
}

func subscribe(ctx context.Context, client *redis.Client, channel string) []Call {
	s := client.Subscribe(ctx)
	defer s.Close()
	for _, step := range []struct {
		command string
		send    func(context.Context, ...string) error
	}{{"SUBSCRIBE", s.Subscribe}, {"UNSUBSCRIBE", s.Unsubscribe}} {
		err := step.send(ctx, channel)
		if err == nil {
			_, err = s.Receive(ctx)
		}
		if err != nil {
			return []Call{{step.command, fmt.Errorf("on the channels dvt:*: %w", err)}}
		}
	}
	return []Call{{Command: "SUBSCRIBE"}, {Command: "UNSUBSCRIBE"}}
}
