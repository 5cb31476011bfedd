package reads

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// DBTReader reads the nodes of dbt runs. It is safe for concurrent use.
type DBTReader struct {
	rights *control.Rights
	store  StateStore
	blobs  artifact.Blobs
	expiry artifactExpiry
}

// NewDBTReader makes a DBTReader.
func NewDBTReader(rights *control.Rights, store StateStore, blobs artifact.Blobs, expiry artifactExpiry) *DBTReader {
	return &DBTReader{rights: rights, store: store, blobs: blobs, expiry: expiry}
}

const (
	// maxDBTResults is the size of the largest run_results.json that is read, in bytes.
	maxDBTResults  = 16 << 20
	maxDBTMessage  = 4 << 10
	maxDBTSQL      = 32 << 10
	dbtResultsFile = "run_results.json"
)

// DBTNodesQuery asks for the results of dbt's nodes in one logical attempt.
type DBTNodesQuery struct {
	RunID, StepID string
	Attempt       int      // 0 means the latest
	Statuses      []string // statuses of dbt; none means all
	First         int
	After         string // cursor of DBTNodesPage
}

// DBTNode is the result of one node in run_results.json.
type DBTNode struct {
	UniqueID     string `json:"unique_id"`
	Status       string `json:"status"` // as dbt writes it
	Message      string `json:"message"`
	Failures     *int64 `json:"failures"` // rows that a test found
	RowsAffected *int64 `json:"-"`        // nil when the adapter does not report it
	CompiledSQL  string `json:"compiled_code"`
	// SQLCut means that CompiledSQL was cut.
	SQLCut        bool          `json:"-"`
	ExecutionTime time.Duration `json:"-"`
}

// ResourceType returns dbt's type of the node, such as model, test or seed.
func (n DBTNode) ResourceType() string {
	kind, _, _ := strings.Cut(n.UniqueID, ".")
	return kind
}

// Name returns the name of the node within its package. The name of a test lacks the digest that dbt appends.
func (n DBTNode) Name() string {
	parts := strings.Split(n.UniqueID, ".")
	switch {
	case len(parts) < 3:
		return n.UniqueID
	case parts[0] == "test":
		return parts[2]
	}
	return strings.Join(parts[2:], ".")
}

// DBTNodesPage is a page of nodes in the order in which dbt finished them.
type DBTNodesPage struct {
	Attempt  int
	Nodes    []DBTNode
	Cursors  []string       // one per node
	Total    int            // number of nodes with the requested statuses
	ByStatus map[string]int // counts of all nodes
	HasNext  bool
}

// DBTNodes reads the nodes of one attempt from its run_results.json, whether the attempt succeeded or failed. ok is
// false when there is no such file: the step is no dbt step, the attempt has not ended, dbt failed early, or the
// artifact has expired. It reads the whole file for each page. Errors: NOT_FOUND, CURSOR_INVALID, BAD_USER_INPUT, and
// QUERY_TOO_COMPLEX for a file above 16 MiB.
func (s *DBTReader) DBTNodes(ctx context.Context, p authz.Principal, in DBTNodesQuery) (out DBTNodesPage, ok bool,
	err error) {
	n, err := control.PageSize(in.First, 50)
	if err != nil {
		return out, false, err
	}
	after, err := decodeIndex(in.After)
	if err != nil {
		return out, false, err
	}
	if in.Attempt < 0 {
		return out, false, control.BadInput([]plan.Violation{{Path: "attempt", Code: "RANGE",
			Message: "must be 1 or more"}})
	}
	ref, attempt, err := s.resultsOf(ctx, p, in)
	if err != nil || ref == nil {
		return out, false, err
	}
	if ref.SizeBytes > maxDBTResults {
		return out, false, dbtTooLarge(ref.SizeBytes)
	}
	body, err := s.blobs.Open(ctx, ref.URI)
	if errors.Is(err, artifact.ErrNotFound) {
		return out, false, nil // artifacts expire
	}
	if err != nil {
		return out, false, control.Translate(err)
	}
	defer func() { _ = body.Close() }()
	page := dbtPage{DBTNodesPage: DBTNodesPage{Attempt: attempt, ByStatus: map[string]int{}}, of: in.Statuses,
		after: after, first: n}
	if err := page.read(io.LimitReader(body, maxDBTResults)); err != nil {
		return out, false, control.Translate(err)
	}
	return page.DBTNodesPage, true, nil
}

func dbtTooLarge(bytes int64) *control.Error {
	e := control.Refuse(run.CodeQueryTooComplex,
		"dbt's run_results.json has %d bytes; this query reads at most %d. Read the "+
			"artifact itself.", bytes, maxDBTResults)
	e.Limit = maxDBTResults
	return e
}

// resultsOf returns dbt's results of the attempt, nil when there are none, and the number of the attempt.
func (s *DBTReader) resultsOf(ctx context.Context, p authz.Principal, in DBTNodesQuery) (*run.ArtifactRef, int, error) {
	r, err := s.rights.GetVisible(ctx, p, authz.Read, in.RunID)
	if err != nil {
		return nil, 0, err
	}
	l, err := s.store.Load(ctx, in.RunID)
	if err != nil {
		return nil, 0, control.Translate(err)
	}
	step, ok := l.State.Step(in.StepID)
	if !ok {
		return nil, 0, control.Refuse(run.CodeNotFound, "The run has no step %q.", in.StepID)
	}
	logical := cmp.Or(in.Attempt, step.LogicalAttempt)
	for _, a := range step.Attempts {
		if a.LogicalAttempt != logical {
			continue
		}
		id := artifact.AttemptID{TenantID: r.TenantID, RunID: in.RunID, StepID: in.StepID, LogicalAttempt: logical}
		if ref := ownResults(id, a); ref != nil {
			return ref, logical, nil
		}
	}
	return nil, 0, nil
}

// dbtPage collects one page while the file is streamed. At most one node beyond the page is in memory.
type dbtPage struct {
	DBTNodesPage
	of           []string
	after, first int
}

func (d *dbtPage) read(file io.Reader) error { return eachDBTNode(file, d.node) }

// dbtNode is a node as run_results.json has it.
type dbtNode struct {
	DBTNode
	Seconds float64                    `json:"execution_time"`
	Adapter map[string]json.RawMessage `json:"adapter_response"`
}

// number returns a number of the adapter's response, nil when the adapter does not report it.
func (n *dbtNode) number(key string) *int64 {
	var v int64
	if json.Unmarshal(n.Adapter[key], &v) != nil || v < 0 {
		return nil
	}
	return &v
}

// eachDBTNode calls visit with each node of a run_results.json and its number from 1. One node is in memory at a time.
func eachDBTNode(file io.Reader, visit func(no int, n dbtNode)) error {
	doc := json.NewDecoder(file)
	if err := expectDelim(doc, '{'); err != nil {
		return err
	}
	for doc.More() {
		key, err := doc.Token()
		if err != nil {
			return unreadableDBT(err)
		}
		if key != "results" {
			var skipped json.RawMessage
			if err := doc.Decode(&skipped); err != nil {
				return unreadableDBT(err)
			}
			continue
		}
		if err := expectDelim(doc, '['); err != nil {
			return err
		}
		for no := 1; doc.More(); no++ {
			var n dbtNode
			if err := doc.Decode(&n); err != nil {
				return unreadableDBT(err)
			}
			visit(no, n)
		}
		return nil
	}
	return nil
}

func expectDelim(doc *json.Decoder, with json.Delim) error {
	t, err := doc.Token()
	if err == nil && t != with {
		err = fmt.Errorf("%v instead of %v", t, with)
	}
	if err != nil {
		return unreadableDBT(err)
	}
	return nil
}

func unreadableDBT(err error) error {
	return fmt.Errorf("control: run_results.json: %w", err)
}

// node counts a node, and adds it to the page if it belongs there.
func (d *dbtPage) node(no int, n dbtNode) {
	d.ByStatus[n.Status]++
	if len(d.of) > 0 && !slices.Contains(d.of, n.Status) {
		return
	}
	d.Total++
	switch {
	case no <= d.after:
		return
	case len(d.Nodes) == d.first:
		d.HasNext = true
		return
	}
	n.ExecutionTime = time.Duration(n.Seconds * float64(time.Second)).Round(time.Millisecond)
	n.RowsAffected = n.number("rows_affected")
	n.Message = cutText(n.Message, maxDBTMessage)
	whole := n.CompiledSQL
	n.CompiledSQL = cutText(whole, maxDBTSQL)
	n.SQLCut = len(n.CompiledSQL) < len(whole)
	d.Nodes = append(d.Nodes, n.DBTNode)
	d.Cursors = append(d.Cursors, strconv.Itoa(no))
}

// cutText cuts s to at most limit bytes without splitting a character.
func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}

// decodeIndex decodes a cursor that is the number of an entry; "" gives 0.
func decodeIndex(cursor string) (int, error) {
	if cursor == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(cursor)
	if err != nil || n < 1 {
		return 0, control.CursorInvalid()
	}
	return n, nil
}
