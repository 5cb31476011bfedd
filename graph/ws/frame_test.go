package ws_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/99designs/gqlgen/graphql"

	"github.com/dvt-engine/dvt/graph/ws"
)

// Frame headers have three forms, by length. Shared frames also replace the head for each viewer.
func TestFrame_EveryLengthIsWellFormed(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 30, 60, 65, 100, 125, 126, 500, 65_000, 65_400, 65_500, 65_536, 70_000, 1 << 20} {
		for _, shared := range []bool{false, true} {
			data := `"` + strings.Repeat("y", size) + `"`
			cfg := ws.Config{}
			if shared {
				cfg.Share = func(context.Context, *graphql.OperationContext) (*ws.Shared, error) {
					return &ws.Shared{Key: "a", Ticket: &fakeTicket{}, Open: func(context.Context) (ws.Source, error) {
						return staticSource(`{"data":` + data + `}`), nil
					}}, nil
				}
			}
			s := start(t, cfg, respondOnce(data))
			c := s.rawOpen(t)
			for _, id := range []string{"1", "2", strings.Repeat("long", 40), "ü\"", strings.Repeat("x", 70_000), "1b"} {
				quoted, _ := json.Marshal(id)
				c.text(fmt.Sprintf(`{"id":%s,"type":"subscribe","payload":{"query":"subscription { a }"}}`, quoted))
				want := fmt.Sprintf(`{"id":%s,"type":"next","payload":{"data":%s}}`, quoted, data)
				if opcode, got := c.frame(); opcode != 1 || string(got) != want {
					t.Fatalf("payload of %d bytes, id of %d bytes: got opcode %d and %.200s (%d bytes), want opcode 1 and %.200s",
						size, len(id), opcode, got, len(got), want)
				}
				if !shared {
					c.frame() // complete
				}
			}
		}
	}
}

// staticSource is a source without updates.
type staticSource string

func (staticSource) Wait(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
func (staticSource) Close()                         {}
func (s staticSource) Next(b []byte) ([]byte, ws.Position, error) {
	return append(b, s...), ws.Position{}, nil
}
func (s staticSource) First(*ws.Position, bool) (ws.Payload, error) {
	return ws.Payload{Data: []byte(s)}, nil
}

func TestFrame_PongCarriesTheDataOfThePing(t *testing.T) {
	t.Parallel()
	s := start(t, ws.Config{}, respondOnce(`1`))
	c := s.rawDial(t)
	_, _ = c.Write(masked(9, []byte("are you there")))
	if opcode, data := c.frame(); opcode != 10 || string(data) != "are you there" {
		t.Errorf("got opcode %d with %q, want a pong (10) with the data of the ping", opcode, data)
	}
}
