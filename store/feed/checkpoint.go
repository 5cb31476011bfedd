package feed

import (
	"encoding/base64"
	"encoding/json"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/dvt-engine/dvt/run"
)

// Checkpoint returns the position after the last Batch of Next, from which NewReader can continue, in another process
// too. It is opaque and has at most a few dozen bytes for each of MaxRuns runs. Store it only after the batches before
// it were handled: a batch that was returned later comes again.
func (r *Reader) Checkpoint() string {
	// The error is always nil, because strings and numbers can be encoded.
	doc, _ := json.Marshal(checkpoint{r.epoch, r.cursor, r.reset, r.read.list(r.read.live), r.read.list(r.read.ended)})
	return base64.RawURLEncoding.EncodeToString(doc)
}

// checkpoint is the stored form. A new Reader reads the current page again; the positions say which of its events were
// returned already.
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

// restore sets the position of a checkpoint.
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

// positions are the last seqs that were read of up to max runs.
type positions struct {
	max         int
	live, ended *simplelru.LRU[string, run.Seq]
}

func newPositions(limit int) positions {
	list := func() *simplelru.LRU[string, run.Seq] {
		l, err := simplelru.NewLRU[string, run.Seq](limit, nil)
		if err != nil {
			panic(err) // only a limit below 1 is an error
		}
		return l
	}
	return positions{max: limit, live: list(), ended: list()}
}

// seqOf returns the last seq that was read of a run, 0 when it is unknown.
func (p positions) seqOf(runID string) run.Seq {
	seq, ok := p.live.Get(runID)
	if !ok {
		seq, _ = p.ended.Get(runID)
	}
	return seq
}

// set remembers the last seq that was read of a run, and forgets another run when there are too many.
func (p positions) set(runID string, seq run.Seq, ended bool) {
	to, from := p.live, p.ended
	if ended {
		to, from = from, to
	}
	from.Remove(runID)
	to.Add(runID, seq)
	if p.live.Len()+p.ended.Len() > p.max {
		if _, _, ok := p.ended.RemoveOldest(); !ok {
			p.live.RemoveOldest()
		}
	}
}

// list returns the positions of l, the least recently used first.
func (p positions) list(l *simplelru.LRU[string, run.Seq]) []position {
	out := make([]position, 0, l.Len())
	for _, id := range l.Keys() {
		seq, _ := l.Peek(id)
		out = append(out, position{id, seq})
	}
	return out
}
