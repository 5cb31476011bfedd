package nodeset

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
)

// Manifest is what a manifest.json of dbt says of a project.
type Manifest struct {
	Project    string // the name of the project
	DBTVersion string
	Nodes      map[string]Node // by unique id
}

// Node is what a manifest says of one node.
type Node struct {
	Needs []string // the ids of the nodes that it reads
	Tests []string // the ids of the tests that read it
	// Ephemeral means that the node has no table: dbt compiles it into its readers and never executes it.
	Ephemeral bool
	FQN       []string // package, folders and name
	Path      string   // of its file, from the root of the project
}

// maxManifestNodes bounds the nodes of a manifest that are read.
const maxManifestNodes = 100_000

// ErrManifest means that a document is no manifest, or has too many nodes.
var ErrManifest = errors.New("nodeset: the manifest is not a JSON object, or has too many nodes")

// ReadManifest reads a manifest.json. One node is in memory at a time beside the result. Errors: ErrManifest, those of
// r and of the JSON.
func ReadManifest(r io.Reader) (Manifest, error) {
	doc := json.NewDecoder(r)
	out := Manifest{Nodes: map[string]Node{}}
	err := Members(doc, func(key string) error {
		switch key {
		case "metadata":
			var m struct {
				Project string `json:"project_name"`
				Version string `json:"dbt_version"`
			}
			err := doc.Decode(&m)
			out.Project, out.DBTVersion = m.Project, m.Version
			return err
		case "nodes", "unit_tests", "functions":
			return Members(doc, func(id string) error { return out.read(doc, id) })
		}
		var skipped json.RawMessage
		return doc.Decode(&skipped)
	})
	if err != nil {
		return Manifest{}, err
	}
	out.linkTests()
	return out, nil
}

func (m *Manifest) read(doc *json.Decoder, id string) error {
	var n struct {
		DependsOn struct {
			Nodes []string `json:"nodes"`
		} `json:"depends_on"`
		Config struct {
			Materialized string `json:"materialized"`
		} `json:"config"`
		FQN  []string `json:"fqn"`
		Path string   `json:"original_file_path"`
	}
	if err := doc.Decode(&n); err != nil {
		return err
	}
	if len(m.Nodes) >= maxManifestNodes {
		return ErrManifest
	}
	m.Nodes[id] = Node{Needs: n.DependsOn.Nodes, Ephemeral: n.Config.Materialized == "ephemeral", FQN: n.FQN, Path: n.Path}
	return nil
}

// linkTests sets the Tests of all nodes.
func (m *Manifest) linkTests() {
	for id, n := range m.Nodes {
		if !isTest(id) {
			continue
		}
		for _, need := range n.Needs {
			if of, ok := m.Nodes[need]; ok {
				of.Tests = append(of.Tests, id)
				m.Nodes[need] = of
			}
		}
	}
	for id, n := range m.Nodes {
		slices.Sort(n.Tests)
		m.Nodes[id] = n
	}
}

// kindOf returns dbt's type of a node, which its id begins with.
func kindOf(id string) string {
	kind, _, _ := strings.Cut(id, ".")
	return kind
}

func isTest(id string) bool { return kindOf(id) == "test" || kindOf(id) == "unit_test" }

// Members calls visit with each key of the object that follows in doc; visit must read the value. null has no members.
// Errors: ErrManifest for other JSON, those of visit and of the JSON.
func Members(doc *json.Decoder, visit func(key string) error) error {
	open, err := doc.Token()
	if err != nil {
		return err
	}
	if open == nil { // null
		return nil
	}
	if open != json.Delim('{') {
		return ErrManifest
	}
	for doc.More() {
		key, err := doc.Token()
		if err != nil {
			return err
		}
		name, ok := key.(string)
		if !ok {
			return ErrManifest
		}
		if err := visit(name); err != nil {
			return err
		}
	}
	_, err = doc.Token()
	return err
}
