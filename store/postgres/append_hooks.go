package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// needsLock reports whether Go must decide about an entry under the lock of the run's head, because dvt_append alone
// cannot. These are starts that take a token, appends that a closed gate stops, and ends of hooks.
func needsLock(e store.Entry) bool {
	if e.Start != nil {
		return e.Start.Heavy != nil
	}
	return e.Append.UnlessGate != 0 || endsHook(*e.Append)
}

func endsHook(a store.Append) bool {
	for _, d := range a.Events {
		if d.Type.EndsHook() {
			return true
		}
	}
	return false
}

// appendFirstEnds is write for an append that ends hooks. The two ends of a hook exclude each other, but dvt_append
// cannot see that, because their keys differ. So appendFirstEnds removes an end whose hook already has the other end,
// and refuses it like package authority does.
func (t *tx) appendFirstEnds(ctx context.Context, a store.Append) (store.Appended, error) {
	batch, err := authority.Prepare(t.id, a)
	if err != nil {
		return store.Appended{}, err
	}
	stored, err := t.eventsOf(ctx, batch.Keys())
	if err != nil {
		return store.Appended{}, err
	}
	rest := a
	rest.Events, rest.Outcomes = nil, nil
	index := make([]int, len(a.Events)) // index in rest, or -1
	winner := make([]*run.Event, len(a.Events))
	wonBy := make([]int, len(a.Events)) // index of the winning draft in this append, if winner is nil
	passed := map[run.Key]int{}
	over := t.head.Terminal
	for i, d := range a.Events {
		key := batch.Keys()[i]
		rival, ends := batch.Rival(i)
		_, repeated := passed[key]
		if _, isStored := stored[key]; ends && !isStored && !repeated {
			j, inAppend := passed[rival]
			if e, rivalStored := stored[rival]; rivalStored {
				winner[i], index[i] = &e, -1
				continue
			} else if inAppend && !over {
				wonBy[i], index[i] = j, -1
				continue
			}
		}
		if !repeated {
			passed[key] = i
		}
		index[i] = len(rest.Events)
		rest.Events = append(rest.Events, d)
		over = over || d.Type.EndsRun()
	}
	if len(rest.Events) == 0 { // nothing is inserted, so the gate stays
		rest.SetGate, rest.ClearGate = 0, 0
	}
	rest.Outcomes = remapOutcomes(a.Outcomes, index)
	out, err := t.write(ctx, rest)
	if err != nil {
		return store.Appended{}, err
	}
	all := make([]store.EventOutcome, len(a.Events))
	for i := range all {
		switch {
		case index[i] >= 0:
			all[i] = out.Outcomes[index[i]]
		case winner[i] != nil:
			all[i] = store.EventOutcome{Refused: run.CodeInvalidTransition, Existing: winner[i]}
		default:
			won := batch.Event(wonBy[i], all[wonBy[i]].Seq, all[wonBy[i]].PersistedAt)
			all[i] = store.EventOutcome{Refused: run.CodeInvalidTransition, Existing: &won}
		}
	}
	out.Outcomes = all
	return out, nil
}

// remapOutcomes maps the outcomes of signals to the new indexes of their events. A removed event did not apply its
// signal.
func remapOutcomes(outcomes []store.SignalOutcome, index []int) []store.SignalOutcome {
	moved := make([]store.SignalOutcome, 0, len(outcomes))
	for _, o := range outcomes {
		if i := o.AppliedBy; i >= 0 && i < len(index) {
			if o.AppliedBy = index[i]; index[i] < 0 {
				o.Application, o.Reason = run.SignalNotApply, string(run.CodeInvalidTransition)
			}
		}
		moved = append(moved, o)
	}
	return moved
}

// eventsOf reads the events of the run with these keys.
func (t *tx) eventsOf(ctx context.Context, keys []run.Key) (map[run.Key]run.Event, error) {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = string(key)
	}
	var evs []run.Event
	t.batch.Queue(`SELECT `+eventColumns+` FROM event e WHERE e.run_id = $1 AND e.key = ANY($2)`, t.id.RunID, names).
		Query(func(rows pgx.Rows) (err error) {
			evs, err = scanEvents(rows, t.id)
			return err
		})
	if err := t.flush(ctx); err != nil {
		return nil, err
	}
	byKey := make(map[run.Key]run.Event, len(evs))
	for _, e := range evs {
		byKey[e.Key] = e
	}
	return byKey, nil
}
