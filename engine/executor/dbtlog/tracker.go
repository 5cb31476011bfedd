package dbtlog

import (
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/nodeset"
)

// maxHeld and maxHeldBytes bound the reports that wait for the manifest, and their texts.
const (
	maxHeld      = 2 * run.MaxNodes
	maxHeldBytes = 8 << 20
)

// manifestEvery is the shortest time between two looks for the manifest.
const manifestEvery = 100 * time.Millisecond

// Tracker follows the nodes of one execution of dbt and reports each start and each end once. It reports only nodes
// that the manifest of the execution names, because a program of the project can print lines that look like events. It
// is safe for concurrent use.
type Tracker struct {
	// Report is called for each start and end, one at a time; total is the number of nodes, 0 when it is not known.
	Report func(n run.StepNode, total int)
	// Open opens the manifest that dbt wrote, or fails while there is none. It is called until it succeeds.
	Open func(read func(io.Reader) error) error
	// Now is the clock for nodes whose time dbt does not report; nil means time.Now.
	Now func() time.Time

	mu        sync.Mutex
	known     map[string]nodeset.Node // nil until it was read
	looked    time.Time
	held      []run.StepNode
	heldBytes int                     // of their texts
	nodes     map[string]run.StepNode // as they were reported last
	errors    map[string]string       // of nodes that have not ended
	hooks     int                     // nodes that the total of dbt does not count
	total     int
}

// Line reports what a line says of a node.
func (t *Tracker) Line(l Line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total = max(t.total, min(l.Total, 10*run.MaxNodes))
	if l.Node == nil {
		return
	}
	if t.known == nil && !t.look() {
		n := l.Node
		t.heldBytes += len(n.ID) + len(n.Error) + len(n.Relation)
		if len(t.held) < maxHeld && t.heldBytes <= maxHeldBytes {
			t.held = append(t.held, *l.Node)
		}
		return
	}
	t.take(*l.Node)
}

// Result corrects and completes a node from the results that dbt wrote at its end: they are dbt's last word. Rows may
// be nil, or counted by the project.
func (t *Tracker) Result(n run.StepNode) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil && !t.look() || !n.Status.Ended() {
		return
	}
	was, reported := t.nodes[n.ID]
	if !reported {
		t.take(n)
		return
	}
	now := was
	if was.Status != run.NodeSuccess || n.Status != run.NodeSkipped { // dbt 2 calls an ephemeral model skipped
		now.Status = n.Status
	}
	if !was.Status.Ended() {
		now.At = t.now().UTC()
	}
	for _, f := range []struct{ to, from **int64 }{{&now.DurationMS, &n.DurationMS}, {&now.Rows, &n.Rows},
		{&now.Bytes, &n.Bytes}, {&now.Failures, &n.Failures}} {
		if *f.to == nil {
			*f.to = *f.from
		}
	}
	if now.Error == "" {
		now.Error = n.Error
	}
	if now.Status != was.Status || now.Error != was.Error || isNew(was.Rows, now.Rows) ||
		isNew(was.Bytes, now.Bytes) || isNew(was.Failures, now.Failures) {
		t.send(now)
	}
}

func isNew(was, now *int64) bool { return was == nil && now != nil }

// look reads the manifest if dbt has written it, and reports what waited for it. It reports whether the manifest is
// known.
func (t *Tracker) look() bool {
	now := t.now()
	if now.Sub(t.looked) < manifestEvery {
		return false
	}
	t.looked = now
	var m nodeset.Manifest
	err := t.Open(func(r io.Reader) (err error) {
		m, err = nodeset.ReadManifest(r)
		return err
	})
	if err != nil {
		return false
	}
	t.known = m.Nodes
	for _, n := range t.held {
		t.take(n)
	}
	t.held = nil
	return true
}

// Flush looks for the manifest once more and reports what waited for it. Call it when dbt has ended.
func (t *Tracker) Flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looked = time.Time{}
	if t.known == nil {
		t.look()
	}
}

// take reports a node of the manifest when its status changed, or its error became known after its end.
func (t *Tracker) take(n run.StepNode) {
	_, named := t.known[n.ID]
	was, reported := t.nodes[n.ID]
	switch {
	case !named, !reported && len(t.nodes) >= run.MaxNodes:
		return
	case n.Status == "" && was.Status.Ended():
		if was.Error == "" && (was.Status == run.NodeFailed || was.Status == run.NodeWarn) {
			was.Error = n.Error
			t.send(was)
		}
		return
	case n.Status == "":
		if t.errors == nil {
			t.errors = map[string]string{}
		}
		t.errors[n.ID] = n.Error
		return
	case reported && (was.Status.Ended() || !n.Status.Ended()):
		return
	}
	if n.At.IsZero() {
		n.At = t.now().UTC()
	}
	if n.Type == "" {
		n.Type, _, _ = strings.Cut(n.ID, ".")
	}
	if n.Relation == "" {
		n.Relation = was.Relation
	}
	switch n.Status {
	case run.NodeFailed, run.NodeWarn:
		if n.Error == "" {
			n.Error = t.errors[n.ID]
		}
	case run.NodeSkipped:
		n.SkippedBy, n.DurationMS = t.culprit(n.ID), nil
	}
	if n.Status.Ended() {
		delete(t.errors, n.ID)
	}
	t.send(n)
}

func (t *Tracker) send(n run.StepNode) {
	if t.nodes == nil {
		t.nodes = map[string]run.StepNode{}
	}
	if _, reported := t.nodes[n.ID]; !reported && n.Type == "operation" {
		t.hooks++
	}
	t.nodes[n.ID] = n
	total := t.total
	if total > 0 {
		total += t.hooks
	}
	t.Report(n, total)
}

// culprit returns the failed node that made dbt skip a node: the nearest of those that it needs, or a failed test of
// one of them; "" when none failed.
func (t *Tracker) culprit(id string) string {
	failed := func(id string) bool { return t.nodes[id].Status == run.NodeFailed }
	seen := map[string]bool{id: true}
	for next := slices.Clone(t.known[id].Needs); len(next) > 0; next = next[1:] {
		at := next[0]
		if seen[at] {
			continue
		}
		seen[at] = true
		if failed(at) {
			return at
		}
		if i := slices.IndexFunc(t.known[at].Tests, failed); i >= 0 {
			return t.known[at].Tests[i]
		}
		next = append(next, t.known[at].Needs...)
	}
	return ""
}

func (t *Tracker) now() time.Time {
	if t.Now != nil {
		return t.Now()
	}
	return time.Now()
}
