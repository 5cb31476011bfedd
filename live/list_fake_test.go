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

// fakeListBus is a bus for lists on which the test decides about every wake-up.
type fakeListBus struct {
	live.Bus
	mu   sync.Mutex
	down bool
	subs map[*listSubscription]live.List
}

type listSubscription struct {
	bus *fakeListBus
	c   chan live.Delivery
}

func newFakeListBus() *fakeListBus { return &fakeListBus{subs: map[*listSubscription]live.List{}} }

func (b *fakeListBus) SubscribeList(tenantID, projectID string) live.Subscription {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := &listSubscription{bus: b, c: make(chan live.Delivery, 16)}
	b.subs[e] = live.List{TenantID: tenantID, ProjectID: projectID}
	if !b.down {
		e.c <- live.Delivery{Confirmed: true}
	}
	return e
}

// ring wakes the list of a project and the list of its tenant. A full mailbox means awake already.
func (b *fakeListBus) ring(of live.List) {
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

func (b *fakeListBus) setDown(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
}

func (b *fakeListBus) Up() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.down
}

func (e *listSubscription) C() <-chan live.Delivery { return e.c }

func (e *listSubscription) Close() {
	e.bus.mu.Lock()
	defer e.bus.mu.Unlock()
	delete(e.bus.subs, e)
}

// fakeListStore keeps rows and fails, hangs or changes its epoch on demand.
type fakeListStore struct {
	mu    sync.Mutex
	epoch string
	rows  map[string]*storedRow
	n     int
	err   error
	hang  bool
	deaf  bool // waits long even after the caller has given up
	// judge returns the error of one List call; nil to answer.
	listError func(context.Context, store.RunFilter) error
	// after is called when a read of changes has seen the rows and before it answers.
	onChanged func()

	heads, changes, lists int
}

type storedRow struct {
	row    store.RunRow
	change int
}

func newFakeListStore() *fakeListStore {
	return &fakeListStore{epoch: "e1", rows: map[string]*storedRow{}}
}

// put creates or updates a run and returns its id.
func (s *fakeListStore) put(n int, status run.Status) string { return s.putIn("p1", n, status) }

func (s *fakeListStore) putIn(project string, n int, status run.Status) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprintf("run-%05d", n)
	k := s.rows[id]
	if k == nil {
		k = &storedRow{}
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

func (s *fakeListStore) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// reads returns the number of calls of each method since the last time.
func (s *fakeListStore) reads() (heads, changes, lists int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	heads, changes, lists = s.heads, s.changes, s.lists
	s.heads, s.changes, s.lists = 0, 0, 0
	return heads, changes, lists
}

func (s *fakeListStore) wait(ctx context.Context, count *int) error {
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

func (s *fakeListStore) Heads(ctx context.Context, _ []string) (store.Heads, error) {
	if err := s.wait(ctx, &s.heads); err != nil {
		return store.Heads{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.Heads{Epoch: s.epoch, Now: time.Now()}, nil
}

func (s *fakeListStore) ListChanged(ctx context.Context, f store.RunFilter, cursor string) ([]store.RunRow, string,
	error) {
	if err := s.wait(ctx, &s.changes); err != nil {
		return nil, "", err
	}
	rows, next := s.changed(f, cursor)
	s.mu.Lock()
	after := s.onChanged
	s.mu.Unlock()
	if after != nil {
		after()
	}
	return rows, next, nil
}

func (s *fakeListStore) changed(f store.RunFilter, cursor string) ([]store.RunRow, string) {
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
	var found []*storedRow
	for _, k := range s.rows {
		if k.change > after && (f.ProjectIDs == nil || slices.Contains(f.ProjectIDs, k.row.Header.ProjectID)) {
			found = append(found, k)
		}
	}
	slices.SortFunc(found, func(a, b *storedRow) int { return cmp.Compare(a.change, b.change) })
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

func (s *fakeListStore) List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error) {
	if err := s.wait(ctx, &s.lists); err != nil {
		return nil, err
	}
	s.mu.Lock()
	judge := s.listError
	s.mu.Unlock()
	if judge != nil {
		if err := judge(ctx, f); err != nil {
			return nil, err
		}
	}
	return s.list(f), nil
}

func (s *fakeListStore) list(f store.RunFilter) []store.RunRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*store.RunRow
	order := live.Displayed(&f)
	for _, k := range s.rows {
		if live.Selects(&f, &k.row) && (f.After == nil || order(&k.row, positionRow(f.After)) > 0) {
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

func positionRow(p *store.RunPos) *store.RunRow {
	return &store.RunRow{Header: run.Header{Identity: run.Identity{RunID: p.RunID}, CreatedAt: p.CreatedAt}}
}

// listFixture is Lists on a fakeListBus and a fakeListStore, in a synctest bubble.
type listFixture struct {
	*testing.T
	bus   *fakeListBus
	store *fakeListStore
	lists *live.Lists
	stop  func()
}

// runListScenario runs f, then shuts down. The bubble fails when a goroutine is left.
func runListScenario(t *testing.T, cfg live.ListsConfig, f func(*listFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &listFixture{T: t, bus: newFakeListBus(), store: newFakeListStore()}
		g.lists = live.NewLists(g.store, g.bus, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- g.lists.Run(ctx) }()
		g.stop = sync.OnceFunc(func() { cancel(); ok(t, <-done) })
		defer g.stop()
		f(g)
		g.stop()
		if n := len(g.bus.subs); n != 0 {
			t.Errorf("%d subscriptions are open after the shutdown, want 0", n)
		}
	})
}

// projectPage returns the filter of a page of one project.
func projectPage(limit int, statuses ...run.Status) store.RunFilter {
	return store.RunFilter{TenantID: "t1", ProjectIDs: []string{"p1"}, Statuses: statuses, Limit: limit}
}

func (g *listFixture) watch(f store.RunFilter) *live.ListStream {
	g.Helper()
	s, err := g.lists.Watch(f)
	ok(g, err)
	g.Cleanup(s.Close)
	return s
}

func (g *listFixture) next(s *live.ListStream) live.ListFrame {
	g.Helper()
	f, err := s.Next(g.Context())
	ok(g, err)
	return f
}

// change updates a run and wakes the lists.
func (g *listFixture) change(n int, status run.Status) {
	g.store.put(n, status)
	g.bus.ring(live.List{TenantID: "t1", ProjectID: "p1"})
	synctest.Wait()
}

// expectSilence requires that no frame arrives for d.
func (g *listFixture) expectSilence(s *live.ListStream, d time.Duration) {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), d)
	defer cancel()
	if f, err := s.Next(ctx); err == nil {
		g.Fatalf("unexpected frame %+v", summarizeList(f))
	}
}

// listSummary has the fields of a frame that scenarios compare.
type listSummary struct {
	Sync    live.Sync
	Reason  live.Reason
	Rows    string // "n:status", in order
	Removed string
	Reset   bool
}

func summarizeList(f live.ListFrame) listSummary {
	var rows, removed []string
	for _, r := range f.Rows {
		n, _ := strconv.Atoi(strings.TrimPrefix(r.Header.RunID, "run-"))
		rows = append(rows, fmt.Sprint(n, ":", strings.ToLower(string(r.Header.Status))))
	}
	for _, id := range f.Removed {
		n, _ := strconv.Atoi(strings.TrimPrefix(id, "run-"))
		removed = append(removed, strconv.Itoa(n))
	}
	return listSummary{f.Sync, f.Reason, strings.Join(rows, " "), strings.Join(removed, " "), f.Reset}
}
