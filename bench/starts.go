package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

// apiStarter starts runs of one project through the use case behind startRun. It is safe for concurrent use.
type apiStarter struct {
	api       *usecases.UseCases
	principal authz.Principal
	document  json.RawMessage
	started   atomic.Int64
}

func newAPIStarter(s store.Store) (*apiStarter, error) {
	sum := sha256.Sum256([]byte(viewerToken))
	accounts, err := authz.NewDirectory([]authz.Account{{
		ID: "starter", TenantID: runtest.ID.TenantID, TokenSHA256: hex.EncodeToString(sum[:]),
		Grants: []authz.Grant{{Role: authz.Admin, ProjectID: "*", EnvironmentID: "*"}},
	}}, time.Now)
	if err != nil {
		return nil, err
	}
	policy, err := authz.New(authz.DefaultPolicy(), accounts)
	if err != nil {
		return nil, err
	}
	bus := &memoryLive{runs: map[string]*memoryRun{}, subs: map[string][]*mailbox{}}
	return &apiStarter{
		api: usecases.New(usecases.Config{
			Store: s, Hub: live.New(s, bus, live.Config{}), Bus: bus, Authz: policy,
			Queues: plan.Queues{Control: "control", Data: "data", Known: []string{"control", "data"}},
		}),
		principal: authz.Principal{ID: "starter", TenantID: runtest.ID.TenantID}, document: layers(stepsOfStarted, 1),
	}, nil
}

const stepsOfStarted = 10

func (s *apiStarter) start(ctx context.Context) error {
	out, err := s.api.StartRun(ctx, s.principal, runs.StartRun{
		RequestID: fmt.Sprint("request-", s.started.Add(1)), ProjectID: runtest.ID.ProjectID,
		EnvironmentID: runtest.ID.EnvironmentID,
		Inline:        s.document, Priority: runs.DefaultPriority,
	})
	if err == nil && out.Deduplicated {
		err = errors.New("the run existed before the start")
	}
	return err
}

// startsOneProject compares 20 concurrent starters of runs of one project with a single one. Each starter pauses for a
// random time between two starts, so that both cases start the same number of runs per second. 20 starters without
// pauses would only measure the processors.
func startsOneProject(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	const starters, turns, forTime, pause = 20, 5, 2 * time.Second, 200 * time.Millisecond
	s, _, err := r.Store(ctx, rig.OneMS, postgres.DefaultMaxConns)
	if err != nil {
		return nil, err
	}
	of, err := newAPIStarter(coalesced(s))
	if err != nil {
		return nil, err
	}
	p95 := func(n int) rig.Measure {
		return func(ctx context.Context, _ int) (time.Duration, error) {
			var l rig.Latencies
			g, ctx := errgroup.WithContext(ctx)
			began := time.Now()
			for range n {
				g.Go(func() error {
					for time.Since(began) < forTime {
						if err := rig.Wait(ctx, rand.N(pause*time.Duration(n)/starters)); err != nil {
							return err
						}
						took, err := rig.Timed(func() error { return of.start(ctx) })
						if err != nil {
							return err
						}
						l.Add(took)
					}
					return nil
				})
			}
			if err := g.Wait(); err != nil {
				return 0, err
			}
			return l.Quantile(0.95)
		}
	}
	return &rig.Trial{Repeat: rig.Alternate(turns, p95(starters), p95(1)), Done: s.Close}, nil
}
