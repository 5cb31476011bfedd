package lineage

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/run/nodeset"
)

// Bounds of what is kept of a manifest. A node beyond them is reported without what was left out.
const (
	maxEntries = 100_000
	maxColumns = 1_000    // of a node
	maxSQL     = 64 << 10 // bytes of the text of a node
	maxText    = 4 << 10  // bytes of a description
	maxKept    = 64 << 20 // bytes of all texts of a manifest
)

// ErrManifest means that a document is no manifest of dbt, or has too many nodes.
var ErrManifest = errors.New("lineage: the manifest is not that of a dbt project, or has too many nodes")

// Manifest is what a manifest.json of dbt says of datasets. It is safe for concurrent readers.
type Manifest struct {
	Adapter    string // such as duckdb
	DBTVersion string
	nodes      map[string]entry // also sources and unit tests
	kept       int
}

// entry is a node or a source of a manifest.
type entry struct {
	Database    string  `json:"database"`
	Schema      string  `json:"schema"`
	Name        string  `json:"name"`
	Alias       string  `json:"alias"`
	Description string  `json:"description"`
	SQL         string  `json:"compiled_code"`
	Columns     columns `json:"columns"`
	Column      string  `json:"column_name"`
	Attached    string  `json:"attached_node"`
	DependsOn   struct {
		Nodes []string `json:"nodes"`
	} `json:"depends_on"`
	Config struct {
		Materialized string `json:"materialized"`
		Severity     string `json:"severity"`
	} `json:"config"`
	Test struct {
		Name string `json:"name"`
	} `json:"test_metadata"`
}

// column is a column that the project documents.
type column struct {
	Name        string `json:"name"`
	Type        string `json:"data_type"`
	Description string `json:"description"`
}

// columns are in the order of the document.
type columns []column

// UnmarshalJSON reads the object of columns. It ignores those beyond maxColumns.
func (c *columns) UnmarshalJSON(b []byte) error {
	doc := json.NewDecoder(bytes.NewReader(b))
	return nodeset.Members(doc, func(string) error {
		var one column
		err := doc.Decode(&one)
		if err == nil && len(*c) < maxColumns {
			one.Description = cut(one.Description, maxText)
			*c = append(*c, one)
		}
		return err
	})
}

// ReadManifest reads a manifest.json. One node is in memory at a time beside the result. Errors: ErrManifest, those of
// r and of the JSON.
func ReadManifest(r io.Reader) (*Manifest, error) {
	doc := json.NewDecoder(r)
	out := &Manifest{nodes: map[string]entry{}}
	err := nodeset.Members(doc, func(key string) error {
		switch key {
		case "metadata":
			var m struct {
				Adapter string `json:"adapter_type"`
				Version string `json:"dbt_version"`
			}
			err := doc.Decode(&m)
			out.Adapter, out.DBTVersion = m.Adapter, m.Version
			return err
		case "nodes", "sources", "unit_tests":
			return nodeset.Members(doc, func(id string) error { return out.read(doc, id) })
		}
		var skipped json.RawMessage
		return doc.Decode(&skipped)
	})
	if errors.Is(err, nodeset.ErrManifest) {
		err = ErrManifest
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (m *Manifest) read(doc *json.Decoder, id string) error {
	var e entry
	if err := doc.Decode(&e); err != nil {
		return err
	}
	if len(m.nodes) >= maxEntries {
		return ErrManifest
	}
	if len(e.SQL) > maxSQL {
		e.SQL = ""
	}
	e.Description = cut(e.Description, maxText)
	size := len(e.SQL) + len(e.Description)
	for _, c := range e.Columns {
		size += len(c.Name) + len(c.Type) + len(c.Description)
	}
	if m.kept+size > maxKept {
		e.SQL, e.Description, e.Columns = "", "", nil
	} else {
		m.kept += size
	}
	m.nodes[id] = e
	return nil
}

// Weight estimates the memory of the manifest in bytes.
func (m *Manifest) Weight() int {
	const frame = 512
	if m == nil {
		return frame
	}
	return m.kept + frame*(1+len(m.nodes))
}

// Dataset names a table or view. Namespace and name are those of the reference producer openlineage-dbt.
type Dataset struct {
	Namespace string
	Name      string
	id        string // of the node or source
}

// Datasets returns the datasets that a node reads and writes. The dataset of an ephemeral model, which has no table, is
// replaced by those that the model reads. warehouse is the namespace; when it is empty, the namespace is the name of
// the adapter. Both lists are empty for a node that the manifest does not name.
func (m *Manifest) Datasets(nodeID, warehouse string) (inputs, outputs []Dataset) {
	if m == nil {
		return nil, nil
	}
	n, known := m.nodes[nodeID]
	if !known {
		return nil, nil
	}
	if warehouse == "" {
		warehouse = m.Adapter
	}
	if writes(nodeID) && !m.isEphemeral(nodeID) {
		outputs = []Dataset{datasetOf(warehouse, nodeID, n)}
	}
	seen := map[string]bool{nodeID: true}
	for next := slices.Clone(n.DependsOn.Nodes); len(next) > 0; next = next[1:] {
		id := next[0]
		of, known := m.nodes[id]
		if seen[id] || !known {
			continue
		}
		seen[id] = true
		if m.isEphemeral(id) {
			next = append(next, of.DependsOn.Nodes...)
		} else if writes(id) || strings.HasPrefix(id, "source.") {
			inputs = append(inputs, datasetOf(warehouse, id, of))
		}
	}
	slices.SortFunc(inputs, func(a, b Dataset) int { return strings.Compare(a.Name, b.Name) })
	return inputs, outputs
}

// isEphemeral reports whether a node has no table: dbt compiles it into its readers and never executes it.
func (m *Manifest) isEphemeral(id string) bool {
	return m != nil && m.nodes[id].Config.Materialized == "ephemeral"
}

// writes reports whether nodes of this kind make a table or view.
func writes(id string) bool {
	switch kind, _, _ := strings.Cut(id, "."); kind {
	case "model", "seed", "snapshot":
		return true
	}
	return false
}

func datasetOf(warehouse, id string, e entry) Dataset {
	table := e.Alias
	if table == "" || strings.HasPrefix(id, "source.") {
		table = e.Name
	}
	parts := slices.DeleteFunc([]string{e.Database, e.Schema, table}, func(s string) bool { return s == "" })
	return Dataset{Namespace: warehouse, Name: strings.Join(parts, "."), id: id}
}

// cut returns at most n bytes of a text and ends at the border of a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}
