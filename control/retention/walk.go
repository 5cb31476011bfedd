package retention

import (
	"context"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/internal/dutycycle"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Mark is a position in a list of ended runs, so that a pass reads no run again that it is done with. Skipped are
// earlier runs that were kept and are looked at again. Runs that a hold kept are not among them, because a lifted hold
// resets the mark; Held counts them.
type Mark struct {
	At      time.Time `json:"at"`
	RunID   string    `json:"runId"`
	Skipped []string  `json:"skipped,omitempty"`
	Held    int64     `json:"held,omitempty"`
}

// maxSkipped bounds Mark.Skipped; with more, the mark stays where it is.
const maxSkipped = 1000

// rewindEvery is how often a pass reads all whole runs again.
const rewindEvery = 7 * 24 * time.Hour

// Names of marks.
func archiveMark(status run.Status) string    { return "runs/" + string(status) }
func partMark(part store.ArchivedPart) string { return "part/" + string(part) }

func archiveMarks() (names []string) {
	for _, status := range ended {
		names = append(names, archiveMark(status))
	}
	return names
}

func partMarks() []string {
	return []string{partMark(store.PartEvents), partMark(store.PartReceipts), partMark(store.PartRun)}
}

// candidate is a run that a step of a pass may work on.
type candidate struct {
	runID    string
	at       time.Time // its place in the list
	due      time.Time // when the policy made the work due
	obstacle store.ArchiveObstacle
	isDone   bool               // there is nothing to do
	archived *store.ArchivedRun // nil when it is not known
}

// walk does work on the runs of a list that the mark has not passed, and on those that it skipped. list calls its
// function with each run after a mark, in order. A run that a hold keeps costs nothing more than its row in the list,
// once: the mark passes it.
func (p *passOf) walk(ctx context.Context, name string, list func(Mark, func(candidate) error) error,
	do func(context.Context, candidate) error) error {
	m := p.out.Marks[name]
	again, kept, held := m.Skipped, []string{}, m.Held
	work := func(c candidate) error {
		var err error
		switch c.obstacle {
		case store.ObstacleHeld:
			held++
			return nil
		case "":
		default:
			p.out.Waiting++
			kept = append(kept, c.runID)
			return nil
		}
		fatal := p.eachDue(ctx, c.runID, c.due, func() error {
			err = do(ctx, c)
			return err
		})
		switch {
		case err == nil:
		case store.ObstacleOf(err) == store.ObstacleHeld:
			held++
		case store.ObstacleOf(err) != store.ObstacleUnknown: // else the run was deleted
			kept = append(kept, c.runID)
		}
		return fatal
	}
	save := func() {
		if len(kept) <= maxSkipped {
			m.Skipped, m.Held = slices.Clone(kept), held
			p.out.Marks[name] = m
		}
		p.held[name] = held
	}
	for _, runID := range again {
		if err := work(candidate{runID: runID, due: p.now}); err != nil {
			return err
		}
	}
	err := list(m, func(c candidate) error {
		if c.isDone {
			p.pullBack(c.at)
		} else if err := work(c); err != nil {
			return err
		}
		if len(kept) <= maxSkipped {
			m.At, m.RunID = c.at, c.runID
			save()
		}
		return nil
	})
	if err == nil {
		save()
	}
	return err
}

// pullBack resets the marks of parts that have passed the place of a run, which was archived later than its neighbours.
func (p *passOf) pullBack(at time.Time) {
	for _, name := range partMarks() {
		if m, ok := p.out.Marks[name]; ok && !at.After(m.At) {
			delete(p.out.Marks, name)
		}
	}
}

// heldRuns is the number of runs that holds keep from being archived or deleted. Step logs and artifacts end earlier
// than their runs and are not counted.
func (p *passOf) heldRuns() (n int64) {
	for _, name := range append(archiveMarks(), partMark(store.PartRun)) {
		n += p.held[name]
	}
	return n
}

// noteLate notes that something is late that was due at a time.
func (p *passOf) noteLate(due time.Time) {
	if p.out.OverdueSince == nil || due.Before(*p.out.OverdueSince) {
		p.out.OverdueSince = &due
	}
}

// eachDue is each for work that the policy made due at a time.
func (p *passOf) eachDue(ctx context.Context, runID string, due time.Time, f func() error) error {
	failed := p.out.Failed
	err := p.each(ctx, runID, f)
	if p.out.Failed > failed {
		p.noteLate(due)
	}
	return err
}

// each does the work on one run: it waits for its turn, and counts obstacles and failures.
func (p *passOf) each(ctx context.Context, runID string, f func() error) error {
	if err := p.w.turn(ctx); err != nil {
		return err
	}
	err := f()
	if restErr := dutycycle.Rest(ctx); restErr != nil {
		return restErr
	}
	switch obstacle := store.ObstacleOf(err); {
	case err == nil:
	case isFinal(ctx, err):
		return err
	case obstacle == store.ObstacleHeld: // the marks count it
	case obstacle != "":
		p.out.Waiting++
	default:
		p.fail(ctx, runID, err)
	}
	return nil
}

// endedRuns calls f with the runs that ended before a time, after a mark of their status.
func (p *passOf) endedRuns(ctx context.Context, status run.Status, until time.Time, from Mark,
	f func(store.EndedRun) error) error {
	filter := store.EndedFilter{TenantID: p.tenant, Status: status, Before: until, AfterAt: from.At, AfterRun: from.RunID,
		Limit: pageRuns}
	for {
		page, err := p.w.cfg.Store.EndedRuns(ctx, filter)
		if err != nil {
			return err
		}
		if err := dutycycle.Rest(ctx); err != nil {
			return err
		}
		for _, r := range page {
			if err := f(r); err != nil {
				return err
			}
			filter.AfterAt, filter.AfterRun = r.EndedAt, r.RunID
		}
		if len(page) < pageRuns {
			return nil
		}
	}
}
