package graph

import (
	"reflect"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/graph/internal/selection"
	"github.com/dvt-engine/dvt/run"
)

// keptSteps renders the steps of the runs of one stream, one frame after the
// other: of a step that is the same as in the frame before the bytes are taken from
// there. A step of a stream has nothing that depends on anything else but its wait.
type keptSteps struct {
	steps []*run.Step
	ends  []int // of what was written for each, separator included
	spare []int
	data  []byte // of the frame before, from the first bracket; a copy
}

// keepSteps is the hook of one place of a selection.
func keepSteps(element selection.Append) selection.Append {
	return (&keptSteps{}).hook(element)
}

func (k *keptSteps) hook(element selection.Append) selection.Append {
	return func(b []byte, v reflect.Value) (_ []byte, err error) {
		g := graphIn(v)
		if g == nil {
			return append(b, "[]"...), nil
		}
		var step model.Step
		at := reflect.ValueOf(&step).Elem()
		steps, ends, start := g.View.State.Steps, k.spare[:0], len(b)
		for i := 0; i < len(steps); {
			if n := k.same(g, i); n > 0 {
				var began int
				if i > 0 {
					began = k.ends[i-1]
				}
				moved := len(b) - start - began
				b = append(b, k.data[began:k.ends[i+n-1]]...)
				for _, end := range k.ends[i : i+n] {
					ends = append(ends, end+moved)
				}
				i += n
				continue
			}
			separator := byte(',')
			if i == 0 {
				separator = '['
			}
			g.WriteStep(&step, steps[i])
			if b, err = element(append(b, separator), at); err != nil {
				return b, err
			}
			ends = append(ends, len(b)-start)
			i++
		}
		k.steps, k.ends, k.spare, k.data = steps, ends, k.ends, append(k.data[:0], b[start:]...)
		if len(steps) == 0 {
			b = append(b, '[')
		}
		return append(b, ']'), nil
	}
}

// same counts the steps from place i on whose bytes are those of the frame before.
func (k *keptSteps) same(g *mapping.Graph, i int) int {
	from := i
	for ; i < min(len(g.View.State.Steps), len(k.steps)); i++ {
		if s := g.View.State.Steps[i]; s != k.steps[i] || g.Wants.Wait && mapping.Waits(s) {
			break
		}
	}
	return i - from
}
