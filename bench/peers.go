package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dvt-engine/dvt/bench/rig"
)

// peers is the program of the peers that are a module of their own, so that dvt
// does not depend on them. `make bench` builds it.
const peers = "bin/bench-peers"

// startCentrifuge starts centrifuge with the payload to publish.
func startCentrifuge(ctx context.Context, payload string) (*rig.Service, error) {
	program, err := filepath.Abs(peers)
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		return nil, fmt.Errorf(
			"%s is missing, the peers that dvt is measured against: run `go build -C bench/peers -o ../../%s .` at the root "+
				"of the checkout; "+
				"it fetches the modules in bench/peers/go.mod", peers, peers)
	}
	return rig.StartService(ctx, rig.ServerCore, rig.Options{Payload: payload}, program)
}

// watchCentrifuge is centrifuge with viewers of one channel, which gets the payload
// of a message of ours.
func watchCentrifuge(ctx context.Context, message string, n int) (*watching, error) {
	_, payload, ok := strings.Cut(message, `"payload":`)
	if !ok {
		return nil, fmt.Errorf("%.100q has no payload", message)
	}
	s, err := startCentrifuge(ctx, strings.TrimSuffix(payload, "}"))
	if err != nil {
		return nil, err
	}
	return lookOn(ctx, s, dialect{
		path: "/connection/websocket", welcome: `"connect":`,
		hello: func(int) []string { return []string{`{"id":1,"connect":{}}`} },
	}, n, nil)
}
