package feed

import (
	"context"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/internal/sizedlru"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Limits of a Cache.
const (
	maxPages      = 64       // of changed runs
	maxWindows    = 10_000   // runs with events
	maxBytes      = 32 << 20 // of events
	maxWindow     = 4 * MaxEvents
	eventOverhead = 400 // bytes of an event without its payload
)

// Cache lets the Readers of one process read the same part of the feed from the store once. A Reader that is behind the
// others, because its consumer is slow, reads from the store what the Cache no longer has; it waits for no other Reader
// but while the store answers one. It is safe for concurrent use.
type Cache struct {
	direct
	fresh   time.Duration
	pages   *sizedlru.Cache[page]   // by cursor
	windows *sizedlru.Cache[window] // by epoch and run

	reading sync.Mutex // one read of the store at a time, so that Readers that need the same wait for it
	end     page       // the last page that ended a pass
	endAt   time.Time  // after it was read
}

// window is events of a run without a gap. Its events are shared and never change.
type window struct {
	events []run.Event
	bytes  int
}

// NewCache returns an empty cache over the feed of a store. A Reader may get a page of changed runs that was read up to
// fresh ago.
func NewCache(s Store, f store.RunFilter, fresh time.Duration) *Cache {
	return &Cache{direct: direct{s, f}, fresh: fresh, pages: sizedlru.New[page](maxPages, maxPages),
		windows: sizedlru.New[window](maxWindows, maxBytes)}
}

// NewReader is like the function NewReader. The Reader shares what it reads.
func (c *Cache) NewReader(checkpoint string) (*Reader, error) { return newReader(c, checkpoint) }

func (c *Cache) page(ctx context.Context, cursor string, began time.Time) (page, error) {
	if p, found := c.freshPage(cursor); found {
		return p, nil
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	if p, found := c.freshPage(cursor); found {
		return p, nil
	}
	p, err := c.direct.page(ctx, cursor, began)
	if err != nil {
		return page{}, err
	}
	if began.IsZero() {
		began = p.at
	}
	if p.last {
		p.next = c.joinPass(p, began)
	}
	c.pages.Put(cursor, p, 1)
	return p, nil
}

func (c *Cache) freshPage(cursor string) (page, bool) {
	p, found := c.pages.Get(cursor)
	return p, found && time.Since(p.at) < c.fresh
}

// joinPass returns the cursor with which a Reader continues after the last page of a pass. Cursors of passes that ended
// at different times differ, so that Readers would never read the same page. A pass that began after another one had
// ended has read all that the other one has, so its Reader continues with the cursor of the other one: rows repeat, and
// none is skipped.
func (c *Cache) joinPass(p page, began time.Time) string {
	if c.end.epoch == p.epoch && c.endAt.Before(began) && began.Sub(c.endAt) < c.fresh {
		return c.end.next
	}
	c.end, c.endAt = p, time.Now()
	return p.next
}

func (c *Cache) tails(ctx context.Context, epoch string, known []store.TailRequest) (map[string][]run.Event, error) {
	out := make(map[string][]run.Event, len(known))
	missing := c.take(out, epoch, known)
	if len(missing) == 0 {
		return out, nil
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	if missing = c.take(out, epoch, missing); len(missing) == 0 {
		return out, nil
	}
	read, err := c.store.Tails(ctx, missing)
	if err != nil {
		return nil, err
	}
	for id, t := range read.ByRun {
		out[id] = t.Events
		if len(t.Events) > 0 {
			c.put(read.Epoch, id, t.Events)
		}
	}
	return out, nil
}

// take puts the events that the cache has into out, and returns the other runs.
func (c *Cache) take(out map[string][]run.Event, epoch string, known []store.TailRequest) (
	missing []store.TailRequest) {
	for _, k := range known {
		kept, _ := c.windows.Get(windowKey(epoch, k.RunID))
		n := len(kept.events)
		if n == 0 || kept.events[0].Seq > k.Seq+1 || kept.events[n-1].Seq <= k.Seq {
			missing = append(missing, k)
			continue
		}
		from := int(k.Seq + 1 - kept.events[0].Seq)
		to := min(from+MaxEvents, n)
		out[k.RunID] = kept.events[from:to:to]
	}
	return missing
}

// put adds events of a run. They continue its window or replace it, unless they are older. The caller holds reading.
func (c *Cache) put(epoch, runID string, events []run.Event) {
	kept, _ := c.windows.Get(windowKey(epoch, runID))
	if n := len(kept.events); n > 0 {
		first, last := kept.events[0].Seq, kept.events[n-1].Seq
		switch from := events[0].Seq; {
		case from < first, events[len(events)-1].Seq <= last:
			return
		case from <= last+1:
			events = events[last+1-from:]
		default:
			kept = window{}
		}
	}
	for _, e := range events {
		kept.bytes += eventOverhead + len(e.Payload)
	}
	// Slices that were given out end before the place to which append writes.
	kept.events = append(kept.events, events...)
	for len(kept.events) > maxWindow {
		kept.bytes -= eventOverhead + len(kept.events[0].Payload)
		kept.events = kept.events[1:]
	}
	c.windows.Put(windowKey(epoch, runID), kept, kept.bytes)
}

func windowKey(epoch, runID string) string { return epoch + "/" + runID }
