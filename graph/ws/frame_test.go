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

// Frames of every length form, for one viewer and for many with heads of their own.
func TestFrame_EveryLengthIsWellFormed(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 30, 60, 65, 100, 125, 126, 500, 65_000, 65_400, 65_500, 65_536, 70_000, 1 << 20} {
		for _, shared := range []bool{false, true} {
			data := `"` + strings.Repeat("y", size) + `"`
			cfg := ws.Config{}
			if shared {
				cfg.Share = func(context.Context, *graphql.OperationContext) (*ws.Shared, error) {
					return &ws.Shared{Key: "a", Ticket: &right{}, Open: func(context.Context) (ws.Source, error) {
						return still(`{"data":` + data + `}`), nil
					}}, nil
				}
			}
			s := start(t, cfg, once(data))
			c := s.rawOpen(t)
			for _, id := range []string{"1", "2", strings.Repeat("long", 40), "ü\"", strings.Repeat("x", 70_000), "1b"} {
				quoted, _ := json.Marshal(id)
				c.text(fmt.Sprintf(`{"id":%s,"type":"subscribe","payload":{"query":"subscription { a }"}}`, quoted))
				want := fmt.Sprintf(`{"id":%s,"type":"next","payload":{"data":%s}}`, quoted, data)
				if opcode, got := c.frame(); opcode != 1 || string(got) != want {
					t.Fatalf("size %d, id of %d: got %d %.200s (%d bytes)", size, len(id), opcode, got, len(got))
				}
				if !shared {
					c.frame() // complete
				}
			}
		}
	}
}

// still is a source in which nothing happens.
type still string

func (still) Wait(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
func (still) Close()                         {}
func (s still) Next(b []byte) ([]byte, ws.Position, error) {
	return append(b, s...), ws.Position{}, nil
}
func (s still) First(*ws.Position, bool) (ws.Payload, error) {
	return ws.Payload{Data: []byte(s)}, nil
}

func TestFrame_PongCarriesTheDataOfThePing(t *testing.T) {
	t.Parallel()
	s := start(t, ws.Config{}, once(`1`))
	c := s.rawDial(t)
	_, _ = c.Write(masked(9, []byte("are you there")))
	if opcode, data := c.frame(); opcode != 10 || string(data) != "are you there" {
		t.Errorf("got %d %s", opcode, data)
	}
}
