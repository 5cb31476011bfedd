package modelcheck

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store/storetest/history"
)

// reader reads the runs that runPicker picks in every way that the store offers.
type reader struct {
	*history.Client
	*rand.Rand
	runPicker
	read map[string]run.Seq // by run: the highest seq that it has read
}

func (b *body) reader(n int) *reader {
	dice := b.dice(2, uint64(n))
	return &reader{b.actor("reader", n), dice, runPicker{dice: dice, written: &b.written}, map[string]run.Seq{}}
}

func (r *reader) work(ctx context.Context) {
	for pause(ctx, time.Duration(r.IntN(4))*time.Millisecond) {
		id := r.pick()
		switch r.IntN(6) {
		case 0, 1:
			r.follow(ctx, id, 1+r.IntN(40))
		case 2:
			_ = r.EventsBefore(ctx, id, r.read[id]+run.Seq(r.IntN(20)), 1+r.IntN(40))
		case 3:
			if l, err := r.Load(ctx, id); err == nil && l.Head.Terminal && r.IntN(20) == 0 {
				r.markEnded(id)
			}
		case 4:
			if to, err := r.Since(ctx, id, max(0, r.read[id]-run.Seq(r.IntN(30)))); err == nil && r.IntN(10) == 0 {
				r.read[id] = max(r.read[id], to)
			}
		case 5:
			_ = r.Heads(ctx, []string{id, r.pick(), r.pick()})
		}
	}
}

// follow continues to read where it stopped, and sometimes from an earlier seq.
func (r *reader) follow(ctx context.Context, id string, limit int) {
	after := r.read[id]
	if after > 0 && r.IntN(5) == 0 {
		after = run.Seq(r.Int64N(int64(after)))
	}
	evs, err := r.Events(ctx, id, after, limit)
	if err == nil && len(evs) > 0 {
		r.read[id] = max(r.read[id], evs[len(evs)-1].Seq)
	}
}
