package server_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
)

// nodeKills is a number of runs. The worker is killed once in each of them. A campaign takes 100, at half a minute
// each.
var nodeKills = flag.Int("node-kills", 1, "kills of a worker during a retry of nodes")

// countedModels read the model broken, one after the other.
const countedModels = 6

// countedProject writes a dbt project whose models each add a row to the table ran of their warehouse, in the same
// transaction as their own. The model broken fails while its file says so, and ok never does.
func countedProject(t *testing.T, root string) {
	t.Helper()
	files := map[string]string{
		"dbt_project.yml": "name: count\nversion: '1.0'\nprofile: count\nflags: {send_anonymous_usage_stats: false}\n" +
			"on-run-start: \"create table if not exists ran (model varchar)\"\n" +
			"models: {count: {+materialized: table, +post-hook: \"insert into ran values ('{{ this.name }}')\"}}\n",
		"profiles.yml":      "count: {target: dev, outputs: {dev: {type: duckdb, threads: 1, path: \"{{ var('db') }}\"}}}\n",
		"models/ok.sql":     "select 1 as id",
		"models/broken.sql": "select {{ '1' if var('mended', false) else 'no_such_column' }} as id",
	}
	for i := range countedModels {
		from := "broken"
		if i > 0 {
			from = fmt.Sprintf("m%d", i-1)
		}
		// The count takes some time, so that a kill can strike within a model.
		files[fmt.Sprintf("models/m%d.sql", i)] = fmt.Sprintf("select (select count(*) from range(20000000) where range %% 7 = "+
			"1) as n from {{ ref('%s') }}", from)
	}
	known := filepath.Join(root, "examples", "shop", "dbt_project.yml") // by which dev knows a root of projects
	must(t, os.MkdirAll(filepath.Dir(known), 0o755))
	must(t, os.WriteFile(known, nil, 0o644))
	for name, body := range files {
		path := filepath.Join(root, "count", name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(body), 0o644))
	}
}

// countRan counts the rows of the table ran by model.
func countRan(t *testing.T, db string) map[string]int {
	t.Helper()
	const script = `import duckdb, json, sys
print(json.dumps(dict(duckdb.connect(sys.argv[1], read_only=True).execute("select model, count(*) from ran group by 1").fetchall())))`
	out, err := exec.Command(filepath.Join(filepath.Dir(findDBT(t)), "python"), "-c", script, db).Output()
	must(t, err)
	var counts map[string]int
	must(t, json.Unmarshal(out, &counts))
	return counts
}

// endedWell returns the nodes that the reports of the second attempt say ended well, by engine attempt.
func endedWell(t *testing.T, c *client.Client, runID string) (by map[string][]int) {
	t.Helper()
	by = map[string][]int{}
	out, err := client.ReadEvents(t.Context(), c, runID, new(200), nil, []string{string(run.StepNodesReported)})
	must(t, err)
	for _, e := range out.Run.Events.Edges {
		if e.Node.LogicalAttemptId != 2 || e.Node.Payload == nil {
			continue
		}
		var p run.StepNodesPayload
		must(t, json.Unmarshal(*e.Node.Payload, &p))
		for _, n := range p.Nodes {
			if n.Status == run.NodeSuccess && n.Type == "model" && !slices.Contains(by[n.ID], e.Node.EngineAttemptId) {
				by[n.ID] = append(by[n.ID], e.Node.EngineAttemptId)
			}
		}
	}
	return by
}

// A retry of the failed nodes of a real dbt, mended by a parameter, is killed with its worker at some points. No node
// whose end is in the log of the run or in dbt's own file runs again, and none is missing: each model counts its runs
// in the warehouse. A kill that strikes between the commit of a model and dbt's line about it, some milliseconds later,
// can still repeat that model.
func TestDev_RetryOfNodesSurvivesKills(t *testing.T) {
	t.Parallel()
	points := *nodeKills
	if os.Getenv("TEST_LONG") != "" {
		points = max(points, 4)
	}
	data, address, project := dataDir(t), testserver.FreeAddress(t), t.TempDir()
	countedProject(t, project)
	warehouse := filepath.Join(project, "warehouse")
	must(t, os.MkdirAll(warehouse, 0o755))
	p := spawn(t, "dvt dev", nil, "dev", "--listen", address, "--data", data, "--no-sample", "--heartbeat", "5s",
		"--dbt", findDBT(t), "--project-root", project)
	c := client.New("http://"+address, devToken(t, data, "dev-engineer"))
	admin := client.New("http://"+address, devToken(t, data, "dev-admin"))
	again := 0
	for point := range points {
		db := filepath.Join(warehouse, fmt.Sprintf("%d.duckdb", point))
		doc := strings.Replace(string(stepsPlan("counted", fmt.Sprintf(`{"stepId":"build","type":"DBT_RUN","dependsOn":[],
			"inputs":{"projectDir":"count","vars":{"db":%q}},"sandbox":{"write":[%q]},"timeout":"5m",
			"retry":{"maxAttempts":3,"initialBackoffMs":100,"backoffMultiplier":1,"maxBackoffMs":200}}`, db, warehouse))),
			`"retryWindowSeconds":0`, `"retryWindowSeconds":3600`, 1)
		id := start(t, c, fmt.Sprintf("counted-%d", point), []byte(doc))
		waitUntil(t, "the step failed", 2*time.Minute, func() bool {
			out, err := client.ShowRun(t.Context(), c, id, nil)
			return err == nil && out.Run != nil && len(out.Run.Steps) > 0 && out.Run.Steps[0].StatusRaw == "FAILED"
		})
		before := countRan(t, db)["ok"] // the tries of the first attempt run it again
		_, err := client.SignalRun(t.Context(), admin, client.SignalRunInput{RunId: id, SignalId: "mend",
			Signal: client.SignalInput{UpdateParams: &client.UpdateParamsInput{NewParams: json.RawMessage(`{"mended":true}`)}}})
		must(t, err)
		retry := client.SignalInput{RetryStep: &client.RetryStepInput{StepId: "build", Force: new(true),
			Nodes: &client.RetryNodesInput{Mode: new(client.RetryNodesModeFailed)}}}
		preview, err := client.PreviewAction(t.Context(), c, client.ActionInput{Signal: &client.SignalActionInput{RunId: id,
			Signal: retry}})
		must(t, err)
		if n := preview.Preview.Nodes; n == nil || n.Count != countedModels+1 || n.Attempt != 1 {
			t.Fatalf("the preview names the nodes %+v, want broken and the %d models behind it", n, countedModels)
		}
		_, err = client.SignalRun(t.Context(), c, client.SignalRunInput{RunId: id, SignalId: "retry", Signal: retry})
		must(t, err)
		// The kill strikes after a random number of models, at a random time within the next one.
		after := rand.IntN(countedModels)
		waitUntil(t, "some models of the retry ended", 2*time.Minute, func() bool {
			return len(endedWell(t, c, id)) >= after
		})
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
		p.kill()
		p.start()
		if r := waitForEnd(t, c, id, 5*time.Minute); r.Status != client.RunStatusCompleted {
			t.Fatalf("the run ended %s, want COMPLETED: %+v", r.StatusRaw, r.RootCause)
		}
		ran, ended := countRan(t, db), endedWell(t, c, id)
		if ran["ok"] != before || len(ran) != countedModels+2 {
			t.Fatalf("the models ran %v, want each, and ok %d times, as before the retry", ran, before)
		}
		for node, tries := range ended {
			name := node[strings.LastIndexByte(node, '.')+1:]
			if name == "ok" || len(tries) != 1 {
				t.Errorf("%s ended well in the tries %v of the retry, want one, and never ok", node, tries)
			}
			if ran[name] > 1 {
				again++ // its end was not in dbt's file at the kill
			}
			if ran[name] > 2 {
				t.Errorf("%s ran %d times with one kill", node, ran[name])
			}
		}
		rows, counts := listNodes(t, c, id)
		if want := fmt.Sprintf("%d of %[1]d, 0 running, 0 unfinished", countedModels+3); counts != want {
			t.Errorf("the counts are %q, want %q: %v", counts, want, rows)
		}
		for _, n := range rows {
			if want := map[bool]int{true: 1, false: 2}[n.Name == "ok"]; n.ResourceType == "model" && n.Attempt != want {
				t.Errorf("the result of %s is from attempt %d, want %d", n.Name, n.Attempt, want)
			}
		}
	}
	t.Logf("%d kills; %d of %d models ran twice, because dbt had not logged their end at the kill", points, again,
		points*(countedModels+1))
	if again > max(1, points/20) {
		t.Errorf("%d models ran twice in %d kills", again, points)
	}
}
