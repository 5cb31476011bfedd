package dbtlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine/executor/dbtlog"
	"github.com/dvt-engine/dvt/run"
)

// versions are the recorded outputs of dbt build on one project, whose model hostile prints fake events.
var versions = []string{"1.10", "1.11", "2.0.0a4"}

// reports collects what a Tracker reports.
type reports struct {
	all   []run.StepNode
	total int
}

// newTracker returns a Tracker that reads the recorded manifest, unless it is nil, and its reports.
func newTracker(manifest func() ([]byte, error)) (*dbtlog.Tracker, *reports) {
	r := &reports{}
	now := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	return &dbtlog.Tracker{
		Report: func(n run.StepNode, total int) { r.all, r.total = append(r.all, n), total },
		Open: func(read func(io.Reader) error) error {
			body, err := manifest()
			if err != nil {
				return err
			}
			return read(bytes.NewReader(body))
		},
		Now: func() time.Time { now = now.Add(time.Second); return now },
	}, r
}

func recorded() ([]byte, error) { return os.ReadFile(filepath.Join("testdata", "manifest.json")) }

func feed(t *testing.T, to *dbtlog.Tracker, version string) {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", version+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		l, ok := dbtlog.Parse(strings.TrimSuffix(line, "\n"))
		if !ok {
			t.Fatalf("%s: a line is no event: %s", version, line)
		}
		to.Line(l)
	}
	to.Flush()
}

// last returns the last report of each node, as a text.
func (r *reports) last() map[string]string {
	out := map[string]string{}
	for _, n := range r.all {
		text := string(n.Status)
		if n.SkippedBy != "" {
			text += " by " + n.SkippedBy
		}
		if n.Failures != nil && *n.Failures > 0 {
			text += fmt.Sprintf(", %d failures", *n.Failures)
		}
		if first, _, _ := strings.Cut(n.Error, "\n"); first != "" {
			text += ": " + first
		}
		out[n.ID] = text
	}
	return out
}

func TestTracker_SaysTheSameOfEachVersion(t *testing.T) {
	t.Parallel()
	base := map[string]string{
		"operation.shop.shop-on-run-start-0": "SUCCESS", "operation.shop.shop-on-run-end-0": "SUCCESS",
		"seed.shop.raw": "SUCCESS", "model.shop.customers": "SUCCESS", "model.shop.counts": "SUCCESS",
		"model.shop.hostile": "SUCCESS", "model.shop.uses_eph": "SUCCESS",
		"test.shop.not_null_customers_id.422908bfae": "SUCCESS",
		"model.shop.after_broken":                    "SKIPPED by model.shop.broken",
		"model.shop.after_test":                      "SKIPPED by test.shop.accepted_values_counts_n__7.5f3bfee2ae",
	}
	for version, own := range map[string]map[string]string{
		"1.10": nil, "1.11": nil,
		"2.0.0a4": {"model.shop.eph": "SUCCESS"}, // it also reports ephemeral models
	} {
		to, got := newTracker(recorded)
		feed(t, to, version)
		want := map[string]string{}
		for id, text := range base {
			want[id] = text
		}
		for id, text := range own {
			want[id] = text
		}
		v1 := own == nil
		for _, n := range []struct{ id, text, more string }{
			{"model.shop.broken", "FAILED: ", "Runtime Error in model broken (models/broken.sql)"},
			{"test.shop.accepted_values_counts_n__7.5f3bfee2ae", "FAILED, 1 failures",
				": Got 1 result, configured to fail if != 0"},
			{"test.shop.unique_customers_id.70f3d3fd20", "WARN, 1 failures", ": Got 1 result, configured to warn if != 0"},
		} {
			if want[n.id] = n.text; v1 {
				want[n.id] += n.more
			}
		}
		if !v1 {
			want["model.shop.broken"] += "[DbDriverFailed (dbt1308)]: Database Error in model broken " +
				"(../srv/dbt/target/run/shop/models/broken.sql)"
		}
		if diff := cmp.Diff(want, got.last()); diff != "" {
			t.Errorf("%s: nodes (-want +got):\n%s", version, diff)
		}
		for _, n := range got.all {
			if strings.Contains(n.Error, "<unknown>") || strings.Contains(n.Error, "clone3") {
				t.Errorf("%s: the error of %s has a stack trace:\n%s", version, n.ID, n.Error)
			}
			if n.Status.Ended() && n.Status != run.NodeSkipped && n.DurationMS == nil {
				t.Errorf("%s: %s ended without a duration", version, n.ID)
			}
			if n.At.Year() != 2026 {
				t.Errorf("%s: %s is at %s, want a time of 2026", version, n.ID, n.At)
			}
		}
		if v1 && got.total != 13 {
			t.Errorf("%s: the total is %d, want 11 nodes and 2 hooks", version, got.total)
		}
	}
}

func TestTracker_ReportsEachStartAndEndOnce(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		to, got := newTracker(recorded)
		feed(t, to, version)
		seen := map[string][]run.NodeStatus{}
		for _, n := range got.all {
			seen[n.ID] = append(seen[n.ID], n.Status)
		}
		for id, list := range seen {
			ended := list[len(list)-1]
			ok := slices.Equal(list, []run.NodeStatus{run.NodeRunning, ended}) ||
				slices.Equal(list, []run.NodeStatus{run.NodeSkipped}) ||
				// dbt 1 says the error of a node at its own end.
				slices.Equal(list, []run.NodeStatus{run.NodeRunning, run.NodeFailed, run.NodeFailed}) ||
				slices.Equal(list, []run.NodeStatus{run.NodeRunning, run.NodeWarn, run.NodeWarn})
			if !ok {
				t.Errorf("%s: %s was reported %v, want a start and an end", version, id, list)
			}
		}
		before := len(got.all)
		feed(t, to, version) // a repeated line changes nothing
		if len(got.all) != before {
			t.Errorf("%s: the same output again gave %d reports, want none", version, len(got.all)-before)
		}
	}
}

func TestTracker_ReportsOnlyNodesOfTheManifest(t *testing.T) {
	t.Parallel()
	written := false
	to, got := newTracker(func() ([]byte, error) {
		if !written {
			return nil, errors.New("no file")
		}
		return []byte(`{"metadata":{},"nodes":{"model.shop.a":{"depends_on":{"nodes":[]}}},"macros":{"m":{}}}`), nil
	})
	say := func(id, status string) {
		l, ok := dbtlog.Parse(`{"info":{"name":"LogModelResult","level":"info","msg":"x"},"data":{"node_info":` +
			`{"unique_id":"` + id + `","node_status":"` + status + `"}}}`)
		if !ok {
			t.Fatal("the line is no event")
		}
		to.Line(l)
	}
	say("model.shop.a", "started")
	say("model.shop.invented", "success")
	if len(got.all) != 0 {
		t.Fatalf("%d reports before there is a manifest, want none", len(got.all))
	}
	written = true
	say("model.shop.a", "success")
	say("model.shop.other", "success")
	if want, ids := []string{"model.shop.a RUNNING", "model.shop.a SUCCESS"}, texts(got.all); !slices.Equal(ids, want) {
		t.Errorf("reports %q, want %q", ids, want)
	}
}

func texts(nodes []run.StepNode) (out []string) {
	for _, n := range nodes {
		out = append(out, n.ID+" "+string(n.Status))
	}
	return out
}

func TestTracker_ResultsCorrectAndComplete(t *testing.T) {
	t.Parallel()
	to, got := newTracker(func() ([]byte, error) {
		return []byte(`{"nodes":{"model.s.a":{},"model.s.b":{},"test.s.t":{},"model.s.e":{}}}`), nil
	})
	for _, s := range []struct{ id, status string }{{"model.s.a", "success"}, {"test.s.t", "pass"},
		{"model.s.b", "started"}, {"model.s.e", "no-op"}} {
		l, _ := dbtlog.Parse(`{"info":{"name":"X","level":"info"},"data":{"node_info":{"unique_id":"` + s.id +
			`","node_status":"` + s.status + `"}}}`)
		to.Line(l)
	}
	got.all = nil
	for _, n := range []run.StepNode{
		{ID: "model.s.a", Status: run.NodeSuccess, Rows: new(int64(7))},
		{ID: "test.s.t", Status: run.NodeFailed, Error: "Got 1 result"},
		{ID: "model.s.b", Status: run.NodeSuccess},
		{ID: "model.s.e", Status: run.NodeSkipped},
		{ID: "model.s.unknown", Status: run.NodeSuccess},
	} {
		to.Result(n)
		to.Result(n)
	}
	want := []string{"model.s.a SUCCESS", "test.s.t FAILED", "model.s.b SUCCESS"}
	if ids := texts(got.all); !slices.Equal(ids, want) {
		t.Errorf("the results gave the reports %q, want %q", ids, want)
	}
	if rows := got.all[0].Rows; rows == nil || *rows != 7 {
		t.Errorf("model.s.a has the rows %v, want 7", rows)
	}
}

func TestParse_ReadsRowsOfAdapters(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]int64{"SELECT 5": 5, "INSERT 0 12": 12, "SUCCESS 1": 1, "INSERT 3": 3,
		"CREATE TABLE (5.0 rows, 2.3 MiB processed)": 5, "OK": -1, "CREATE VIEW": -1, "CREATE TABLE (1.2k rows)": -1} {
		l, ok := dbtlog.Parse(fmt.Sprintf(`{"info":{"name":"LogModelResult","level":"info"},"data":{"status":%q,"node_info":`+
			`{"unique_id":"model.a.b","node_status":"success"}}}`, status))
		if !ok || l.Node == nil {
			t.Fatalf("%s: no node in the line", status)
		}
		if got := l.Node.Rows; want < 0 && got != nil || want >= 0 && (got == nil || *got != want) {
			t.Errorf("%s: rows %v, want %d", status, got, want)
		}
	}
}

func TestTracker_3000NodesAreBounded(t *testing.T) {
	t.Parallel()
	var manifest strings.Builder
	manifest.WriteString(`{"nodes":{"model.s.m0":{}`)
	const nodes = 3_000
	for i := 1; i < nodes; i++ {
		fmt.Fprintf(&manifest, `,"model.s.m%d":{"depends_on":{"nodes":["model.s.m%d"]}}`, i, i-1)
	}
	manifest.WriteString(`}}`)
	to, got := newTracker(func() ([]byte, error) { return []byte(manifest.String()), nil })
	began := time.Now()
	for i := range nodes {
		for _, status := range []string{"started", "success"} {
			l, _ := dbtlog.Parse(fmt.Sprintf(`{"info":{"name":"X","level":"info","msg":"m"},"data":{"total":%d,"node_info":`+
				`{"unique_id":"model.s.m%d","node_status":%q}}}`, nodes, i, status))
			to.Line(l)
		}
	}
	if len(got.all) != 2*nodes || got.total != nodes {
		t.Errorf("%d reports of %d nodes, want two of each of %d", len(got.all), got.total, nodes)
	}
	t.Logf("%d lines in %s", 2*nodes, time.Since(began))
}

func FuzzParse(f *testing.F) {
	for _, version := range versions {
		body, err := os.ReadFile(filepath.Join("testdata", version+".jsonl"))
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(body)) {
			f.Add(line)
		}
	}
	f.Add(`{"info":{"level":"info"},"data":[]}`)
	f.Add(`{"info":{"level":"info"},"data":{"node_info":{"unique_id":7,"node_status":null},"execution_time":-1e300}}`)
	f.Fuzz(func(t *testing.T, line string) {
		l, ok := dbtlog.Parse(line)
		if !ok || l.Node == nil {
			return
		}
		n := l.Node
		if n.ID == "" || len(n.Error) > run.MaxNodeText || !run.IsText(n.Error) || l.Total < 0 {
			t.Errorf("%q gives the node %+v of %d", line, n, l.Total)
		}
		for _, figure := range []*int64{n.DurationMS, n.Rows, n.Bytes} {
			if figure != nil && *figure < 0 {
				t.Errorf("%q gives a negative figure: %+v", line, n)
			}
		}
		to, got := newTracker(recorded)
		to.Line(l)
		for _, n := range got.all {
			if n.Status != run.NodeRunning && !n.Status.Ended() {
				t.Errorf("%q reports the status %q", line, n.Status)
			}
		}
	})
}
