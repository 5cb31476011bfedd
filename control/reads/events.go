package reads

import (
	"context"
	"slices"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// EventPage asks for the First or the Last of the events between After and Before, both exclusive; 0 sets no bound.
// Types selects event types; empty means all.
type EventPage struct {
	First, Last   int
	After, Before run.Seq
	Types         []string
}

// EventsPage is a page of the log in ascending order.
type EventsPage struct {
	Events           []run.Event
	HasNext, HasPrev bool
}

// LogStore reads the logs of runs.
type LogStore interface {
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
	EventsBefore(ctx context.Context, runID string, before run.Seq, limit int) ([]run.Event, error)
}

// EventReader reads the logs of runs. It is safe for concurrent use.
type EventReader struct {
	rights *control.Rights
	store  LogStore
}

// NewEventReader makes an EventReader.
func NewEventReader(rights *control.Rights, store LogStore) *EventReader {
	return &EventReader{rights: rights, store: store}
}

// maxScan bounds the events that one filtered page reads. It is more than a run of the largest plan writes.
const maxScan = 100 * store.MaxPage

// Events reads a page of the log in ascending order: the first events after After and before Before, or with Last the
// last ones. Errors: NOT_FOUND, BAD_USER_INPUT.
func (s *EventReader) Events(ctx context.Context, p authz.Principal, runID string, page EventPage) (EventsPage, error) {
	n, backward, err := control.PageEnd(page.First, page.Last, 100)
	if err != nil {
		return EventsPage{}, err
	}
	if _, err := s.rights.GetVisible(ctx, p, authz.Read, runID); err != nil {
		return EventsPage{}, err
	}
	after, before := page.After, page.Before
	if before == 0 {
		before = run.MaxSeq
	}
	cursor, read := after, s.store.Events
	if backward {
		cursor, read = before, s.store.EventsBefore
	}
	var out []run.Event
	more := false
	for scanned, done := 0, false; !done; {
		size := n + 1 - len(out)
		if len(page.Types) > 0 {
			size = store.MaxPage
		}
		evs, err := read(ctx, runID, cursor, size)
		if err != nil {
			return EventsPage{}, control.Translate(err)
		}
		scanned += len(evs)
		done = len(evs) < size || scanned >= maxScan
		for _, e := range evs {
			cursor = e.Seq
			if e.Seq <= after || e.Seq >= before {
				done = true
				break
			}
			if len(page.Types) > 0 && !slices.Contains(page.Types, string(e.Type)) {
				continue
			}
			if len(out) == n {
				more, done = true, true
				break
			}
			out = append(out, e)
		}
	}
	if backward {
		slices.Reverse(out)
		return EventsPage{Events: out, HasPrev: more, HasNext: page.Before > 0}, nil
	}
	return EventsPage{Events: out, HasNext: more, HasPrev: page.After > 0}, nil
}
