package graph

import (
	"reflect"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/graph/internal/selection"
	"github.com/dvt-engine/dvt/run"
)

// stepCache renders the steps of one stream, frame by frame. It copies the bytes of unchanged steps from the previous
// frame, because most frames change few of many steps. In a stream only the wait of a step depends on anything else
// than the step. It is for one goroutine.
type stepCache struct {
	steps []*run.Step
	ends  []int // ends[i] is the end of steps[i] in data, which includes the separator before it
	spare []int
	data  []byte // a copy of the previous frame's list from its opening bracket, without the closing one
}

// cacheSteps is the hook of Run.steps in streams. Each selection of the field has a cache of its own.
func cacheSteps(element selection.Append) selection.Append {
	return (&stepCache{}).hook(element)
}

func (k *stepCache) hook(element selection.Append) selection.Append {
	return func(b []byte, v reflect.Value) (_ []byte, err error) {
		g := graphIn(v)
		if g == nil {
			return append(b, "[]"...), nil
		}
		var step model.Step
		at := reflect.ValueOf(&step).Elem()
		steps, ends, start := g.View.State.Steps, k.spare[:0], len(b)
		for i := 0; i < len(steps); {
			if n := k.countUnchanged(g, i); n > 0 {
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

// countUnchanged returns the number of consecutive steps from index i whose bytes are those of the previous frame.
func (k *stepCache) countUnchanged(g *mapping.Graph, i int) int {
	from := i
	for ; i < min(len(g.View.State.Steps), len(k.steps)); i++ {
		if s := g.View.State.Steps[i]; s != k.steps[i] || g.CostlyParts.Wait && mapping.MayWait(s) {
			break
		}
	}
	return i - from
}
