package document

import (
	"regexp"
	"strconv"

	"gopkg.in/yaml.v3"
)

// Location is a line and a column of a document, both from 1; 0 is unknown.
type Location struct{ Line, Column int }

var member = regexp.MustCompile(`([^.\[\]]+)|\[(\d+)\]`)

// LocationOf returns the location of the value at a path such as steps[1].timeout. For a missing value it is the
// location of the nearest parent. It works for JSON too, because JSON is YAML.
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

// child returns the member of a mapping or the item of a list, and the node where it begins: the key of a member.
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
