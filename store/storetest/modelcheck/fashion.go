package modelcheck

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
)

// hot is the number of runs on which all actors work at once.
const hot = 3

// runPicker picks runs so that the actors of all processes meet: a few hot runs, which it replaces when they have
// ended, and new runs.
type runPicker struct {
	dice    *rand.Rand
	written *atomic.Int64
	edition [hot]int
}

func (f *runPicker) pick() string {
	if f.dice.IntN(4) == 0 {
		return fmt.Sprintf("fresh-%d", int(f.written.Load()/40)+f.dice.IntN(4))
	}
	slot := f.dice.IntN(hot)
	return fmt.Sprintf("hot-%d-%d", slot, f.edition[slot])
}

// markEnded records that a run has ended. A hot run is replaced by its next edition.
func (f *runPicker) markEnded(runID string) {
	name, isHot := strings.CutPrefix(runID, "hot-")
	if !isHot {
		return
	}
	s, _, _ := strings.Cut(name, "-")
	if slot, err := strconv.Atoi(s); err == nil && fmt.Sprintf("hot-%d-%d", slot, f.edition[slot]) == runID {
		f.edition[slot]++
	}
}
