package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dvt-engine/dvt/bench/rig"
)

// peers is the path of the program of bench/peers, which `make bench` builds. It is a module of its own, so that dvt
// does not depend on the libraries that it is compared with.
const peers = "bin/bench-peers"

// startCentrifuge starts a centrifuge server that publishes the payload.
func startCentrifuge(ctx context.Context, payload string) (*rig.Service, error) {
	program, err := filepath.Abs(peers)
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		return nil, fmt.Errorf(
			"%s is missing, the program that dvt is compared with: run `go build -C bench/peers -o ../../%s .` at the root "+
				"of the checkout; "+
				"it downloads the modules in bench/peers/go.mod", peers, peers)
	}
	return rig.StartService(ctx, rig.ServerCore, rig.Options{Payload: payload}, program)
}

// watchCentrifuge starts a centrifuge server and n viewers of one channel. The server publishes the payload of message,
// a message of dvt's server, so that both send the same data.
func watchCentrifuge(ctx context.Context, message string, n int) (*watching, error) {
	_, payload, ok := strings.Cut(message, `"payload":`)
	if !ok {
		return nil, fmt.Errorf("%.100q has no payload", message)
	}
	s, err := startCentrifuge(ctx, strings.TrimSuffix(payload, "}"))
	if err != nil {
		return nil, err
	}
	return connectViewers(ctx, s, dialect{
		path: "/connection/websocket", welcome: `"connect":`,
		hello: func(int) []string { return []string{`{"id":1,"connect":{}}`} },
	}, n, nil)
}
