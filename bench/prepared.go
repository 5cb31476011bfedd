package main

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/gorilla/websocket"
)

// template is a message whose runSeq can be replaced.
type template struct{ before, after string }

func newTemplate(message string) template {
	at := strings.Index(message, string(seqKey)) + len(seqKey)
	rest := strings.TrimLeft(message[at:], "0123456789")
	return template{message[:at], rest}
}

func (t template) with(seq int64) []byte {
	return append(strconv.AppendInt([]byte(t.before), seq, 10), t.after...)
}

// servePrepared sends the payload to all connected viewers with websocket.PreparedMessage, in the usual way: one
// goroutine per socket receives it from a channel and writes it with a deadline.
func servePrepared(_ context.Context, o rig.Options) (figureServer, error) {
	text := newTemplate(o.Payload)
	var (
		mu    sync.Mutex
		peers []chan *websocket.PreparedMessage
		seq   int64
	)
	upgrader := websocket.Upgrader{WriteBufferPool: &sync.Pool{}}
	connect := func(w http.ResponseWriter, r *http.Request) {
		sock, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		out := make(chan *websocket.PreparedMessage, 16)
		mu.Lock()
		peers = append(peers, out)
		mu.Unlock()
		go func() {
			for m := range out {
				_ = sock.SetWriteDeadline(time.Now().Add(rig.Patience))
				if sock.WritePreparedMessage(m) != nil {
					return
				}
			}
		}()
		if hello, err := websocket.NewPreparedMessage(websocket.TextMessage, []byte(welcome)); err == nil {
			out <- hello
		}
		for {
			if _, _, err := sock.ReadMessage(); err != nil {
				return
			}
		}
	}
	publish := func(context.Context) (int64, time.Time, error) {
		mu.Lock()
		defer mu.Unlock()
		seq++
		at := time.Now()
		m, err := websocket.NewPreparedMessage(websocket.TextMessage, text.with(seq))
		for _, out := range peers {
			out <- m
		}
		return seq, at, err
	}
	return figureServer{handler: http.HandlerFunc(connect), publish: publish, close: func() error { return nil }}, nil
}

const welcome = "welcome"

// preparedDialect is the protocol of servePrepared: the viewer sends nothing.
func preparedDialect() dialect { return dialect{path: "/", welcome: welcome} }
