package watch

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/store"
)

// InboxWatcher opens streams of what waits for a person. It is safe for concurrent use.
type InboxWatcher struct {
	reader     *InboxReader
	bus        live.Bus
	background *control.Background
	quiet      time.Duration
	inboxes    inboxes
}

// NewInboxWatcher makes a InboxWatcher.
func NewInboxWatcher(reader *InboxReader, bus live.Bus, background *control.Background,
	quiet time.Duration) *InboxWatcher {
	return &InboxWatcher{reader: reader, bus: bus, background: background, quiet: quiet,
		inboxes: inboxes{open: map[authz.Class]*inbox{}}}
}

// Times of a watched inbox.
const (
	inboxGap  = 250 * time.Millisecond // between two looks: wake-ups in between are one
	inboxNet  = 5 * time.Second        // the longest time between two looks while the bus is up
	inboxPoll = time.Second            // while the bus is down, or the store was
	inboxRead = 2 * time.Second        // bounds one look
	// maxInboxes is how many scopes are watched at once.
	maxInboxes = 1000
)

// WatchInbox shows how much waits for p, first as it is, then at every change with what
// changed, at least once in Config.Quiet. It looks when a list of runs of the projects
// that p may see has changed, and every five seconds. All who may see the same share the
// looks; whose an item is depends on the viewer, on what it asked for and approved itself,
// and is decided in memory. A viewer whose rights change is shown what is left with Reset.
// FORBIDDEN for who may read nothing.
func (s *InboxWatcher) WatchInbox(ctx context.Context, p authz.Principal) (control.Stream[InboxFrame], error) {
	w := &inboxStream{s: s}
	w.guard = s.reader.rights.GuardBy(p, func() error {
		scope, ok := s.reader.rights.Narrow(p, control.RunFilter{})
		switch {
		case !ok:
			return s.reader.rights.NothingToReadError(p)
		case w.inbox != nil && reflect.DeepEqual(scope, w.inbox.scope):
			return nil
		}
		if err := w.move(scope); err != nil {
			return control.Translate(err)
		}
		return control.ErrLook
	})
	if err := w.guard.May(); !errors.Is(err, control.ErrLook) {
		return nil, w.guard.EndError(ctx, err)
	}
	return w, nil
}

// inboxes are the scopes that somebody watches.
type inboxes struct {
	mu   sync.Mutex
	open map[authz.Class]*inbox
}

// inbox is what waits in one scope, for all who watch it. Its goroutine ends when nobody does.
type inbox struct {
	s     *InboxWatcher
	class authz.Class
	scope control.RunFilter
	refs  int // guarded by inboxes.mu
	stop  context.CancelFunc

	mu      sync.Mutex
	now     inboxState
	changed chan struct{} // closed when now is another
}

// inboxState is what the last look found. view is nil until one has succeeded.
type inboxState struct {
	view   *inboxView
	sync   live.Sync
	reason live.Reason
}

// enter adds a viewer; live.ErrTooMany.
func (s *InboxWatcher) enterInbox(scope control.RunFilter) (*inbox, error) {
	all := &s.inboxes
	class, err := classOf(scope)
	if err != nil {
		return nil, err
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	in := all.open[class]
	if in == nil {
		if len(all.open) >= maxInboxes {
			return nil, live.ErrTooMany
		}
		ctx, stop := context.WithCancel(context.Background())
		in = &inbox{s: s, class: class, scope: scope, stop: stop, changed: make(chan struct{})}
		all.open[class] = in
		go func() {
			_ = s.background.Panics.Loop(ctx, control.DutyInbox, func(ctx context.Context) error {
				in.run(ctx)
				return nil
			})
		}()
	}
	in.refs++
	return in, nil
}

func (in *inbox) leave() {
	all := &in.s.inboxes
	all.mu.Lock()
	defer all.mu.Unlock()
	if in.refs--; in.refs == 0 {
		delete(all.open, in.class)
		in.stop()
	}
}

func (in *inbox) run(ctx context.Context) {
	project := "*"
	if len(in.scope.ProjectIDs) == 1 {
		project = in.scope.ProjectIDs[0]
	}
	sub := in.s.bus.SubscribeList(in.scope.TenantID, project)
	defer sub.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var looked time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-sub.C():
			timer.Reset(max(0, inboxGap-time.Since(looked)))
			continue
		case <-timer.C:
		}
		looked = time.Now()
		timer.Reset(in.look(ctx))
	}
}

// look reads anew and says when to do it again.
func (in *inbox) look(ctx context.Context) time.Duration {
	bounded, cancel := context.WithTimeout(ctx, inboxRead)
	defer cancel()
	up := in.s.bus.Up()
	view, err := in.s.reader.lookInbox(bounded, in.scope, in.now.view)
	switch {
	case err != nil:
		in.show(inboxState{view: in.now.view, sync: live.Stale, reason: live.StoreDown})
		return inboxPoll
	case !up:
		in.show(inboxState{view: view, sync: live.Live, reason: live.BusDegraded})
		return inboxPoll
	}
	in.show(inboxState{view: view, sync: live.Live})
	return inboxNet
}

func (in *inbox) show(next inboxState) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.now = next
	close(in.changed)
	in.changed = make(chan struct{})
}

// state is what is known now, and what is closed when that is another.
func (in *inbox) state() (inboxState, <-chan struct{}) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.now, in.changed
}

// inboxStream is guarded, and moves to another inbox when the rights of its viewer change.
type inboxStream struct {
	s     *InboxWatcher
	guard control.Guard

	mu     sync.Mutex
	inbox  *inbox
	closed bool

	// Of the reader alone.
	of    *inbox // that shown is of
	shown inboxState
	yours []bool
	last  time.Time // when the last frame was given out
}

func (w *inboxStream) move(scope store.RunFilter) error {
	in, err := w.s.enterInbox(scope)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		in.leave()
		return nil
	}
	if w.inbox != nil {
		w.inbox.leave()
	}
	w.inbox = in
	return nil
}

func (w *inboxStream) Next(ctx context.Context) (f InboxFrame, err error) {
	err = w.guard.Wait(ctx, func(ctx context.Context) (err error) {
		f, err = w.next(ctx)
		return err
	})
	return f, err
}

func (w *inboxStream) next(ctx context.Context) (InboxFrame, error) {
	quiet := w.s.quiet
	if !w.last.IsZero() {
		quiet -= time.Since(w.last)
	}
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for due := false; ; {
		w.mu.Lock()
		in := w.inbox
		w.mu.Unlock()
		now, changed := in.state()
		if now.sync != "" {
			f, moved, err := w.advance(in, now)
			if err != nil || moved || due {
				w.last = time.Now()
				return f, err
			}
		}
		select {
		case <-ctx.Done():
			return InboxFrame{}, ctx.Err()
		case <-changed:
		case <-timer.C:
			due = true
		}
	}
}

// advance is what moves the viewer from what it was shown to now.
func (w *inboxStream) advance(in *inbox, now inboxState) (f InboxFrame, moved bool, err error) {
	f = InboxFrame{Sync: now.sync, Reason: now.reason, Reset: w.of != in || w.shown.view == nil && now.view != nil}
	var yours []bool
	if now.view != nil {
		if yours, err = w.s.reader.canDecideEach(w.guard.P, now.view); err != nil {
			return f, false, err
		}
		f.Count, f.AsOf = new(countInbox(yours)), now.view.asOf
		if !f.Reset {
			f.Changed, f.Removed = difference(w.shown.view, w.yours, now.view, yours)
		}
	}
	moved = f.Reset || len(f.Changed)+len(f.Removed) > 0 || now.sync != w.shown.sync || now.reason != w.shown.reason
	w.of, w.shown, w.yours = in, now, yours
	return f, moved, nil
}

// difference is what entered or changed, oldest first, and what left.
func difference(from *inboxView, was []bool, to *inboxView, is []bool) (changed, removed []InboxItem) {
	for i := range to.items {
		item := &to.items[i]
		at, known := from.find(item.key())
		if known && was[at] == is[i] && len(from.items[at].approval.Decisions) == len(item.approval.Decisions) {
			continue
		}
		entered := item.InboxItem
		entered.Yours = is[i]
		changed = append(changed, entered)
	}
	for i := range from.items {
		if _, stays := to.find(from.items[i].key()); !stays {
			removed = append(removed, from.items[i].InboxItem)
		}
	}
	return changed, removed
}

// Close implements Stream.
func (w *inboxStream) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	w.inbox.leave()
}
