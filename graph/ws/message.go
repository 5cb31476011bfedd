package ws

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// Message types of graphql-transport-ws.
const (
	typeInit      = "connection_init"
	typeAck       = "connection_ack"
	typePing      = "ping"
	typePong      = "pong"
	typeSubscribe = "subscribe"
	typeNext      = "next"
	typeError     = "error"
	typeComplete  = "complete"
)

type message struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

func parseMessage(data []byte) (message, error) {
	var m message
	if err := decode(data, &m); err != nil {
		return m, err
	}
	if (m.Type == typeSubscribe || m.Type == typeComplete) && m.ID == "" {
		return m, errors.New("ws: message without an id")
	}
	return m, nil
}

func parseInit(payload json.RawMessage) (map[string]any, error) {
	if len(payload) == 0 {
		return map[string]any{}, nil
	}
	var init map[string]any
	err := decode(payload, &init)
	return init, err
}

func parseSubscribe(payload json.RawMessage) (*graphql.RawParams, error) {
	if len(payload) == 0 {
		return nil, errors.New("ws: subscribe without a payload")
	}
	params := &graphql.RawParams{}
	return params, decode(payload, params)
}

// decode decodes exactly one JSON value. Numbers become json.Number, because a float64 loses digits of 64-bit integers.
func decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("ws: malformed message: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("ws: more than one value in a message")
	}
	return nil
}

func appendHead(b []byte, id, kind string) []byte {
	quoted, _ := json.Marshal(id) // encoding a string cannot fail
	b = append(append(b, `{"id":`...), quoted...)
	return append(append(append(b, `,"type":"`...), kind...), '"')
}

// nextHead returns the start of a next message; the payload and a closing brace follow it.
func nextHead(id string) string {
	return string(append(appendHead(nil, id, typeNext), `,"payload":`...))
}

func errorMessage(id string, errs gqlerror.List) []byte {
	return append(appendErrors(append(appendHead(nil, id, typeError), `,"payload":`...), errs), '}')
}

func completeMessage(id string) []byte { return append(appendHead(nil, id, typeComplete), '}') }
