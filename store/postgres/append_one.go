package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const appendOneSQL = `SELECT last_seq, last_at, gate, running, ops_rev, signal_no FROM dvt_append_one($1::text, $2::bigint, $3::int, $4::int,
  $5::text, $6::text, $7::text, $8::int, $9::int, $10::text, $11::text, $12::timestamptz, $13::text, $14::text)`

// plain reports whether the call is one event without anything beside it, what the
// event adds to the running attempts if its subject is as expected, and the members of
// the gate under which more than the event would be decided.
func (c *call) plain() (running int, closed run.Gate, ok bool) {
	if len(c.results) != 1 || len(c.events.seq) != 1 || len(c.moves.entry) > 0 || c.set[0]|c.clear[0] != 0 {
		return 0, 0, false
	}
	switch t := run.EventType(c.events.kind[0]); {
	case t == run.StepStartedEvent:
		running = 1
	case t == run.StepCompletedEvent, t == run.StepFailedEvent:
		running = -1
	case t == run.RunPaused, t == run.StepAwaitingManualCompletion, t.EndsAttempt(), t.EndsRun():
		return 0, 0, false
	}
	closed = run.GatePaused // quiescence
	if c.deadline[0] != nil {
		closed |= run.GateFailing // the retry window
	}
	if c.park[0] != nil {
		closed |= run.Gate(*c.park[0])
	}
	return running, closed, true
}

// appendOne writes a plain call, or reports that it turned out not to be plain.
func (s *Store) appendOne(ctx context.Context, c *call, running int, closed run.Gate) (done bool, err error) {
	e, p := &c.events, c.prepared[0]
	var seq *int64
	head := store.Head{RunID: c.id.RunID}
	err = s.do(ctx, "append", func(ctx context.Context, conn *pgx.Conn) error {
		var gate, now *int
		var opsRev, signalNo *int64
		err := conn.QueryRow(ctx, appendOneSQL, c.id.RunID, c.minHead[0], int(closed), running,
			e.kind[0], e.step[0], e.signal[0], e.la[0], e.ea[0], e.key[0], e.id[0], e.emitted[0], e.by[0], e.payload[0]).
			Scan(&seq, utc{&head.LastAt}, &gate, &now, &opsRev, &signalNo)
		if err == nil && seq != nil {
			head.Gate, head.Running, head.OpsRev, head.SignalNo = run.Gate(*gate), *now, *opsRev, *signalNo
		}
		return err
	})
	if errors.Is(err, run.ErrSchema) {
		c.results[0].Err = err
		return true, nil
	}
	if err != nil || seq == nil {
		return false, err
	}
	head.LastSeq = run.Seq(*seq)
	event := answered{verdict: verdictInserted, event: run.Event{Identity: c.id, Seq: head.LastSeq, PersistedAt: head.LastAt}}
	if p.begin {
		c.results[0].Begun = begun(event, head)
	} else {
		c.results[0].Appended = c.appended(p, []answered{event}, head, false)
	}
	return true, nil
}
