package history

import (
	"github.com/dvt-engine/dvt/run"
)

// gates is the gate of a run at every seq, as far as the history tells it: each
// change took effect with the events of the append that carried it.
type gates struct {
	at    []run.Gate // by seq
	until run.Seq    // from here on nobody can say
}

func (g gates) known(seq run.Seq) bool { return int(seq) < len(g.at) && seq < g.until }

type turn struct{ shut, open run.Gate }

// findGates replays the changes. An append of no event may change the gate at a
// place that no seq names: such a run is not judged.
func (b *book) findGates() gates {
	g := gates{at: make([]run.Gate, len(b.events)+1), until: b.last() + 1}
	for _, w := range b.writes {
		if w.append != nil && len(w.drafts) == 0 && w.append.SetGate|w.append.ClearGate != 0 {
			g.until = 0
		}
	}
	for i, e := range b.events {
		seq := run.Seq(i + 1)
		g.at[seq] = g.at[seq-1]
		for n, w := range b.origins(seq, ofEvent(e)) {
			t := w.turns()
			if n > 0 && t != b.origins(seq, ofEvent(e))[0].turns() {
				g.until = min(g.until, seq)
			}
			g.at[seq] = g.at[seq]&^t.open | t.shut
		}
	}
	return g
}

func (w *write) turns() turn {
	if w.append == nil {
		return turn{}
	}
	return turn{w.append.SetGate, w.append.ClearGate}
}

// shut reports whether a StartAttempt is to be parked at this gate (T185, T217).
func shut(g run.Gate, passFailing bool) bool {
	if passFailing {
		g &^= run.GateFailing
	}
	return g != 0
}
