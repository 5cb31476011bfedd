package history

import (
	"github.com/dvt-engine/dvt/run"
)

// gates has the gate of a run at every seq, as far as the history determines it. A change takes effect with the events
// of its append.
type gates struct {
	at    []run.Gate // by seq
	until run.Seq    // from this seq the gate is unknown
}

func (g gates) known(seq run.Seq) bool { return int(seq) < len(g.at) && seq < g.until }

type gateChange struct{ set, clear run.Gate }

// findGates replays the changes of the gate. An append without events has no seq at which its change takes effect, so
// the gate of such a run is unknown.
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
			t := w.gateChange()
			if n > 0 && t != b.origins(seq, ofEvent(e))[0].gateChange() {
				g.until = min(g.until, seq)
			}
			g.at[seq] = g.at[seq]&^t.clear | t.set
		}
	}
	return g
}

func (w *write) gateChange() gateChange {
	if w.append == nil {
		return gateChange{}
	}
	return gateChange{w.append.SetGate, w.append.ClearGate}
}

// mustPark reports whether the store must park a StartAttempt at this gate (contract T185, T217).
func mustPark(g run.Gate, passFailing bool) bool {
	if passFailing {
		g &^= run.GateFailing
	}
	return g != 0
}
