package nodeset

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"
	"slices"

	"github.com/dvt-engine/dvt/run"
)

// Shape is what of a project decides whether a node was modified.
type Shape struct {
	nodes  map[string]shapeNode
	macros map[string]digest
}

type digest [sha256.Size]byte

type shapeNode struct {
	body, config  digest
	needs, macros []string
}

// Modification says what of a node differs between two manifests, or how it is reached from a node that differs.
type Modification string

// Modifications, in the order in which the first one that applies is given.
const (
	IsNew          Modification = "NEW"
	BodyModified   Modification = "BODY"
	ConfigModified Modification = "CONFIG"
	MacroModified  Modification = "MACRO"    // Of is the macro
	ReadsModified  Modification = "READS"    // Of is the node that it reads: modified, or reached itself
	WasSelected    Modification = "SELECTED" // nothing differs: the selection of the plan names it
)

// Reached is a node of a slim step, and why it ran.
type Reached struct {
	ID  string       `json:"id"`
	Why Modification `json:"why"`
	Of  string       `json:"of,omitempty"`
}

// Reasons is the content of the artifact ReasonsFile of a slim step: the manifest that it compared with, and why each
// of its nodes ran.
type Reasons struct {
	Against run.StateBase `json:"against"`
	Nodes   []Reached     `json:"nodes"`
}

// ReasonsFile is the file name of the artifact of Reasons.
const ReasonsFile = "selection.json"

// ReadShape reads a manifest.json. Errors: those of ReadManifest.
func ReadShape(r io.Reader) (Shape, error) {
	doc := json.NewDecoder(r)
	out := Shape{nodes: map[string]shapeNode{}, macros: map[string]digest{}}
	err := Members(doc, func(key string) error {
		switch key {
		case "nodes", "sources", "unit_tests":
			return Members(doc, func(id string) error { return out.readNode(doc, id) })
		case "macros":
			return Members(doc, func(id string) error { return out.readMacro(doc, id) })
		}
		var skipped json.RawMessage
		return doc.Decode(&skipped)
	})
	return out, err
}

func (s *Shape) readMacro(doc *json.Decoder, id string) error {
	var m struct {
		SQL string `json:"macro_sql"`
	}
	if err := doc.Decode(&m); err != nil {
		return err
	}
	if len(s.macros) >= maxManifestNodes {
		return ErrManifest
	}
	s.macros[id] = sha256.Sum256([]byte(m.SQL))
	return nil
}

func (s *Shape) readNode(doc *json.Decoder, id string) error {
	var n struct {
		Checksum  json.RawMessage `json:"checksum"`
		Config    json.RawMessage `json:"unrendered_config"`
		DependsOn struct {
			Nodes  []string `json:"nodes"`
			Macros []string `json:"macros"`
		} `json:"depends_on"`
	}
	if err := doc.Decode(&n); err != nil {
		return err
	}
	if len(s.nodes) >= maxManifestNodes {
		return ErrManifest
	}
	s.nodes[id] = shapeNode{body: digestOf(n.Checksum), config: digestOf(n.Config), needs: n.DependsOn.Nodes,
		macros: n.DependsOn.Macros}
	return nil
}

// digestOf is that of a JSON value without its white space.
func digestOf(value json.RawMessage) digest {
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return sha256.Sum256(value)
	}
	return sha256.Sum256(compact.Bytes())
}

// Why says for each of the ids, in their order and each once, what of it differs between two manifests of a project, or
// which node makes it run. dbt decides which nodes run; this only explains it.
func Why(before, now Shape, ids []string) []Reached {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	known := map[string]Reached{}
	out := make([]Reached, len(ids))
	for i, id := range ids {
		out[i] = now.why(before, id, known)
	}
	return out
}

// why finds the nearest node below one that was modified. known has what is known of nodes themselves.
func (s *Shape) why(before Shape, id string, known map[string]Reached) Reached {
	readBy := map[string]string{id: ""} // the reader by which each was reached
	for next := []string{id}; len(next) > 0; next = next[1:] {
		at := next[0]
		r, done := known[at]
		if !done {
			r = s.modified(before, at)
			known[at] = r
		}
		switch {
		case r.Why != WasSelected && at == id:
			return r
		case r.Why != WasSelected:
			for readBy[at] != id {
				at = readBy[at]
			}
			return Reached{ID: id, Why: ReadsModified, Of: at}
		}
		for _, need := range s.nodes[at].needs {
			if _, was := readBy[need]; !was {
				readBy[need] = at
				next = append(next, need)
			}
		}
	}
	return Reached{ID: id, Why: WasSelected}
}

// modified says what of a node itself differs, or WasSelected.
func (s *Shape) modified(before Shape, id string) Reached {
	n := s.nodes[id]
	was, existed := before.nodes[id]
	switch {
	case !existed:
		return Reached{ID: id, Why: IsNew}
	case n.body != was.body:
		return Reached{ID: id, Why: BodyModified}
	case n.config != was.config:
		return Reached{ID: id, Why: ConfigModified}
	}
	for _, m := range slices.Sorted(slices.Values(n.macros)) {
		if s.macros[m] != before.macros[m] {
			return Reached{ID: id, Why: MacroModified, Of: m}
		}
	}
	return Reached{ID: id, Why: WasSelected}
}
