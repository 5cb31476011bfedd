package nodeset_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/nodeset"
)

// manifestOf makes a manifest of lines such as "model.a < model.b model.c", where the node before < reads those after.
func manifestOf(t *testing.T, lines ...string) nodeset.Manifest {
	t.Helper()
	nodes := make([]string, len(lines))
	for i, line := range lines {
		id, needs, _ := strings.Cut(line, " <")
		id, ephemeral := strings.CutSuffix(id, "~")
		kind := "table"
		if ephemeral {
			kind = "ephemeral"
		}
		var list []string
		for _, n := range strings.Fields(needs) {
			list = append(list, fmt.Sprintf("%q", n))
		}
		nodes[i] = fmt.Sprintf(`%q:{"depends_on":{"nodes":[%s]},"config":{"materialized":%q}}`, id, strings.Join(list, ","),
			kind)
	}
	m, err := nodeset.ReadManifest(strings.NewReader(`{"metadata":{"project_name":"p","dbt_version":"1.11.16"},"nodes":{` +
		strings.Join(nodes, ",") + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func resultsOf(words ...string) (out []run.Node) {
	for _, w := range words {
		id, status, _ := strings.Cut(w, " ")
		out = append(out, run.Node{StepNode: run.StepNode{ID: id, Status: run.NodeStatus(status)}})
	}
	return out
}

func texts(set []nodeset.Selected) (out []string) {
	for _, s := range set {
		out = append(out, strings.TrimSpace(s.ID+" "+string(s.Why)+" "+s.Of))
	}
	return out
}

func TestSelect_NamesTheNodesAndWhy(t *testing.T) {
	t.Parallel()
	m := manifestOf(t, "model.raw", "model.tmp~ <model.raw", "model.a <model.tmp", "model.b <model.a", "model.c <model.a",
		"test.raw1 <model.raw", "test.raw2 <model.raw", "test.raw3 <model.raw", "test.tmp <model.tmp", "test.a <model.a",
		"operation.end", "analysis.x")
	broken := resultsOf("model.raw SUCCESS", "test.raw1 FAILED", "test.raw2 SUCCESS", "test.tmp SUCCESS",
		"model.a SKIPPED",
		"model.b UNFINISHED", "model.c WARN", "test.a SKIPPED", "operation.end FAILED")
	for _, c := range []struct {
		name string
		req  nodeset.Request
		want []string
	}{
		{"failed, unfinished and skipped", nodeset.Request{Mode: nodeset.Failed}, []string{"model.a SKIPPED",
			"model.b UNFINISHED", "test.a SKIPPED", "test.raw1 FAILED"}},
		{"with the models that failed tests test, and the tests of theirs that ran",
			nodeset.Request{Mode: nodeset.FailedAndTestedParents}, []string{"model.a SKIPPED", "model.b UNFINISHED",
				"model.raw TESTED_BY test.raw1", "test.a SKIPPED", "test.raw1 FAILED", "test.raw2 TEST_OF model.raw"}},
		{"listed", nodeset.Request{Mode: nodeset.Listed, IDs: []string{"model.a", "model.c", "test.raw3", "model.a"}},
			[]string{"model.a SKIPPED", "model.c LISTED", "test.raw3 LISTED_NEW"}},
	} {
		set, err := nodeset.Select(m, broken, c.req)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, texts(set)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	var unknown *nodeset.UnknownError
	_, err := nodeset.Select(m, broken, nodeset.Request{Mode: nodeset.Listed,
		IDs: []string{"model.nope", "model.a", "operation.end", "model.tmp", "analysis.x", "model.nope"}})
	if !errors.As(err, &unknown) || !slices.Equal(unknown.IDs, []string{"model.nope", "operation.end", "model.tmp",
		"analysis.x"}) {
		t.Errorf("ids that cannot be retried give %v, want all four at once", err)
	}
	if _, err := nodeset.Select(m, resultsOf("model.a SUCCESS", "operation.end FAILED"),
		nodeset.Request{Mode: nodeset.Failed}); !errors.Is(err, nodeset.ErrNone) {
		t.Errorf("only a hook failed: %v, want ErrNone", err)
	}
	_, err = nodeset.Select(m, resultsOf("model.stranger FAILED"), nodeset.Request{Mode: nodeset.Failed})
	if !errors.Is(err, nodeset.ErrOther) {
		t.Errorf("a node of another project: %v, want ErrOther", err)
	}
}

func TestVerb_BuildsWhatTheStepsCommandDoesNotRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		verb, want string
		ids        []string
	}{
		{"run", "run", []string{"model.a"}}, {"run", "build", []string{"model.a", "test.a"}},
		{"test", "test", []string{"test.a", "unit_test.a"}}, {"test", "build", []string{"test.a", "model.a"}},
		{"compile", "compile", []string{"model.a", "test.a"}},
	} {
		if got := nodeset.Verb(c.verb, c.ids); got != c.want {
			t.Errorf("Verb(%s, %v) = %s, want %s", c.verb, c.ids, got, c.want)
		}
	}
}

// dbt is a small model of dbt build: it runs the selected nodes in the order of the graph, skips what reads a failed
// node, or a node with a failed test, and is killed after a number of nodes.
type dbt struct {
	m     nodeset.Manifest
	order []string
	ran   map[string]int // how often each node ended well
}

// build runs the nodes of a set; nil is all. Those in broken fail. It returns the results that the log has.
func (d *dbt) build(set []string, broken map[string]bool, killAfter int) map[string]run.NodeStatus {
	out := map[string]run.NodeStatus{}
	held := map[string]bool{}
	for _, id := range d.order {
		if d.m.Nodes[id].Ephemeral {
			for _, n := range d.m.Nodes[id].Needs {
				held[id] = held[id] || held[n]
			}
			continue
		}
		if set != nil && !slices.Contains(set, id) {
			continue
		}
		if killAfter == 0 {
			out[id] = run.NodeRunning
			return out
		}
		killAfter--
		skipped := false
		for _, n := range d.m.Nodes[id].Needs {
			skipped = skipped || held[n]
		}
		switch {
		case skipped:
			out[id], held[id] = run.NodeSkipped, true
		case broken[id]:
			out[id], held[id] = run.NodeFailed, true
			if strings.HasPrefix(id, "test.") {
				for _, n := range d.m.Nodes[id].Needs {
					held[n] = true
				}
			}
		default:
			out[id] = run.NodeSuccess
			d.ran[id]++
		}
	}
	return out
}

func graphs() int {
	if os.Getenv("TEST_LONG") != "" {
		return 10_000
	}
	return 300
}

// In random graphs with failures and kills, dbt runs exactly the nodes that the preview named: no other node runs, no
// node of the set is left out, and no node that ended well in the retry runs again after a kill. When nothing is broken
// any more, a retry of the failed nodes completes the step.
func TestSelect_RandomGraphsRunWhatThePreviewNamed(t *testing.T) {
	t.Parallel()
	done := 0
	for done < graphs() {
		rapid.Check(t, func(r *rapid.T) { checkGraph(t, r); done++ })
	}
	t.Logf("%d graphs", done)
}

func checkGraph(t *testing.T, r *rapid.T) {
	size := rapid.IntRange(1, 24).Draw(r, "nodes")
	d := &dbt{ran: map[string]int{}}
	var lines, models []string
	for i := range size {
		test := len(models) > 0 && rapid.IntRange(0, 2).Draw(r, "kind") == 0
		id := fmt.Sprintf("model.m%02d", i)
		if test {
			id = fmt.Sprintf("test.t%02d", i)
		}
		needs := map[string]bool{}
		if len(models) > 0 {
			for range rapid.IntRange(map[bool]int{true: 1}[test], 3).Draw(r, "needs") {
				needs[rapid.SampledFrom(models).Draw(r, "need")] = true
			}
		}
		line := id
		if !test && rapid.IntRange(0, 7).Draw(r, "ephemeral") == 0 {
			line += "~"
		}
		line += " <"
		for _, n := range models {
			if needs[n] {
				line += " " + n
			}
		}
		if !test {
			models = append(models, id)
		}
		lines, d.order = append(lines, line), append(d.order, id)
	}
	// dbt build runs the tests of a model before its readers.
	d.m = manifestOf(t, lines...)
	d.order = testsFirst(d.m, d.order)
	broken := map[string]bool{}
	for _, id := range d.order {
		broken[id] = rapid.IntRange(0, 4).Draw(r, "broken") == 0
	}
	union := d.build(nil, broken, -1)
	for attempt := range 4 {
		mode := rapid.SampledFrom([]nodeset.Mode{nodeset.Failed, nodeset.FailedAndTestedParents}).Draw(r, "mode")
		set, err := nodeset.Select(d.m, nodesOf(union), nodeset.Request{Mode: mode})
		if errors.Is(err, nodeset.ErrNone) {
			break
		}
		if err != nil {
			r.Fatal(err)
		}
		var ids []string
		for _, s := range set {
			ids = append(ids, s.ID)
			if mode == nodeset.Failed && union[s.ID] == run.NodeSuccess {
				r.Fatalf("%s succeeded and is in the set of FAILED", s.ID)
			}
		}
		if attempt > 1 {
			clear(broken)
		}
		before := map[string]int{}
		for id, n := range d.ran {
			before[id] = n
		}
		seen := map[string]bool{}
		results := map[string]run.NodeStatus{} // of the tries of this retry
		for kills := rapid.IntRange(0, 3).Draw(r, "kills"); ; kills-- {
			rest, after := nodeset.Rest(ids, results), -1
			if kills > 0 {
				after = rapid.IntRange(0, len(rest)).Draw(r, "kill")
			}
			for id, status := range d.build(rest, broken, after) {
				results[id], union[id], seen[id] = status, status, true
			}
			if kills <= 0 {
				break
			}
		}
		var executed []string
		for id := range seen {
			executed = append(executed, id)
		}
		slices.Sort(executed)
		if diff := cmp.Diff(ids, executed); diff != "" {
			r.Fatalf("previewed and executed differ:\n%s", diff)
		}
		for id, n := range d.ran {
			if n-before[id] > 1 {
				r.Fatalf("%s ended well %d times in one retry", id, n-before[id])
			}
		}
		if attempt > 1 {
			for id, status := range union {
				if status != run.NodeSuccess {
					r.Fatalf("nothing is broken any more, and %s is %s after the retry", id, status)
				}
			}
		}
	}
}

// testsFirst puts each test directly behind the last node that it reads.
func testsFirst(m nodeset.Manifest, order []string) (out []string) {
	placed := map[string]bool{}
	for _, id := range order {
		if placed[id] || strings.HasPrefix(id, "test.") {
			continue
		}
		out, placed[id] = append(out, id), true
		for _, test := range m.Nodes[id].Tests {
			ready := !placed[test]
			for _, n := range m.Nodes[test].Needs {
				ready = ready && placed[n]
			}
			if ready {
				out, placed[test] = append(out, test), true
			}
		}
	}
	return out
}

func nodesOf(union map[string]run.NodeStatus) (out []run.Node) {
	for id, status := range union {
		out = append(out, run.Node{StepNode: run.StepNode{ID: id, Status: status}})
	}
	return out
}
