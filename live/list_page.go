package live

import (
	"slices"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// listPage is one page for all who are shown the same: those with equal filters.
type listPage struct {
	class  string
	filter store.RunFilter
	refs   int // guarded by the hub's mu

	// Of the entry's goroutine alone: the first rows that the filter selects, in
	// display order. They are more than the page shows, so that one that leaves seldom
	// costs a read.
	rows  []*store.RunRow
	read  bool      // rows are of the history in hand
	whole bool      // there are no more
	moved bool      // rows are not as they were shown
	asOf  time.Time // of rows
	tried time.Time // when a read of this page alone failed

	mu      sync.Mutex
	view    *listView // nil until there is something to say
	shownAt time.Time // AsOf of view
	err     error
	changed chan struct{} // closed when view or err changes
}

// listView is what a page shows. It is never written to.
type listView struct {
	sync    Sync
	reason  Reason
	rows    []*store.RunRow
	epoch   string
	history int // counts the pages that were read anew; 0: there are no rows yet
}

func newListPage(class string, f store.RunFilter) *listPage {
	return &listPage{class: class, filter: f, changed: make(chan struct{})}
}

// kept is how many rows a page keeps at most; a store lists one beyond MaxListRows.
func (p *listPage) kept() int { return min(p.filter.Limit+p.filter.Limit/2+1, MaxListRows+1) }

// apply decides whether a changed row enters, changes or leaves. A row that was newer
// before is of another history: regressed.
func (p *listPage) apply(row *store.RunRow) (moved, regressed bool) {
	if !p.read {
		return false, false
	}
	selected := selects(&p.filter, &row.Header)
	i, found := slices.BinarySearchFunc(p.rows, row, displayed(&p.filter))
	switch {
	case found && older(row, p.rows[i]):
		return false, true
	case found && !older(p.rows[i], row) && row.Header.Rev == p.rows[i].Header.Rev:
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

// older says that a was read before b, of one run.
func older(a, b *store.RunRow) bool {
	return a.Header.Seq < b.Header.Seq || a.Header.Seq == b.Header.Seq && a.OpsRev < b.OpsRev
}

func (p *listPage) trim() {
	if n := p.kept(); len(p.rows) > n {
		p.rows = slices.Delete(p.rows, n, len(p.rows))
		p.whole = false
	}
}

// lacks says that rows must be read before the page can be shown.
func (p *listPage) lacks() bool { return !p.read || !p.whole && len(p.rows) < p.filter.Limit }

// forget is for another history: everything is read anew.
func (p *listPage) forget() { p.rows, p.read, p.whole, p.tried = nil, false, false, time.Time{} }

// query asks for the rows that the page lacks: those after the last one.
func (p *listPage) query() store.RunFilter {
	f := p.filter
	f.Limit = p.kept() - len(p.rows)
	if n := len(p.rows); n > 0 {
		last := &p.rows[n-1].Header
		f.After = &store.RunPos{CreatedAt: last.CreatedAt, RunID: last.RunID}
	}
	return f
}

// extend takes the answer to query; asOf is when it was asked at the earliest.
func (p *listPage) extend(asked int, rows []store.RunRow, asOf time.Time) (anew bool) {
	anew = !p.read
	if anew {
		p.asOf = asOf
	}
	for _, row := range rows { // each is kept by itself
		p.rows = append(p.rows, &row)
	}
	p.read, p.whole, p.moved, p.tried = true, len(rows) < asked, true, time.Time{}
	return anew
}

// show makes the rows visible.
func (p *listPage) show(epoch string, reason Reason, anew bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := &listView{sync: Live, reason: reason, epoch: epoch}
	if was := p.view; was != nil {
		v.history, v.rows = was.history, was.rows
	}
	if anew {
		v.history++
		p.shownAt = p.asOf
	} else {
		p.shownAt = later(p.shownAt, p.asOf)
	}
	if rows := p.rows[:min(len(p.rows), p.filter.Limit)]; p.moved && (anew || !slices.Equal(rows, v.rows)) {
		v.rows = slices.Clone(rows)
	}
	p.moved = false
	p.put(v)
}

// say keeps the rows and tells how fresh they are.
func (p *listPage) say(s Sync, r Reason) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := &listView{sync: s, reason: r}
	if was := p.view; was != nil {
		v.rows, v.epoch, v.history = was.rows, was.epoch, was.history
	}
	p.put(v)
}

// put needs p.mu.
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

// ring needs p.mu.
func (p *listPage) ring() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *listPage) now() (v *listView, asOf time.Time, changed <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.view, p.shownAt, p.changed, p.err
}
