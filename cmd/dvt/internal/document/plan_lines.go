package document

import (
	"regexp"
	"strconv"

	"gopkg.in/yaml.v3"
)

// Location is where something stands in a document, from 1; 0 when that is not known.
type Location struct{ Line, Column int }

var member = regexp.MustCompile(`([^.\[\]]+)|\[(\d+)\]`)

// LocationOf is where the value at a path like steps[1].timeout stands, or what holds it when it is
// missing. JSON is read as the YAML that it is.
func LocationOf(doc *yaml.Node, path string) Location {
	node := doc
	if node.Kind == yaml.DocumentNode && len(node.Content) > 0 {
		node = node.Content[0]
	}
	at := Location{node.Line, node.Column}
	for _, m := range member.FindAllStringSubmatch(path, -1) {
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		next, key := child(node, m[1], m[2])
		if next == nil {
			return at
		}
		node, at = next, Location{key.Line, key.Column}
	}
	return at
}

// child is the member of a mapping or the item of a list, and where it begins.
func child(of *yaml.Node, name, index string) (value, begins *yaml.Node) {
	switch of.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(of.Content); i += 2 {
			if of.Content[i].Value == name {
				return of.Content[i+1], of.Content[i]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(index); err == nil && i < len(of.Content) {
			return of.Content[i], of.Content[i]
		}
	}
	return nil, nil
}
