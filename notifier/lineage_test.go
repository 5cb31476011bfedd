package notifier_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/destination/send"
	"github.com/dvt-engine/dvt/notifier"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/lineage"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

var lineageRoute = destination.Route{Topics: []destination.Topic{destination.Lineage}}

type m = runtest.M

// manyNodes is the number of nodes of the step of a run of lineage. Their events do not fit into the room of a session.
const manyNodes = 700

// startLineage creates a run whose step runs nodes and fails. endLineage ends it.
func (f *fixture) startLineage(runID, tenantID string, nodes int) {
	f.Helper()
	id := runtest.ID
	id.RunID, id.TenantID = runID, tenantID
	events := []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start("load"),
		runtest.Draft(run.StepStartedEvent, "load", 1)}
	for from := 0; from < nodes; from += run.MaxNodesOfBatch {
		var list []m
		for i := from; i < min(nodes, from+run.MaxNodesOfBatch); i++ {
			list = append(list, m{"id": nodeID(i), "type": "model", "status": "SUCCESS", "at": runtest.Epoch})
		}
		events = append(events, runtest.Draft(run.StepNodesReported, "load", 1, m{"batch": 1 + from/run.MaxNodesOfBatch,
			"warehouse": "duckdb:///w", "counts": m{"total": nodes}, "nodes": list}))
	}
	_, _, err := f.store.CreateRun(f.Context(), store.NewRun{
		Run: store.Run{Identity: id, RequestKey: run.Key("request " + runID)}, Events: events})
	if err != nil {
		f.Fatal(err)
	}
	f.save(runID)
}

// nodeID returns the id of a node, which the manifest knows for numbers below 7.
func nodeID(i int) string {
	if i < 7 {
		return fmt.Sprintf("model.big.m%03d", i)
	}
	return fmt.Sprintf("model.big.other%03d", i)
}

func (f *fixture) endLineage(runID string) {
	f.Helper()
	manifest := m{"artifactRefs": []m{{"uri": "artifact:t/" + runID + "/load/1/1/manifest.json", "kind": "dbt-manifest"}}}
	_, err := f.store.Append(f.Context(), store.Append{RunID: runID, Events: []run.Draft{
		runtest.Draft(run.StepFailedEvent, "load", 1, manifest), runtest.Draft(run.RunFailed, "", 1)}})
	if err != nil {
		f.Fatal(err)
	}
	f.save(runID)
}

// manifestOf returns the recorded manifest of a project with 20 models.
func manifestOf(context.Context, run.Identity, run.ArtifactRef) (*lineage.Manifest, error) {
	file, err := os.Open("../run/lineage/testdata/manifest-1.11.json")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return lineage.ReadManifest(file)
}

// lineageEvent is the part of an event that tests read.
type lineageEvent struct {
	EventType string
	Run       struct{ RunID string }
	Job       struct{ Name string }
	Outputs   []struct{ Namespace, Name string }
}

// graphOf collects events by the id of their run. It fails for an end that arrived before its START, and for two
// different documents with the same id.
type graphOf struct {
	docs     map[string]string
	started  map[string]bool
	repeated int
}

func collect(t *testing.T, docs []string) graphOf {
	t.Helper()
	g := graphOf{docs: map[string]string{}, started: map[string]bool{}}
	for _, doc := range docs {
		var e lineageEvent
		if err := json.Unmarshal([]byte(doc), &e); err != nil {
			t.Fatalf("%v: %.200s", err, doc)
		}
		part := "end"
		if e.EventType == "START" {
			part = "start"
			g.started[e.Run.RunID] = true
		} else if !g.started[e.Run.RunID] {
			t.Fatalf("the end of %s arrived before its START", e.Job.Name)
		}
		key := e.Run.RunID + " " + part
		if was, found := g.docs[key]; found {
			if g.repeated++; was != doc {
				t.Fatalf("%s arrived twice with different documents:\n%s\n%s", key, was, doc)
			}
		}
		g.docs[key] = doc
	}
	return g
}

// wantLineage checks that each run, its step and its nodes have one START and one end.
func (g graphOf) wantLineage(t *testing.T, nodes int, runIDs ...string) {
	t.Helper()
	want := map[string]bool{}
	for _, id := range runIDs {
		ids := []string{lineage.RunID(id), lineage.StepID(id, "load")}
		for i := range nodes {
			ids = append(ids, lineage.NodeID(id, "load", nodeID(i)))
		}
		for _, id := range ids {
			want[id+" start"], want[id+" end"] = true, true
		}
	}
	for key := range want {
		if g.docs[key] == "" {
			t.Errorf("%s did not arrive", key)
		}
	}
	for key, doc := range g.docs {
		if !want[key] {
			t.Errorf("%s arrived and nobody wants it: %.200s", key, doc)
		}
	}
}

// Events go only where a route names them and the tenant, in order, more of one step than there is room for; and they
// wait for a manifest that cannot be read.
func TestLineage_ArrivesInOrderWhereARouteNamesIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, destination.Config{Name: "marquez", Kind: destination.Webhook, Route: lineageRoute},
		destination.Config{Name: "globex", Kind: destination.File, Route: destination.Route{Topics: lineageRoute.Topics,
			Tenants: []string{"globex"}}}, destination.Config{Name: "other", Kind: destination.Webhook})
	var broken atomic.Bool
	broken.Store(true)
	f.readManifest = func(ctx context.Context, id run.Identity, ref run.ArtifactRef) (*lineage.Manifest, error) {
		if broken.Load() {
			return nil, errors.New("the bucket does not answer")
		}
		return manifestOf(ctx, id, ref)
	}
	f.start(f.store, "one")
	f.startLineage("r1", "acme", manyNodes)
	f.endLineage("r1")
	docs := func(name string) (out []string) {
		for _, m := range f.receivers[name].messages() {
			if m.Topic == destination.Lineage {
				out = append(out, string(m.Data))
			}
		}
		return out
	}
	f.waitFor("the events before the nodes", func() bool { return len(docs("marquez")) == 2 })
	broken.Store(false)
	f.waitFor("all events", func() bool { return len(docs("marquez")) == 2*(manyNodes+2) })
	g := collect(t, docs("marquez"))
	g.wantLineage(t, manyNodes, "r1")
	var e lineageEvent
	if err := json.Unmarshal([]byte(g.docs[lineage.NodeID("r1", "load", nodeID(1))+" end"]), &e); err != nil ||
		len(e.Outputs) != 1 || e.Outputs[0].Name != "warehouse.main.m001" || e.Outputs[0].Namespace != "duckdb:///w" {
		t.Errorf("the node writes %+v, want its table (%v)", e.Outputs, err)
	}
	if n := len(docs("globex")) + len(docs("other")); n > 0 {
		t.Errorf("%d events arrived at a destination for another tenant or without a route, want 0", n)
	}
}

// lineageChild makes this program a notifier that is killed.
const lineageChild = "NOTIFIER_TEST_LINEAGE"

type lineageProcess struct{ Store, File, Hook, Key string }

func runLineageProcess(text string) {
	var p lineageProcess
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		panic(err)
	}
	s, err := sqlite.Open(context.Background(), p.Store, sqlite.Options{})
	if err != nil {
		panic(err)
	}
	n := notifier.New(notifier.Config{
		Store: s, Alerts: raiser{s}, Owner: fmt.Sprint(os.Getpid()), ReadManifest: manifestOf,
		Timing: notifier.Timing{Idle: 5 * time.Millisecond, Lease: 40 * time.Millisecond, FirstRetry: 5 * time.Millisecond,
			LastRetry: 20 * time.Millisecond, SendTimeout: 100 * time.Millisecond, Tries: 1000},
		Load: func() ([]destination.Config, error) {
			return []destination.Config{
				{Name: "file", Kind: destination.File, URL: "file://" + p.File, Route: lineageRoute},
				{Name: "marquez", Kind: destination.Webhook, URL: p.Hook, Format: destination.OpenLineage, Route: lineageRoute,
					Secrets: []destination.SecretRef{{File: p.Key}}},
			}, nil
		},
		NewSender: func(c destination.Config) (destination.Sender, error) {
			return send.New(c, send.Options{AllowPrivate: true})
		},
	})
	_ = n.Run(context.Background())
}

// Real processes with the real senders are killed at any moment, while the receiver answers 500, hangs and ends the
// connection: after a receiver dropped repetitions, each run, step and node has exactly one START and one end.
func TestLineage_IsExactlyOneStartAndEndOverKillsAndOutages(t *testing.T) {
	t.Parallel()
	const kills, nodes = 8, 12
	dir := t.TempDir()
	p := lineageProcess{Store: filepath.Join(dir, "dvt.db"), File: filepath.Join(dir, "lineage.ndjson"),
		Key: filepath.Join(dir, "key")}
	if err := os.WriteFile(p.Key, []byte("an-api-key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), p.Store, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	f := &fixture{T: t, store: s, receivers: map[string]*receiver{}}
	var mu sync.Mutex
	var got []string
	var requests atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch requests.Add(1) % 13 {
		case 2:
			w.WriteHeader(http.StatusInternalServerError)
			return
		case 6:
			time.Sleep(150 * time.Millisecond)
			return
		case 9:
			panic(http.ErrAbortHandler)
		}
		var doc json.RawMessage
		if r.URL.Path != "/api/v1/lineage" || r.Header.Get("Authorization") != "Bearer an-api-key" ||
			json.NewDecoder(r.Body).Decode(&doc) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		got = append(got, string(doc))
		mu.Unlock()
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(srv.Close)
	p.Hook = srv.URL + "/api/v1/lineage"
	env, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	hooks := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), got...)
	}
	var runs []string
	for k := range kills + 1 {
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env = append(os.Environ(), lineageChild+"="+string(env))
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if k == 0 {
			for _, name := range []string{"notify/file", "notify/marquez"} { // only what happens after the first lease is sent
				f.waitFor("the lease of the process", func() bool {
					_, err := s.LeaseCursor(t.Context(), name, "stranger", time.Millisecond)
					return errors.Is(err, store.ErrConflict)
				})
			}
			time.Sleep(50 * time.Millisecond)
		}
		before := len(hooks())
		id := fmt.Sprint("r", k)
		runs = append(runs, id)
		f.startLineage(id, "acme", nodes)
		if k > 0 {
			f.endLineage(runs[k-1])
		}
		if k == kills {
			f.endLineage(id)
		}
		want := 2 * (nodes + 2) * len(runs)
		f.waitFor("some events", func() bool {
			if k < kills {
				return len(hooks()) > before+k
			}
			return len(collect(t, hooks()).docs) == want && len(collect(t, fileLines(t, p.File)).docs) == want
		})
		if k%2 == 1 && k < kills { // the next process continues in the middle of a run
			f.waitFor("the start of the run", func() bool {
				return collect(t, hooks()).started[lineage.StepID(id, "load")] &&
					collect(t, fileLines(t, p.File)).started[lineage.StepID(id, "load")]
			})
			time.Sleep(300 * time.Millisecond) // until the position is saved
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
	}
	hook, file := collect(t, hooks()), collect(t, fileLines(t, p.File))
	hook.wantLineage(t, nodes, runs...)
	file.wantLineage(t, nodes, runs...)
	t.Logf("%d events over %d kills, repeated: %d by HTTP, %d in the file", len(hook.docs), kills, hook.repeated,
		file.repeated)
}

// fileLines reads the whole lines of a file.
func fileLines(t *testing.T, path string) (out []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return out
		}
		out = append(out, strings.TrimSuffix(line, "\n"))
	}
}
