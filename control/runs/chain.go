package runs

import (
	"context"
	"fmt"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// MaxChainRuns bounds the runs that are read to find the reruns of some runs.
const MaxChainRuns = 4 * store.MaxBulk

// ChainStore reads chains of reruns.
type ChainStore interface {
	RerunChains(ctx context.Context, tenantID string, runIDs []string, limit int) ([]store.ChainRun, error)
}

// Chains are runs with all their reruns. All runs of a chain do the same work, so rerunning two of them loads the same
// data twice.
type Chains struct {
	root map[string]string // by runId; the first run of the chain
	runs []store.ChainRun
}

// ReadChains reads the chains of runs. It returns false when they have more than MaxChainRuns runs.
func ReadChains(ctx context.Context, s ChainStore, tenantID string, ids []string) (Chains, bool, error) {
	found, err := s.RerunChains(ctx, tenantID, ids, MaxChainRuns+1)
	if err != nil || len(found) > MaxChainRuns {
		return Chains{}, false, err
	}
	return newChains(found), true, nil
}

func newChains(found []store.ChainRun) Chains {
	parent := make(map[string]string, len(found))
	for _, r := range found {
		parent[r.RunID] = r.ParentRunID
	}
	c := Chains{root: make(map[string]string, len(found)), runs: found}
	for _, r := range found {
		var path []string
		at := r.RunID
		// Two reruns belong together also when the run that they rerun is no longer stored.
		for c.root[at] == "" && parent[at] != "" {
			path, at = append(path, at), parent[at]
		}
		root := at
		if c.root[at] != "" {
			root = c.root[at]
		}
		c.root[at] = root
		for _, id := range path {
			c.root[id] = root
		}
	}
	return c
}

// Superseded returns by runId the newest run of the chain of each run that is not the newest itself. Cancelled runs do
// not count, because nobody does their work any more, unless keep has them.
func (c Chains) Superseded(keep map[string]bool) map[string]store.ChainRun {
	newest := map[string]store.ChainRun{}
	for _, r := range c.runs {
		if r.Status == run.Cancelled && !keep[r.RunID] {
			continue
		}
		if known, ok := newest[c.root[r.RunID]]; !ok || isNewer(r, known) {
			newest[c.root[r.RunID]] = r
		}
	}
	out := map[string]store.ChainRun{}
	for _, r := range c.runs {
		if n, ok := newest[c.root[r.RunID]]; ok && isNewer(n, r) {
			out[r.RunID] = n
		}
	}
	return out
}

// Newest returns the newest run of the chain of a run; false when it is that run.
func (c Chains) Newest(runID string) (store.ChainRun, bool) {
	all := make(map[string]bool, len(c.runs))
	for _, r := range c.runs {
		all[r.RunID] = true
	}
	n, ok := c.Superseded(all)[runID]
	return n, ok
}

func isNewer(a, b store.ChainRun) bool {
	if order := a.CreatedAt.Compare(b.CreatedAt); order != 0 {
		return order > 0
	}
	return a.RunID > b.RunID
}

// AlreadyRerun says why a bulk leaves out a run.
const AlreadyRerun = "already rerun"

// AlreadyRerunAs returns a sentence about the newest rerun of a run.
func AlreadyRerunAs(newest store.ChainRun) string {
	return fmt.Sprintf("Already rerun as %.8s; that run %s.", newest.RunID, isNow[newest.Status])
}

// isNow says what a run does now.
var isNow = map[run.Status]string{ //nolint:gochecknoglobals // a table
	"": "waits to start", run.Pending: "waits to start", run.Approved: "waits to start", run.Running: "is running",
	run.Paused: "is paused", run.Completed: "has completed", run.Failed: "has failed", run.Cancelled: "was cancelled",
}
