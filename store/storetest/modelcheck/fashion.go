package modelcheck

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
)

// hot is how many runs everybody works on at once.
const hot = 3

// fashion picks runs so that the actors of all processes meet: a few hot ones,
// each replaced by its next edition when it is over, and fresh ones.
type fashion struct {
	dice    *rand.Rand
	written *atomic.Int64
	edition [hot]int
}

func (f *fashion) pick() string {
	if f.dice.IntN(4) == 0 {
		return fmt.Sprintf("fresh-%d", int(f.written.Load()/40)+f.dice.IntN(4))
	}
	slot := f.dice.IntN(hot)
	return fmt.Sprintf("hot-%d-%d", slot, f.edition[slot])
}

// over says that a run has ended: a hot one goes out of fashion.
func (f *fashion) over(runID string) {
	name, isHot := strings.CutPrefix(runID, "hot-")
	if !isHot {
		return
	}
	s, _, _ := strings.Cut(name, "-")
	if slot, err := strconv.Atoi(s); err == nil && fmt.Sprintf("hot-%d-%d", slot, f.edition[slot]) == runID {
		f.edition[slot]++
	}
}
