package retention

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/store"
)

// defaultWait is how long destinations hold runs back when the installation says nothing. Changes of alerts are kept
// for destinations for the same time.
const defaultWait = 7 * 24 * time.Hour

// backlog is what a destination that gets the events of a tenant has not taken yet.
type backlog struct {
	name  string
	from  time.Time // messages from this time on
	holds bool      // it holds runs back
}

// backlogs returns those of the destinations that get events of the tenant and have messages that wait. A destination
// that has failed for longer than the bound, that no process works for, or that is disabled holds nothing back: it gets
// the events from the archive, until the archive is deleted.
func (p *passOf) backlogs(ctx context.Context) ([]backlog, error) {
	states, err := p.w.cfg.Store.DestinationStates(ctx)
	if err != nil {
		return nil, err
	}
	var out []backlog
	for _, d := range states {
		if d.RemovedAt != nil || !takesEvents(d, p.tenant) {
			continue
		}
		from := d.OldestWaiting
		if d.DisabledFor != "" {
			from = d.BeginsAt
		}
		if from == nil {
			continue
		}
		limit := p.now.Add(-p.w.cfg.Installed.DestinationsWait)
		isOlder := func(at *time.Time) bool { return at != nil && at.Before(limit) }
		out = append(out, backlog{name: d.Name, from: *from,
			holds: d.DisabledFor == "" && !isOlder(d.FailingSince) && !isOlder(d.ReportedAt)})
	}
	return out, nil
}

// takesEvents reports whether a destination gets events of a tenant. One whose entry is not known does.
func takesEvents(d store.DestinationState, tenant string) bool {
	var e destination.Entry
	if json.Unmarshal(d.Entry, &e) != nil || e.Kind == "" {
		return true
	}
	return e.TakesEvents(tenant)
}

// untilTaken returns the time before which runs may be archived: until, or earlier when a destination has not taken
// their events. No run waits for destinations longer than the bound after until.
func (p *passOf) untilTaken(ctx context.Context, until time.Time) (time.Time, error) {
	behind, err := p.backlogs(ctx)
	if err != nil {
		return time.Time{}, err
	}
	latest := until.Add(-p.w.cfg.Installed.DestinationsWait)
	for _, b := range behind {
		if b.holds && b.from.Before(until) {
			until = b.from
		}
	}
	if until.Before(latest) {
		until = latest
	}
	return until, nil
}

// countMissed counts a deleted run for the destinations that had not taken all its messages.
func (p *passOf) countMissed(ctx context.Context, behind []backlog, endedAt time.Time) error {
	var names []string
	for _, b := range behind {
		if !endedAt.Before(b.from) {
			names = append(names, b.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return p.w.cfg.Store.CountMissedRun(ctx, names...)
}
