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

// InboxWatcher opens streams of the inbox of a person. It is safe for concurrent use.
type InboxWatcher struct {
	reader     *InboxReader
	bus        live.Bus
	background *control.Background
	quiet      time.Duration
	inboxes    inboxes
}

// NewInboxWatcher makes an InboxWatcher.
func NewInboxWatcher(reader *InboxReader, bus live.Bus, background *control.Background,
	quiet time.Duration) *InboxWatcher {
	return &InboxWatcher{reader: reader, bus: bus, background: background, quiet: quiet,
		inboxes: inboxes{open: map[authz.Class]*inbox{}}}
}

// Intervals and limits of watched inboxes.
const (
	inboxGap  = 250 * time.Millisecond // minimum time between two reads
	inboxNet  = 5 * time.Second        // maximum time between two reads while the bus is up
	inboxPoll = time.Second            // the same while the bus or the store is down
	inboxRead = 2 * time.Second        // maximum duration of one read
	// maxInboxes bounds the scopes that are watched at once.
	maxInboxes = 1000
)

// WatchInbox returns a stream of the inbox of p: first the current count, then the items that changed, and a frame at
// least once in the quiet interval. It reads when a list of runs of the visible projects has changed, and every five
// seconds. Viewers with the same scope share the reads. Which items a viewer may decide depends on the runs that it
// requested or approved itself; that is computed in memory. When the rights of the viewer change, the stream continues
// with Reset. Error: FORBIDDEN for a caller who may read no run.
func (s *InboxWatcher) WatchInbox(ctx context.Context, p authz.Principal) (control.Stream[InboxFrame], error) {
	frames := &inboxFrames{reader: s.reader, p: p}
	return openInboxStream(ctx, s, p, frames.advance)
}

// openInboxStream opens a guarded stream. advance returns the frame that brings its viewer to a state of the inbox, and
// whether the frame has a change; one goroutine calls it.
func openInboxStream[F any](ctx context.Context, s *InboxWatcher, p authz.Principal,
	advance func(in *inbox, now inboxState) (F, bool, error)) (control.Stream[F], error) {
	w := &inboxStream[F]{s: s, advance: advance}
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

// inboxes are the watched scopes.
type inboxes struct {
	mu   sync.Mutex
	open map[authz.Class]*inbox
}

// inbox is the inbox of one scope for all its viewers. Its goroutine ends with the last viewer.
type inbox struct {
	s     *InboxWatcher
	class authz.Class
	scope control.RunFilter
	refs  int // guarded by inboxes.mu
	stop  context.CancelFunc

	mu      sync.Mutex
	now     inboxState
	changed chan struct{} // closed when now changes
}

// inboxState is the result of the newest read. view is nil until a read has succeeded.
type inboxState struct {
	view   *inboxView
	sync   live.Sync
	reason live.Reason
}

// enterInbox adds a viewer to the inbox of a scope. Error: live.ErrTooMany.
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

// look reads the inbox and returns the time until the next read.
func (in *inbox) look(ctx context.Context) time.Duration {
	bounded, cancel := context.WithTimeout(ctx, inboxRead)
	defer cancel()
	up := in.s.bus.Up()
	view, err := in.s.reader.readInbox(bounded, in.scope, in.now.view)
	if err == nil {
		err = in.s.reader.readAttention(bounded, in.scope, view, in.now.view)
	}
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

// state returns the current state and a channel that is closed when it changes.
func (in *inbox) state() (inboxState, <-chan struct{}) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.now, in.changed
}

// inboxStream is a guarded stream. It moves to another inbox when the rights of its viewer change.
type inboxStream[F any] struct {
	s       *InboxWatcher
	guard   control.Guard
	advance func(in *inbox, now inboxState) (F, bool, error)

	mu     sync.Mutex
	inbox  *inbox
	closed bool

	last time.Time // time of the last frame; belongs to the goroutine that calls Next
}

func (w *inboxStream[F]) move(scope store.RunFilter) error {
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

func (w *inboxStream[F]) Next(ctx context.Context) (f F, err error) {
	err = w.guard.Wait(ctx, func(ctx context.Context) (err error) {
		f, err = w.next(ctx)
		return err
	})
	return f, err
}

func (w *inboxStream[F]) next(ctx context.Context) (f F, err error) {
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
			frame, moved, err := w.advance(in, now)
			if err != nil || moved || due {
				w.last = time.Now()
				return frame, err
			}
		}
		select {
		case <-ctx.Done():
			return f, ctx.Err()
		case <-changed:
		case <-timer.C:
			due = true
		}
	}
}

// inboxFrames makes the frames of one viewer's inbox.
type inboxFrames struct {
	reader *InboxReader
	p      authz.Principal
	of     *inbox // the inbox of shown
	shown  inboxState
	yours  []bool
}

// advance returns the frame that brings the viewer to the state now, and whether it has a change.
func (w *inboxFrames) advance(in *inbox, now inboxState) (f InboxFrame, moved bool, err error) {
	f = InboxFrame{Sync: now.sync, Reason: now.reason, Reset: w.of != in || w.shown.view == nil && now.view != nil}
	var yours []bool
	if now.view != nil {
		if yours, err = w.reader.canDecideEach(w.p, now.view); err != nil {
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

// difference returns the items that entered or changed, oldest first, and the items that left.
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

// Close implements control.Stream.
func (w *inboxStream[F]) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	w.inbox.leave()
}
