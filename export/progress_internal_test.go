package export

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// The last commit of a part comes when the position is behind it: it is still the commit of that part.
func TestWrite_ProgressNamesThePartWithItsNumber(t *testing.T) {
	t.Parallel()
	w, _, err := openWork(Config{Dir: filepath.Join(t.TempDir(), "export")})
	if err != nil {
		t.Fatal(err)
	}
	var told []Progress
	e := &exporter{work: w}
	e.Progress = func(p Progress) {
		told = append(told, Progress{Part: p.Part, Parts: p.Parts, Of: p.Of})
		e.told = time.Time{} // the next one is told too
	}
	nothing := func(context.Context) error { return nil }
	if err := e.write(t.Context(), []part{{"audit", nothing}, {"runs", nothing}}); err != nil {
		t.Fatal(err)
	}
	want := []Progress{{Part: "audit", Parts: 1, Of: 2}, {Part: "audit", Parts: 1, Of: 2}, {Part: "runs", Parts: 2, Of: 2},
		{Part: "runs", Parts: 2, Of: 2}}
	if !slices.Equal(slices.Compact(told), slices.Compact(want)) {
		t.Errorf("told %v, want %v", told, want)
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
}
