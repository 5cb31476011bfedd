package control

import (
	"context"
	"slices"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// maxPageSize of every list that the API gives (api.md §2).
const maxPageSize = 200

// pageOf shows the first n of rows; true: there are more.
func pageOf[R, V any](rows []R, n int, show func(R) (V, error)) ([]V, bool, error) {
	var out []V
	for _, row := range rows[:min(n, len(rows))] {
		v, err := show(row)
		if err != nil {
			return nil, false, err
		}
		out = append(out, v)
	}
	return out, len(rows) > n, nil
}

// pageSize checks first and last and returns how many are asked for, the
// default when neither is.
func pageSize(first, last, def int) (n int, backward bool, err error) {
	var vs []plan.Violation
	for _, c := range []struct {
		path string
		n    int
	}{{"first", first}, {"last", last}} {
		if c.n < 0 || c.n > maxPageSize {
			vs = append(vs, plan.Violation{Path: c.path, Code: "RANGE", Message: "must be from 1 to 200"})
		}
	}
	if first > 0 && last > 0 {
		vs = append(vs, plan.Violation{Path: "last", Code: "INVALID", Message: "give first or last, not both"})
	}
	switch {
	case len(vs) > 0:
		return 0, false, badInput(vs)
	case last > 0:
		return last, true, nil
	case first > 0:
		return first, false, nil
	}
	return def, false, nil
}

// maxScan bounds the events that one filtered page looks at; it is more than a
// run of the largest plan writes.
const maxScan = 100 * store.MaxPage

// Events reads a page of the log: the first events after After and before Before,
// or with Last the last ones there.
func (s *Service) Events(ctx context.Context, p authz.Principal, runID string, page EventPage) (EventsPage, error) {
	n, backward, err := pageSize(page.First, page.Last, 100)
	if err != nil {
		return EventsPage{}, err
	}
	if _, err := s.visible(ctx, p, authz.Read, runID); err != nil {
		return EventsPage{}, err
	}
	after, before := page.After, page.Before
	if before == 0 {
		before = run.MaxSeq
	}
	cursor, read := after, s.cfg.Store.Events
	if backward {
		cursor, read = before, s.cfg.Store.EventsBefore
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
			return EventsPage{}, translate(err)
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
