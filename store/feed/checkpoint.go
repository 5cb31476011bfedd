package feed

import (
	"encoding/base64"
	"encoding/json"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/dvt-engine/dvt/run"
)

// Checkpoint is a place to go on from, in another process too: an opaque string,
// at most a few dozen bytes for each of MaxRuns runs. It stands after all that Next
// has returned: keep it when that has been dealt with, and what was returned
// since comes again.
func (r *Reader) Checkpoint() string {
	// strings and numbers
	doc, _ := json.Marshal(checkpoint{r.epoch, r.cursor, r.reset, r.read.list(r.read.live), r.read.list(r.read.ended)})
	return base64.RawURLEncoding.EncodeToString(doc)
}

// checkpoint is the stored form. The page in hand is read again; the positions
// tell what of it was returned.
type checkpoint struct {
	Epoch  string     `json:"e"`
	Cursor string     `json:"c"`
	Reset  bool       `json:"r,omitempty"`
	Live   []position `json:"l"`
	Ended  []position `json:"x"`
}

type position struct {
	RunID string  `json:"i"`
	Seq   run.Seq `json:"n"`
}

func (r *Reader) restore(s string) error {
	doc, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return err
	}
	var c checkpoint
	if err := json.Unmarshal(doc, &c); err != nil {
		return err
	}
	r.epoch, r.cursor, r.reset = c.Epoch, c.Cursor, c.Reset
	for _, p := range c.Ended {
		r.read.set(p.RunID, p.Seq, true)
	}
	for _, p := range c.Live {
		r.read.set(p.RunID, p.Seq, false)
	}
	return nil
}

// positions are how far the logs of some runs were read.
type positions struct {
	most        int
	live, ended *simplelru.LRU[string, run.Seq]
}

func newPositions(most int) positions {
	list := func() *simplelru.LRU[string, run.Seq] {
		l, err := simplelru.NewLRU[string, run.Seq](most, nil)
		if err != nil {
			panic(err) // most is positive
		}
		return l
	}
	return positions{most: most, live: list(), ended: list()}
}

// of is the last seq that was read of a run, 0 when that is not known.
func (p positions) of(runID string) run.Seq {
	seq, ok := p.live.Get(runID)
	if !ok {
		seq, _ = p.ended.Get(runID)
	}
	return seq
}

func (p positions) set(runID string, seq run.Seq, ended bool) {
	to, from := p.live, p.ended
	if ended {
		to, from = from, to
	}
	from.Remove(runID)
	to.Add(runID, seq)
	if p.live.Len()+p.ended.Len() > p.most {
		if _, _, ok := p.ended.RemoveOldest(); !ok {
			p.live.RemoveOldest()
		}
	}
}

// list gives a list's positions, the oldest first.
func (p positions) list(l *simplelru.LRU[string, run.Seq]) []position {
	out := make([]position, 0, l.Len())
	for _, id := range l.Keys() {
		seq, _ := l.Peek(id)
		out = append(out, position{id, seq})
	}
	return out
}
