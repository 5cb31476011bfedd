package document

import (
	"bytes"
	"encoding/json"
)

// List returns an answer of the API in which each list of edges and nodes is an array of its nodes, because a script
// has no use for cursors. The order of names stays.
func List(answer any) (json.RawMessage, error) {
	doc, err := json.Marshal(pointerTo(answer))
	if err != nil {
		return nil, err
	}
	return flatten(doc)
}

// field is a name of an object with its value.
type field struct {
	name  string
	value json.RawMessage
}

func flatten(doc json.RawMessage) (json.RawMessage, error) {
	switch doc = bytes.TrimSpace(doc); doc[0] {
	case '[':
		var items []json.RawMessage
		if err := json.Unmarshal(doc, &items); err != nil {
			return nil, err
		}
		return flattenItems(items)
	case '{':
		members, err := readMembers(doc)
		if err != nil {
			return nil, err
		}
		if edges := find(members, "edges"); edges != nil && find(members, "pageInfo") != nil {
			var all []struct{ Node json.RawMessage }
			if err := json.Unmarshal(edges, &all); err != nil {
				return nil, err
			}
			nodes := make([]json.RawMessage, len(all))
			for i, e := range all {
				nodes[i] = e.Node
			}
			return flattenItems(nodes)
		}
		return flattenMembers(members)
	}
	return doc, nil
}

func readMembers(doc json.RawMessage) (out []field, err error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	if _, err = d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := field{name: name.(string)}
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func find(members []field, name string) json.RawMessage {
	for _, m := range members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

func flattenItems(items []json.RawMessage) (json.RawMessage, error) {
	b := bytes.NewBufferString("[")
	for i, item := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		flat, err := flatten(item)
		if err != nil {
			return nil, err
		}
		b.Write(flat)
	}
	b.WriteByte(']')
	return b.Bytes(), nil
}

func flattenMembers(members []field) (json.RawMessage, error) {
	b := bytes.NewBufferString("{")
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		flat, err := flatten(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(flat)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
