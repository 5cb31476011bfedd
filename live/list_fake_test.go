package live_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// bell is a bus for lists whose every wake-up the test decides.
type bell struct {
	live.Bus
	mu   sync.Mutex
	down bool
	subs map[*ear]live.List
}

type ear struct {
	bell *bell
	c    chan live.Delivery
}

func newBell() *bell { return &bell{subs: map[*ear]live.List{}} }

func (b *bell) SubscribeList(tenantID, projectID string) live.Subscription {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := &ear{bell: b, c: make(chan live.Delivery, 16)}
	b.subs[e] = live.List{TenantID: tenantID, ProjectID: projectID}
	if !b.down {
		e.c <- live.Delivery{Confirmed: true}
	}
	return e
}

// ring wakes a project's list and its tenant's; a full mailbox is awake already.
func (b *bell) ring(of live.List) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for e, l := range b.subs {
		if l.TenantID == of.TenantID && (l.ProjectID == "*" || l.ProjectID == of.ProjectID) {
			select {
			case e.c <- live.Delivery{}:
			default:
			}
		}
	}
}

func (b *bell) setDown(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
}

func (b *bell) Up() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.down
}

func (e *ear) C() <-chan live.Delivery { return e.c }

func (e *ear) Close() {
	e.bell.mu.Lock()
	defer e.bell.mu.Unlock()
	delete(e.bell.subs, e)
}

// shelf is a store of rows that fails, hangs and begins another history on demand.
type shelf struct {
	mu    sync.Mutex
	epoch string
	rows  map[string]*kept
	n     int
	err   error
	hang  bool
	deaf  bool // hangs for long, whatever the caller says
	// judge is what becomes of one List: nil to answer.
	judge func(context.Context, store.RunFilter) error
	// after runs when a read of changes has seen the rows, before it answers.
	after func()

	heads, changes, lists int
}

type kept struct {
	row    store.RunRow
	change int
}

func newShelf() *shelf { return &shelf{epoch: "e1", rows: map[string]*kept{}} }

// put makes a run or moves it on, and returns its id.
func (s *shelf) put(n int, status run.Status) string { return s.putIn("p1", n, status) }

func (s *shelf) putIn(project string, n int, status run.Status) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprintf("run-%05d", n)
	k := s.rows[id]
	if k == nil {
		k = &kept{}
		k.row.Header = run.Header{Identity: identity(id), CreatedAt: time.Unix(int64(n), 0)}
		k.row.Header.ProjectID = project
		s.rows[id] = k
	}
	s.n++
	k.change = s.n
	k.row.Header.Status = status
	k.row.Header.Seq++
	return id
}

func (s *shelf) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// reads is how often each method was called since the last time.
func (s *shelf) reads() (heads, changes, lists int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	heads, changes, lists = s.heads, s.changes, s.lists
	s.heads, s.changes, s.lists = 0, 0, 0
	return heads, changes, lists
}

func (s *shelf) wait(ctx context.Context, count *int) error {
	s.mu.Lock()
	*count++
	hang, deaf, err := s.hang, s.deaf, s.err
	s.mu.Unlock()
	switch {
	case deaf:
		time.Sleep(10 * time.Second)
		return store.ErrUnavailable
	case hang:
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (s *shelf) Heads(ctx context.Context, _ []string) (store.Heads, error) {
	if err := s.wait(ctx, &s.heads); err != nil {
		return store.Heads{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.Heads{Epoch: s.epoch, Now: time.Now()}, nil
}

func (s *shelf) Changed(ctx context.Context, f store.RunFilter, cursor string) ([]store.RunRow, string, error) {
	if err := s.wait(ctx, &s.changes); err != nil {
		return nil, "", err
	}
	rows, next := s.changed(f, cursor)
	s.mu.Lock()
	after := s.after
	s.mu.Unlock()
	if after != nil {
		after()
	}
	return rows, next, nil
}

func (s *shelf) changed(f store.RunFilter, cursor string) ([]store.RunRow, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	epoch, at, _ := strings.Cut(cursor, ":")
	after, _ := strconv.Atoi(at)
	if epoch != s.epoch {
		after = 0
	}
	if cursor == "" {
		return nil, fmt.Sprint(s.epoch, ":", s.n)
	}
	var found []*kept
	for _, k := range s.rows {
		if k.change > after && (f.ProjectIDs == nil || slices.Contains(f.ProjectIDs, k.row.Header.ProjectID)) {
			found = append(found, k)
		}
	}
	slices.SortFunc(found, func(a, b *kept) int { return cmp.Compare(a.change, b.change) })
	next := s.n
	if len(found) > f.Limit {
		found = found[:f.Limit]
	}
	if len(found) == f.Limit {
		next = found[len(found)-1].change
	}
	var rows []store.RunRow
	for _, k := range found {
		rows = append(rows, k.row)
	}
	return rows, fmt.Sprint(s.epoch, ":", next)
}

func (s *shelf) List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error) {
	if err := s.wait(ctx, &s.lists); err != nil {
		return nil, err
	}
	s.mu.Lock()
	judge := s.judge
	s.mu.Unlock()
	if judge != nil {
		if err := judge(ctx, f); err != nil {
			return nil, err
		}
	}
	return s.list(f), nil
}

func (s *shelf) list(f store.RunFilter) []store.RunRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*store.RunRow
	order := live.Displayed(&f)
	for _, k := range s.rows {
		if live.Selects(&f, &k.row.Header) && (f.After == nil || order(&k.row, place(f.After)) > 0) {
			found = append(found, &k.row)
		}
	}
	slices.SortFunc(found, order)
	var rows []store.RunRow
	for _, row := range found[:min(len(found), f.Limit)] {
		rows = append(rows, *row)
	}
	return rows
}

func place(p *store.RunPos) *store.RunRow {
	return &store.RunRow{Header: run.Header{Identity: run.Identity{RunID: p.RunID}, CreatedAt: p.CreatedAt}}
}

// gallery is lists on a bell and a shelf, in a bubble of its own time.
type gallery struct {
	*testing.T
	bell  *bell
	shelf *shelf
	lists *live.Lists
	stop  func()
}

// exhibit runs a scenario, then shuts down. The bubble fails when a goroutine is left.
func exhibit(t *testing.T, cfg live.ListsConfig, f func(*gallery)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &gallery{T: t, bell: newBell(), shelf: newShelf()}
		g.lists = live.NewLists(g.shelf, g.bell, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- g.lists.Run(ctx) }()
		g.stop = sync.OnceFunc(func() { cancel(); ok(t, <-done) })
		defer g.stop()
		f(g)
		g.stop()
		if n := len(g.bell.subs); n != 0 {
			t.Errorf("%d subscriptions are open after the end", n)
		}
	})
}

// only is the filter of a page of one project.
func only(limit int, statuses ...run.Status) store.RunFilter {
	return store.RunFilter{TenantID: "t1", ProjectIDs: []string{"p1"}, Statuses: statuses, Limit: limit}
}

func (g *gallery) watch(f store.RunFilter) *live.ListStream {
	g.Helper()
	s, err := g.lists.Watch(f)
	ok(g, err)
	g.Cleanup(s.Close)
	return s
}

func (g *gallery) next(s *live.ListStream) live.ListFrame {
	g.Helper()
	f, err := s.Next(g.Context())
	ok(g, err)
	return f
}

// change moves a run and says so.
func (g *gallery) change(n int, status run.Status) {
	g.shelf.put(n, status)
	g.bell.ring(live.List{TenantID: "t1", ProjectID: "p1"})
	synctest.Wait()
}

// silent is true when no frame comes for d.
func (g *gallery) silent(s *live.ListStream, d time.Duration) {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), d)
	defer cancel()
	if f, err := s.Next(ctx); err == nil {
		g.Fatalf("unexpected frame %+v", told(f))
	}
}

// notice is what of a frame the scenarios speak of.
type notice struct {
	Sync    live.Sync
	Reason  live.Reason
	Rows    string // "n:status", in order
	Removed string
	Reset   bool
}

func told(f live.ListFrame) notice {
	var rows, removed []string
	for _, r := range f.Rows {
		n, _ := strconv.Atoi(strings.TrimPrefix(r.Header.RunID, "run-"))
		rows = append(rows, fmt.Sprint(n, ":", strings.ToLower(string(r.Header.Status))))
	}
	for _, id := range f.Removed {
		n, _ := strconv.Atoi(strings.TrimPrefix(id, "run-"))
		removed = append(removed, strconv.Itoa(n))
	}
	return notice{f.Sync, f.Reason, strings.Join(rows, " "), strings.Join(removed, " "), f.Reset}
}
