package notifier

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/feed"
)

// ReplayStore is the part of a store that replays read.
type ReplayStore interface {
	feed.Store
	AlertChanges(ctx context.Context, after int64, limit int) ([]store.AlertChange, error)
}

// NewReplayCounter returns a function that counts what a replay would send to the destination of an entry, up to
// destination.MaxReplayCount. After an error, such as that of a ctx that ended, it returns what it has counted.
func NewReplayCounter(s ReplayStore) func(context.Context, destination.Entry,
	destination.Replay) (destination.ReplayCount, error) {
	return func(ctx context.Context, e destination.Entry, r destination.Replay) (out destination.ReplayCount, err error) {
		reader, err := newReplayReader(s, e, r, replayPosition{}, func(string) string { return "" })
		for done := false; !done && err == nil; {
			var found []destination.Message
			found, done, err = reader.next(ctx)
			for _, m := range found {
				if out.Messages >= destination.MaxReplayCount {
					out.More = true
					return out, nil
				}
				out.Messages++
				if out.First.IsZero() || m.At.Before(out.First) {
					out.First = m.At
				}
				if m.At.After(out.Last) {
					out.Last = m.At
				}
			}
		}
		return out, err
	}
}

// replayPosition is how far a replay has read. Events come before changes of alerts.
type replayPosition struct {
	Checkpoint string `json:"checkpoint,omitempty"` // of the feed
	EventsDone bool   `json:"eventsDone,omitempty"`
	Change     int64  `json:"change,omitempty"` // the last change of alerts
}

// replayReader reads the messages of a range of time that an entry and a replay select.
type replayReader struct {
	store  ReplayStore
	entry  destination.Entry
	replay destination.Replay // with an Until
	link   func(runID string) string
	feed   *feed.Reader
	at     replayPosition
}

func newReplayReader(s ReplayStore, e destination.Entry, r destination.Replay, at replayPosition,
	link func(string) string) (*replayReader, error) {
	f, err := feed.NewReader(&rangeStore{s, r, map[string]bool{}}, store.RunFilter{EveryTenant: true}, at.Checkpoint)
	out := &replayReader{store: s, entry: e, replay: r, link: link, feed: f, at: at}
	out.at.EventsDone = at.EventsDone || !out.readsEvents()
	return out, err
}

// next reads the next messages, which may be none, and moves the position behind them. done says that there are no
// more.
func (r *replayReader) next(ctx context.Context) (out []destination.Message, done bool, err error) {
	add := func(m destination.Message) {
		if r.entry.Selects(m) && r.replay.Selects(m) {
			m.Replayed = true
			out = append(out, m)
		}
	}
	if !r.at.EventsDone {
		b, err := r.feed.Next(ctx)
		if err != nil {
			return nil, false, err
		}
		for _, e := range b.Events {
			m, err := eventMessage(e)
			if err != nil {
				return nil, false, err
			}
			add(m)
		}
		r.at.Checkpoint, r.at.EventsDone = r.feed.Checkpoint(), len(b.Events) == 0 && !b.Reset
		return out, false, nil
	}
	changes, err := r.store.AlertChanges(ctx, r.at.Change, feedPage)
	if err != nil {
		return nil, false, err
	}
	for _, c := range changes {
		r.at.Change = c.N
		if c.Alert.SilencedUntil != nil {
			continue
		}
		m, err := changeMessage(r.link, c)
		if err != nil {
			return nil, false, err
		}
		add(m)
	}
	last := len(changes) == 0 || !changes[len(changes)-1].At.Before(r.replay.Until)
	return out, last, nil
}

// readsEvents reports whether the replay may have events at all.
func (r *replayReader) readsEvents() bool {
	topics := r.replay.Filter.Topics
	forPeople := r.entry.Kind == destination.PagerDuty || r.entry.Kind == destination.Slack ||
		r.entry.Kind == destination.Email
	return !forPeople && (len(topics) == 0 || slices.Contains(topics, destination.Events))
}

// rangeStore is a feed without the events of runs that have none in a range of time, so that their logs are not read.
type rangeStore struct {
	feed.Store
	replay destination.Replay
	skip   map[string]bool // by run of the newest page
}

// afterEnd is longer than events are added to a run after its end.
const afterEnd = time.Hour

func (r *rangeStore) ListChanged(ctx context.Context, f store.RunFilter, cursor string) ([]store.RunRow, string,
	error) {
	rows, next, err := r.Store.ListChanged(ctx, f, cursor)
	clear(r.skip)
	for _, row := range rows {
		h := row.Header
		r.skip[h.RunID] = !h.CreatedAt.Before(r.replay.Until) ||
			h.CompletedAt != nil && h.CompletedAt.Add(afterEnd).Before(r.replay.Since)
	}
	return rows, next, err
}

func (r *rangeStore) Tails(ctx context.Context, known []store.TailRequest) (store.Tails, error) {
	known = slices.DeleteFunc(slices.Clone(known), func(k store.TailRequest) bool { return r.skip[k.RunID] })
	if len(known) == 0 {
		return store.Tails{}, nil
	}
	return r.Store.Tails(ctx, known)
}

// changeMessage returns the message about a change of an alert.
func changeMessage(link func(string) string, c store.AlertChange) (destination.Message, error) {
	return alertMessage(link, c.Alert, typeOf(c.Kind), strconv.FormatInt(c.N, 10), c.At)
}
