package redisbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/dvt-engine/dvt/live"
)

var errDown = errors.New("redisbus: down")

// Publish implements live.Bus.
func (b *Bus) Publish(ctx context.Context, m live.Message) error {
	body, err := encode(m)
	if err != nil {
		return fmt.Errorf("redisbus: %w: %w", live.ErrRefused, err)
	}
	if !b.up.Load() {
		return errDown
	}
	return classify(b.client.Publish(ctx, runChannel(m.RunID), body).Err())
}

// WakeLists implements live.Bus in one round trip, with one message for each channel.
func (b *Bus) WakeLists(ctx context.Context, lists ...live.List) error {
	if !b.up.Load() {
		return errDown
	}
	woken := map[string]bool{}
	_, err := b.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, l := range lists {
			for _, project := range []string{l.ProjectID, "*"} {
				if name := listChannel(l.TenantID, project); !woken[name] {
					woken[name] = true
					p.Publish(ctx, name, "")
				}
			}
		}
		return nil
	})
	return classify(err)
}

// unavailableCodes lists the reply codes by which a server says that it cannot serve now, or not this client. They say
// nothing about the message.
var unavailableCodes = []string{"LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "OOM", "MISCONF",
	"NOREPLICAS",
	"BUSY", "NOAUTH", "WRONGPASS", "NOPERM", "MOVED", "ASK"}

// classify separates a refusal of the message from a bus that cannot be used (contract T124). A reply of the server
// is a refusal unless its code says otherwise.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var reply redis.Error
	about := func(code string) bool { return redis.HasErrorPrefix(err, code+" ") }
	if errors.As(err, &reply) && !redis.IsMaxClientsError(err) && !slices.ContainsFunc(unavailableCodes, about) {
		return fmt.Errorf("redisbus: %w: %w", live.ErrRefused, err)
	}
	return fmt.Errorf("redisbus: publish: %w", err)
}

// encode omits the delta of a message that would be too large (contract O8).
func encode(m live.Message) ([]byte, error) {
	body, err := json.Marshal(m)
	if err == nil && len(body) > live.MaxMessage && m.Delta != nil {
		m.Delta = nil
		return json.Marshal(m)
	}
	return body, err
}
