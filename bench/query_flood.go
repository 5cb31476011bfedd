package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server"
)

const (
	floodQueries   = 20
	floodAliases   = 49 // aliases of an attack that used a gigabyte; the server now refuses it
	mostAliases    = 2  // aliases of the largest query that the server answers
	floodPlanBytes = 3 << 20
	neighbourCalls = 200
	neighbourQuery = `{runs(first:20){edges{node{runId status}}}}`
)

// flood is a `dvt dev` with a run that has a large plan. One tenant requests the plan many times at once; another
// tenant is the neighbour.
type flood struct {
	*rig.Service
	attacker, neighbour apiClient
	queries             [2]string // refused, answered
	done                func() error
}

// startFlood starts the server and a run of a plan of 3 MiB that waits for a person.
func startFlood(ctx context.Context, r *rig.Rig) (_ *flood, err error) {
	var ends []func() error
	done := func() error {
		var errs []error
		for i := len(ends) - 1; i >= 0; i-- {
			errs = append(errs, ends[i]())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, done())
		}
	}()
	t, err := testserver.StartTemporal()
	if err != nil {
		return nil, err
	}
	ends = append(ends, t.Close)
	r.Beds++
	dir := filepath.Join(r.Dir, fmt.Sprintf("flood-%d", r.Beds))
	s, err := rig.StartOwn(ctx, rig.AnyCore, "dev", rig.Options{Dir: dir, Temporal: t.Namespace + "@" + t.Addr})
	if err != nil {
		return nil, err
	}
	ends = append(ends, s.Close)
	access, err := server.ReadDevAccess(dir)
	if err != nil {
		return nil, err
	}
	f := &flood{
		Service: s, done: done, attacker: newAPIClient(access.Tokens["dev-viewer"], floodQueries),
		neighbour: newAPIClient(access.Tokens["dev-mallory"], 1),
	}
	runID, err := f.startLargeRun(ctx, newAPIClient(access.Tokens["dev-engineer"], 1))
	if err != nil {
		return nil, err
	}
	f.queries = [2]string{floodQuery(runID, floodAliases), floodQuery(runID, mostAliases)}
	answer, err := f.attacker.post(ctx, f.Addr, f.queries[1], nil)
	if err == nil && len(answer) < mostAliases*floodPlanBytes {
		err = fmt.Errorf("the response to the largest query has only %d bytes: %.200s", len(answer), answer)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// startLargeRun starts a run of a plan of floodPlanBytes bytes whose first step waits for a person.
func (f *flood) startLargeRun(ctx context.Context, engineer apiClient) (runID string, err error) {
	steps := []map[string]any{{
		"stepId": rig.StepName(0), "type": "MANUAL", "inputs": map[string]any{"instructions": "wait"}, "timeout": "1h",
	}}
	const padding = 4 << 10
	for i := 1; i <= floodPlanBytes/padding; i++ {
		steps = append(steps, map[string]any{
			"stepId": rig.StepName(i), "type": "COMMAND", "dependsOn": []string{rig.StepName(0)}, "timeout": "1m",
			"inputs": map[string]any{"argv": []string{"true"},
				"env": map[string]string{"PADDING": strings.Repeat("x", padding)}},
		})
	}
	at := strings.NewReplacer(
		`"tenantId":"`+runtest.ID.TenantID+`"`, `"tenantId":"acme"`, `"projectId":"`+runtest.ID.ProjectID+`"`,
		`"projectId":"shop"`,
		`"environmentId":"`+runtest.ID.EnvironmentID+`"`, `"environmentId":"dev"`,
	)
	answer, err := engineer.post(ctx, f.Addr, startMutation,
		map[string]any{"plan": json.RawMessage(at.Replace(string(document(steps)))), "request": "large"})
	if err != nil {
		return "", err
	}
	var started struct {
		Data struct {
			StartRun struct{ Run struct{ RunID string } }
		}
	}
	err = json.Unmarshal(answer, &started)
	return started.Data.StartRun.Run.RunID, err
}

// floodQuery returns a query for one plan document with many aliases.
func floodQuery(runID string, aliases int) string {
	var q strings.Builder
	fmt.Fprintf(&q, "{run(runId:%q){", runID)
	for i := range aliases {
		fmt.Fprintf(&q, "p%d:planDocument ", i)
	}
	return q.String() + "}}"
}

// during requests the large plan with floodQueries clients until work returns. Half of them send the attack, the others
// the largest permitted query.
func (f *flood) during(ctx context.Context, work func() error) error {
	ctx, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	for i := range floodQueries {
		clients.Go(func() {
			for ctx.Err() == nil {
				_, _ = f.attacker.post(ctx, f.Addr, f.queries[i%2], nil) // a refusal for too many operations at once is expected
			}
		})
	}
	err := work()
	stop()
	clients.Wait()
	return err
}

// neighbourP99 returns the 99th percentile of the response times of another tenant.
func (f *flood) neighbourP99(ctx context.Context) (time.Duration, error) {
	took := make([]time.Duration, neighbourCalls)
	for i := range took {
		var err error
		if took[i], err = rig.Timed(func() error {
			_, err := f.neighbour.post(ctx, f.Addr, neighbourQuery, nil)
			return err
		}); err != nil {
			return 0, err
		}
	}
	return rig.Quantile(took, 0.99), nil
}

// queryFloodNeighbour measures the p99 of another tenant's list of runs while 20 clients request the large plan. The
// floor is the same list on the idle server.
func queryFloodNeighbour(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	f, err := startFlood(ctx, r)
	if err != nil {
		return nil, err
	}
	return &rig.Trial{Done: f.done, Repeat: func(ctx context.Context) (s rig.Sample, err error) {
		if s.Floor, err = f.neighbourP99(ctx); err != nil {
			return s, err
		}
		err = f.during(ctx, func() error {
			s.Cost, err = f.neighbourP99(ctx)
			return err
		})
		return s, err
	}}, nil
}

// queryFloodMemory measures the growth of the server's peak resident memory, in bytes, while 20 clients request the
// large plan. The floor is the memory before.
func queryFloodMemory(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	f, err := startFlood(ctx, r)
	if err != nil {
		return nil, err
	}
	return &rig.Trial{Done: f.done, Repeat: func(ctx context.Context) (rig.Sample, error) {
		before, err := f.ResetPeakMemory()
		if err != nil {
			return rig.Sample{}, err
		}
		if err := f.during(ctx, func() error {
			_, err := f.neighbourP99(ctx)
			return err
		}); err != nil {
			return rig.Sample{}, err
		}
		peak, err := f.Status("VmHWM")
		return rig.Sample{Cost: time.Duration(max(peak-before, 0)), Floor: time.Duration(before)}, err
	}}, nil
}
