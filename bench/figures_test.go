package main

import "testing"

func TestFigures_NamesAreDistinctAndFound(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, f := range figures() {
		for i, g := range f.Goals {
			name := f.Name
			if i > 0 {
				name = g.Name
			}
			if name == "" || seen[name] {
				t.Errorf("figure %q has a line named %q, want a unique name", f.Name, name)
			}
			seen[name] = true
			if found, ok := figureOf(name); !ok || found.Name != f.Name {
				t.Errorf("figureOf(%q) returned %q, %v; want figure %q", name, found.Name, ok, f.Name)
			}
		}
	}
}
