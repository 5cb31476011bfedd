package storeadmin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store/authority"
)

// compareCheckpoint compares the checkpoint with the fold of the log up to it.
func (v *verification) compareCheckpoint() {
	cp := v.checkpoint
	if !authority.IsCurrentRevision(cp.Rev) {
		v.out.Notes++
		if len(v.out.Noted) < MaxFindings {
			v.out.Noted = append(v.out.Noted, Finding{v.run.RunID, 0, "checkpoint.rev", display(cp.Rev),
				display(run.ReducerRev) + "; this program ignores the checkpoint: rebuild it"})
		}
		return
	}
	v.differ("header", jsonTree(cp.Header), jsonTree(v.state.Header))
	if len(cp.Steps) != len(v.state.Steps) {
		v.find(0, "steps", fmt.Sprintf("%d steps", len(cp.Steps)), fmt.Sprintf("%d steps", len(v.state.Steps)))
	}
	for i := range min(len(cp.Steps), len(v.state.Steps)) {
		if !reflect.DeepEqual(cp.Steps[i], v.state.Steps[i]) {
			v.differ("steps["+v.state.Steps[i].StepID+"]", jsonTree(cp.Steps[i]), jsonTree(v.state.Steps[i]))
		}
	}
}

// jsonTree returns v as decoded JSON.
func jsonTree(v any) any {
	doc, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var out any
	if err := d.Decode(&out); err != nil {
		return err.Error()
	}
	return out
}

// differ adds a finding for each leaf of two JSON trees that differs.
func (v *verification) differ(path string, stored, expected any) {
	if reflect.DeepEqual(stored, expected) {
		return
	}
	a, okA := stored.(map[string]any)
	b, okB := expected.(map[string]any)
	if okA && okB {
		names := slices.Collect(maps.Keys(a))
		for name := range b {
			if _, both := a[name]; !both {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			v.differ(path+"."+name, a[name], b[name])
		}
		return
	}
	x, okX := stored.([]any)
	y, okY := expected.([]any)
	if okX && okY {
		for i := range min(len(x), len(y)) {
			v.differ(fmt.Sprintf("%s[%d]", path, i), x[i], y[i])
		}
		if len(x) != len(y) {
			v.find(0, path, fmt.Sprintf("%d items", len(x)), fmt.Sprintf("%d items", len(y)))
		}
		return
	}
	v.find(0, path, stored, expected)
}

// maxShown limits the bytes of a value in a finding.
const maxShown = 200

// display returns a value as a short text.
func display(v any) string {
	var s string
	switch v := v.(type) {
	case string:
		s = v
	case run.Key:
		s = string(v)
	case error:
		s = v.Error()
	case time.Time:
		s = v.UTC().Format(time.RFC3339Nano)
	case nil:
		s = "nothing"
	default:
		doc, err := json.Marshal(v)
		if err != nil {
			return err.Error()
		}
		s = string(doc)
	}
	if len(s) > maxShown {
		s = s[:maxShown] + "…"
	}
	return s
}
