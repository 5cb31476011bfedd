package server_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
)

// slowDBT writes a program that prints what dbt prints of a number of models, one after the other, each for 200 ms. It
// also prints an event of a model that its manifest does not name.
func slowDBT(t *testing.T, models int) string {
	t.Helper()
	dir := t.TempDir()
	var manifest strings.Builder
	manifest.WriteString(`{"nodes":{"seed.shop.raw":{}`)
	for i := range models {
		fmt.Fprintf(&manifest, `,"model.shop.m%d":{}`, i)
	}
	manifest.WriteString("}}")
	script := fmt.Sprintf(`#!/bin/sh
while [ $# -gt 0 ]; do case "$1" in --target-path) target=$2 ;; esac; shift; done
mkdir -p "$target" && echo '%[1]s' > "$target/manifest.json"
say() { # id status
  echo '{"info":{"name":"X","level":"info","msg":"'$1' '$2'","ts":"'$(date -u +%%Y-%%m-%%dT%%H:%%M:%%S.%%NZ)'"},"data":{"total":%[2]d,"execution_time":0.2,"node_info":{"unique_id":"'$1'","resource_type":"model","node_status":"'$2'"}}}'
}
say model.shop.invented success
i=0
while [ $i -lt %[2]d ]; do
  say model.shop.m$i started
  sleep 0.2
  say model.shop.m$i success
  i=$((i+1))
done
echo '{"results":[]}' > "$target/run_results.json"
`, manifest.String(), models)
	path := filepath.Join(dir, "dbt")
	must(t, os.WriteFile(path, []byte(script), 0o755))
	return path
}

// arrivals are the times at which a viewer was first shown that a number of nodes had succeeded.
type arrivals struct {
	mu    sync.Mutex
	first map[int]time.Time
}

func (a *arrivals) note(steps []client.StepRow) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, st := range steps {
		if st.NodeCounts == nil {
			continue
		}
		for n := 1; n <= st.NodeCounts.Success; n++ {
			if _, known := a.first[n]; !known {
				a.first[n] = time.Now()
			}
		}
	}
}

func listNodes(t *testing.T, c *client.Client, runID string) (rows []client.StepNodeRow, counts string) {
	t.Helper()
	out, err := client.ListStepNodes(t.Context(), c, runID, "build", nil, nil, new(200), nil)
	must(t, err)
	st := out.Run.Step
	if st == nil || st.Nodes == nil { // the run has not started, or dbt has not
		return nil, ""
	}
	for _, e := range st.Nodes.Edges {
		rows = append(rows, e.Node)
	}
	n := st.NodeCounts
	return rows, fmt.Sprintf("%d of %d, %d running, %d unfinished", n.Success, n.Total, n.Running, n.Unfinished)
}

// The models of a step are on the screen of a viewer within 500 ms of dbt's line. After a kill -9 of the worker the
// next try begins again, no model is there twice, and a model that the manifest does not name never enters.
func TestDev_NodesOfDBTAreLiveAndSurviveAKill(t *testing.T) {
	t.Parallel()
	const models = 30
	data, address, project := dataDir(t), testserver.FreeAddress(t), t.TempDir()
	shop := filepath.Join(project, "examples", "shop")
	must(t, os.MkdirAll(shop, 0o755))
	must(t, os.WriteFile(filepath.Join(shop, "dbt_project.yml"), nil, 0o644)) // by which dev knows a root of projects
	p := spawn(t, "dvt dev", nil, "dev", "--listen", address, "--data", data, "--no-sample", "--heartbeat", "5s",
		"--dbt", slowDBT(t, models), "--project-root", project)
	c := client.New("http://"+address, devToken(t, data, "dev-engineer"))
	doc := stepsPlan("nodes", `{"stepId":"build","type":"DBT_RUN","inputs":{"projectDir":"examples/shop"},"dependsOn":[],
		"timeout":"5m","retry":{"maxAttempts":10,"initialBackoffMs":100,"backoffMultiplier":1,"maxBackoffMs":200}}`)

	id := start(t, c, "nodes-live", doc)
	seen := &arrivals{first: map[int]time.Time{}}
	watching, stop := context.WithTimeout(t.Context(), testtime.Of(2*time.Minute))
	defer stop()
	ended := fmt.Errorf("the run has ended")
	_ = c.Watch(watching, id, client.Position{}, func(f client.WatchRunRunUpdatesRunUpdate) error {
		over := func(s client.RunStatus) bool { return s == client.RunStatusCompleted || s == client.RunStatusFailed }
		switch {
		case f.Snapshot != nil:
			seen.note(f.Snapshot.Steps)
			if over(f.Snapshot.Status) {
				return ended
			}
		case f.Delta != nil:
			seen.note(f.Delta.Steps)
			if over(f.Delta.Header.Status) {
				return ended
			}
		}
		return nil
	})
	rows, counts := listNodes(t, c, id)
	if want := fmt.Sprintf("%d of %[1]d, 0 running, 0 unfinished", models); len(rows) != models || counts != want {
		r := waitForEnd(t, c, id, time.Minute)
		t.Fatalf("the step of the run %s has %d nodes and the counts %q, want %d and %q: %+v", r.StatusRaw, len(rows),
			counts, models, want, r.RootCause)
	}
	var delays []time.Duration
	for i, n := range rows {
		if n.UniqueId != fmt.Sprintf("model.shop.m%d", i) || n.Status != client.NodeStatusSuccess || n.EndedAt == nil {
			t.Fatalf("node %d is %+v, want model m%d, ended", i, n, i)
		}
		at, shown := seen.first[i+1]
		if !shown {
			t.Fatalf("no frame shows that %d nodes succeeded", i+1)
		}
		delays = append(delays, at.Sub(*n.EndedAt))
	}
	slices.Sort(delays)
	t.Logf("from dbt's line to the viewer: median %s, slowest %s", delays[len(delays)/2], delays[len(delays)-1])
	if p95 := delays[len(delays)*95/100]; p95 > testtime.Of(500*time.Millisecond) {
		t.Errorf("95 %% of the nodes reach the viewer within %s, want 500 ms", p95)
	}

	id = start(t, c, "nodes-kill", doc)
	waitUntil(t, "some nodes ended", 20*time.Second, func() bool {
		rows, _ := listNodes(t, c, id)
		return len(rows) > 3
	})
	p.kill()
	p.start()
	if r := waitForEnd(t, c, id, time.Minute); r.Status != client.RunStatusCompleted {
		t.Fatalf("the run ended %s, want COMPLETED: %+v", r.StatusRaw, r.RootCause)
	}
	rows, counts = listNodes(t, c, id)
	if want := fmt.Sprintf("%d of %[1]d, 0 running, 0 unfinished", models); len(rows) != models || counts != want {
		t.Errorf("after the kill the step has %d nodes and the counts %q, want %d and %q", len(rows), counts, models, want)
	}
	for _, n := range rows {
		if n.Status != client.NodeStatusSuccess || n.UniqueId == "model.shop.invented" {
			t.Errorf("after the kill %s is %s", n.UniqueId, n.Status)
		}
	}
	tries := map[int]int{}
	out, err := client.ReadEvents(t.Context(), c, id, new(200), nil, []string{string(run.StepNodesReported)})
	must(t, err)
	for _, e := range out.Run.Events.Edges {
		tries[e.Node.EngineAttemptId]++
	}
	if len(tries) < 2 {
		t.Errorf("the reports by try are %v, want some of the killed try and some of the next", tries)
	}
}
