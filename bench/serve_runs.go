package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/graph/gqlgenpeer"
	"github.com/dvt-engine/dvt/graph/ws"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/decorate"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// viewerToken is the access token of the viewers.
const viewerToken = "viewer"

// manyStreams is a limit that no figure reaches.
const manyStreams = 20_000

// serveRuns serves runs with the use cases, the hub and the API of a server. With Redis it also has a projector and a
// store on SQLite. Without Redis the runs are in memory, and an update starts as a message on the bus.
func serveRuns(ctx context.Context, o rig.Options) (figureServer, error) {
	if o.Redis == "" {
		return serveFromMemory(ctx, o)
	}
	dir, err := os.MkdirTemp(o.Dir, "live-")
	if err != nil {
		return figureServer{}, err
	}
	s, err := sqlite.Open(ctx, filepath.Join(dir, "live.db"), sqlite.Options{})
	if err != nil {
		return figureServer{}, err
	}
	bus, err := redisbus.Open(redisbus.Config{URL: o.Redis})
	if err != nil {
		return figureServer{}, err
	}
	p := projector.New(s, bus, projector.Config{})
	woken := decorate.WakeOnCommit(s, p)
	ids, err := rig.MakeRuns(ctx, s, o.Runs, o.Steps)
	if err != nil {
		return figureServer{}, err
	}
	ws := rig.WritersOf(woken, ids, o.Steps)
	for _, w := range ws { // so that every step has run once
		if _, err := w.Append(ctx, 2*o.Steps); err != nil {
			return figureServer{}, err
		}
	}
	l := liveServer{store: woken, hub: live.New(s, bus, live.Config{MaxStreams: manyStreams}), bus: bus}
	l.run = p.Run
	out, err := l.serve(ctx, o)
	out.publish = func(ctx context.Context) (seq int64, at time.Time, err error) {
		for _, w := range ws {
			to, err := w.Append(ctx, 1)
			if err != nil {
				return 0, at, err
			}
			seq, at = int64(to), time.Now()
		}
		return seq, at, nil
	}
	closeAll := out.close
	out.close = func() error { return errors.Join(closeAll(), bus.Close(), s.Close()) }
	return out, err
}

// liveServer holds the parts that serve viewers.
type liveServer struct {
	store store.Store
	hub   *live.Hub
	bus   live.Bus
	run   func(context.Context) error // runs concurrently with the hub; may be nil
}

// serve starts the hub and returns the server of the API.
func (l liveServer) serve(ctx context.Context, o rig.Options) (figureServer, error) {
	sum := sha256.Sum256([]byte(viewerToken))
	accounts, err := authz.NewDirectory([]authz.Account{{
		ID: viewerToken, TenantID: runtest.ID.TenantID, TokenSHA256: hex.EncodeToString(sum[:]),
		Grants: []authz.Grant{{Role: authz.Viewer, ProjectID: "*", EnvironmentID: "*"}},
	}}, time.Now)
	if err != nil {
		return figureServer{}, err
	}
	policy, err := authz.New(authz.DefaultPolicy(), accounts)
	if err != nil {
		return figureServer{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	var g errgroup.Group
	g.Go(func() error { return l.hub.Run(ctx) })
	if l.run != nil {
		g.Go(func() error { return l.run(ctx) })
	}
	api := usecases.New(usecases.Config{Store: l.store, Hub: l.hub, Bus: l.bus, Authz: policy})
	h := newHandler(o.Stock, api, graph.Config{
		Authenticate: accounts.Authenticate, Streams: ws.Config{Streams: manyStreams, StreamsOfPeer: manyStreams},
	})
	return figureServer{handler: h, close: func() error { stop(); return g.Wait() }}, nil
}

// newHandler returns dvt's API, or the same resolvers behind gqlgen's own handler.
func newHandler(isStock bool, c graph.UseCases, cfg graph.Config) http.Handler {
	if isStock {
		return gqlgenpeer.Handler(c, cfg)
	}
	return graph.NewHandler(c, cfg)
}

// serveFromMemory serves runs in memory.
func serveFromMemory(ctx context.Context, o rig.Options) (figureServer, error) {
	m := &memoryLive{runs: map[string]*memoryRun{}, subs: map[string][]*mailbox{}}
	for i := range o.Runs {
		r, err := newMemoryRun(rig.RunName(i), o.Steps)
		if err != nil {
			return figureServer{}, err
		}
		m.order = append(m.order, r)
		m.runs[r.header.RunID] = r
	}
	out, err := liveServer{store: m, hub: live.New(m, m, live.Config{MaxStreams: manyStreams}), bus: m}.serve(ctx, o)
	out.publish = func(ctx context.Context) (seq int64, at time.Time, err error) {
		at = time.Now()
		for _, r := range m.order {
			msg := r.advance(at)
			seq = int64(msg.To)
			if err := m.Publish(ctx, msg); err != nil {
				return 0, at, err
			}
		}
		return seq, at, nil
	}
	return out, err
}

// runsDialect returns the dialect of graphql-transport-ws for viewers that subscribe to runs.
func runsDialect(token, query string, runID func(viewer int) string) dialect {
	return dialect{
		path: "/graphql", protocol: "graphql-transport-ws", welcome: `"runSeq":`,
		hello: func(viewer int) []string {
			return []string{
				fmt.Sprintf(`{"type":"connection_init","payload":{"Authorization":"Bearer %s"}}`, token),
				fmt.Sprintf(`{"id":"1","type":"subscribe","payload":{"query":%q,"variables":{"runId":%q}}}`, query, runID(viewer)),
			}
		},
	}
}

// Fields that viewers select: 7 scalars of the run and 8 fields of each step, about 3.8 KB for 20 steps.
const (
	selectedStep = `stepId type status logicalAttemptId engineAttemptId startedAt completedAt changedSeq`
	selectedRun  = `runId status statusRaw opsRev createdAt startedAt failedSteps`

	runQuery = `subscription($runId:String!){runUpdates(runId:$runId){runSeq sync snapshot{` + selectedRun + ` steps{` +
		selectedStep + `}}}}`
	deltaQuery = `subscription($runId:String!){runUpdates(runId:$runId,mode:DELTA){runSeq sync snapshot{` + selectedRun +
		` steps{` + selectedStep +
		`}} delta{fromSeq toSeq header{` + selectedRun + `} steps{` + selectedStep + `}}}}`
)
