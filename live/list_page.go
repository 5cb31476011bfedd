package live

import (
	"slices"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// listPage is one page, shared by all viewers with equal filters.
type listPage struct {
	class  string
	filter store.RunFilter
	refs   int // guarded by the hub's mu

	// Used only by the entry's goroutine. rows are the first rows that the filter selects, in display order. They are
	// more than the page shows, so that a row that leaves rarely costs a read.
	rows     []*store.RunRow
	read     bool      // rows belong to the current history
	whole    bool      // the store has no further rows
	moved    bool      // rows differ from the last view
	asOf     time.Time // store's time at which rows were read
	failedAt time.Time // when a read of only this page failed

	mu      sync.Mutex
	view    *listView // nil until there is something to show
	shownAt time.Time // AsOf of view
	err     error
	changed chan struct{} // closed when view or err changes
}

// listView is the content that a page shows. It is immutable.
type listView struct {
	sync    Sync
	reason  Reason
	rows    []*store.RunRow
	epoch   string
	history int // counts complete reloads; 0 while there are no rows
}

func newListPage(class string, f store.RunFilter) *listPage {
	return &listPage{class: class, filter: f, changed: make(chan struct{})}
}

// capacity returns how many rows a page keeps at most; a store lists one beyond MaxListRows.
func (p *listPage) capacity() int { return min(p.filter.Limit+p.filter.Limit/2+1, MaxListRows+1) }

// apply updates the page with a changed row, which may enter, change or leave. regressed means that the row is older
// than the one in the page, so that it belongs to another history.
func (p *listPage) apply(row *store.RunRow) (moved, regressed bool) {
	if !p.read {
		return false, false
	}
	selected := selects(&p.filter, row)
	i, found := slices.BinarySearchFunc(p.rows, row, displayOrder(&p.filter))
	switch {
	case found && isOlder(row, p.rows[i]):
		return false, true
	case found && !isOlder(p.rows[i], row) && row.Header.Rev == p.rows[i].Header.Rev:
		return false, false
	case found && selected:
		p.rows[i] = row
	case found:
		p.rows = slices.Delete(p.rows, i, i+1)
	case selected && (p.whole || i < len(p.rows)):
		p.rows = slices.Insert(p.rows, i, row)
		p.trim()
	default:
		return false, false
	}
	p.moved = true
	return true, false
}

// isOlder reports whether a was read before b. Both are rows of one run.
func isOlder(a, b *store.RunRow) bool {
	return a.Header.Seq < b.Header.Seq || a.Header.Seq == b.Header.Seq && a.OpsRev < b.OpsRev
}

func (p *listPage) trim() {
	if n := p.capacity(); len(p.rows) > n {
		p.rows = slices.Delete(p.rows, n, len(p.rows))
		p.whole = false
	}
}

// isIncomplete reports whether rows must be read before the page can be shown.
func (p *listPage) isIncomplete() bool { return !p.read || !p.whole && len(p.rows) < p.filter.Limit }

// forget discards all rows, because the history is another one.
func (p *listPage) forget() { p.rows, p.read, p.whole, p.failedAt = nil, false, false, time.Time{} }

// query returns the filter for the rows that the page lacks: those after its last row.
func (p *listPage) query() store.RunFilter {
	f := p.filter
	f.Limit = p.capacity() - len(p.rows)
	if n := len(p.rows); n > 0 {
		last := &p.rows[n-1].Header
		f.After = &store.RunPos{CreatedAt: last.CreatedAt, RunID: last.RunID}
	}
	return f
}

// extend appends the answer to query; asOf is the earliest time at which it was asked. It returns true if these are
// the first rows of a history.
func (p *listPage) extend(asked int, rows []store.RunRow, asOf time.Time) (first bool) {
	first = !p.read
	if first {
		p.asOf = asOf
	}
	for _, row := range rows { // each row is allocated separately, because views keep pointers
		p.rows = append(p.rows, &row)
	}
	p.read, p.whole, p.moved, p.failedAt = true, len(rows) < asked, true, time.Time{}
	return first
}

// show publishes the rows as the new view. first starts a new history.
func (p *listPage) show(epoch string, reason Reason, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := &listView{sync: Live, reason: reason, epoch: epoch}
	if was := p.view; was != nil {
		v.history, v.rows = was.history, was.rows
	}
	if first {
		v.history++
		p.shownAt = p.asOf
	} else {
		p.shownAt = latest(p.shownAt, p.asOf)
	}
	if rows := p.rows[:min(len(p.rows), p.filter.Limit)]; p.moved && (first || !slices.Equal(rows, v.rows)) {
		v.rows = slices.Clone(rows)
	}
	p.moved = false
	p.put(v)
}

// setSync keeps the rows and changes only the sync state and its reason.
func (p *listPage) setSync(s Sync, r Reason) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := &listView{sync: s, reason: r}
	if was := p.view; was != nil {
		v.rows, v.epoch, v.history = was.rows, was.epoch, was.history
	}
	p.put(v)
}

// put replaces the view unless nothing changed. The caller holds p.mu.
func (p *listPage) put(v *listView) {
	if was := p.view; was != nil && was.sync == v.sync && was.reason == v.reason && was.epoch == v.epoch &&
		was.history == v.history &&
		len(was.rows) == len(v.rows) && (len(v.rows) == 0 || &was.rows[0] == &v.rows[0]) {
		return
	}
	p.view = v
	p.ring()
}

// fail ends the page's streams after their last frame.
func (p *listPage) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		p.ring()
	}
}

// ring wakes the readers. The caller holds p.mu.
func (p *listPage) ring() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *listPage) current() (v *listView, asOf time.Time, changed <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.view, p.shownAt, p.changed, p.err
}
