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
				t.Errorf("the figure %q has a line without a name of its own", f.Name)
			}
			seen[name] = true
			if found, ok := figureOf(name); !ok || found.Name != f.Name {
				t.Errorf("%q is not found as a line of %q", name, f.Name)
			}
		}
	}
}
