package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/live"
)

// Ticket is the right of one viewer to a stream that it may share with others of
// its class. It is safe for concurrent use.
type Ticket struct {
	class authz.Class
	s     *Watcher
	guard control.Guard
	runID string
	// filter is what a list may show.
	filter control.RunFilter

	mu      sync.Mutex
	version int64     // of the policy that said yes
	until   time.Time // when it is asked again
}

// Class is equal for viewers that may be shown the same bytes of the same stream.
func (t *Ticket) Class() authz.Class { return t.class }

// Check is nil while the right holds: it is looked at when the policy has changed,
// when the token expires, and at least every Config.Recheck (T178). It does no I/O; a lost
// right is audited beside it. ErrMoved says that the viewer may see something
// else than before: it needs another ticket. Any other error is a *Error.
func (t *Ticket) Check() error {
	now, version := t.s.rights.Now(), t.s.rights.Authz.Version()
	t.mu.Lock()
	defer t.mu.Unlock()
	if version == t.version && now.Before(t.until) {
		return nil
	}
	switch err := t.guard.Check(); {
	case errors.Is(err, control.ErrLook):
		return ErrMoved
	case err != nil:
		go func() {
			_ = t.s.background.Panics.Call(control.DutyNotify, "", func() error {
				t.lost(err)
				return nil
			})
		}()
		return control.Translate(err)
	}
	t.version, t.until = version, t.guard.Due()
	return nil
}

// auditTime bounds the row of a lost right.
const auditTime = 5 * time.Second

func (t *Ticket) lost(err error) {
	ctx, cancel := context.WithTimeout(context.Background(), auditTime)
	defer cancel()
	_ = t.guard.EndError(ctx, err) // audits; the viewer is told by Check
}

// ErrMoved says that a viewer belongs to another class now.
var ErrMoved = control.ErrLook

// AdmitRun checks the right of p to watch a run: NOT_FOUND as for WatchRun. Every
// principal that may read a run is shown the same frames of it.
func (s *Watcher) AdmitRun(ctx context.Context, p authz.Principal, runID string) (*Ticket, error) {
	id, err := s.checkWatchable(ctx, p, runID)
	if err != nil {
		return nil, err
	}
	t := &Ticket{class: authz.Class(p.TenantID), s: s, guard: s.rights.GuardRun(p, id), runID: runID}
	return t, t.Check()
}

// OpenRun is the stream of all who hold tickets of the run: nobody's rights are
// looked at while it runs.
func (s *Watcher) OpenRun(ctx context.Context, t *Ticket) (control.Stream[live.Frame], error) {
	frames, err := s.hub.Watch(ctx, t.runID, nil, "")
	if err != nil {
		return nil, control.Translate(err)
	}
	return openStream{frames}, nil
}

// AdmitRuns checks the right of p to watch a page of runs: BAD_INPUT, FORBIDDEN.
// Tickets of one class are of one tenant, see the same projects and environments, and
// ask for the same page.
func (s *Watcher) AdmitRuns(_ context.Context, p authz.Principal, q control.RunsQuery) (*Ticket, error) {
	asked, err := askedPage(q)
	if err != nil {
		return nil, err
	}
	t := &Ticket{s: s}
	t.guard = s.rights.GuardBy(p, func() error {
		f, ok := s.rights.Narrow(p, asked)
		switch {
		case !ok:
			return s.rights.NothingToReadError(p)
		case t.class == "": // the first check, before anybody else has the ticket
			class, err := classOf(f)
			if err != nil {
				return control.Translate(err)
			}
			t.filter, t.class = f, class
		case !reflect.DeepEqual(f, t.filter):
			return control.ErrLook
		}
		return nil
	})
	return t, t.Check()
}

// classOf a list: everything of the filter that decides what it shows. An error says that a time of the filter is none
// of the years 0 to 9999.
func classOf(f control.RunFilter) (authz.Class, error) {
	class, err := json.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("control: class of a list: %w", err)
	}
	return authz.Class(class), nil
}

// openStream words the errors of a hub's stream.
type openStream struct{ frames *live.Stream }

func (o openStream) Next(ctx context.Context) (live.Frame, error) {
	f, err := o.frames.Next(ctx)
	return f, control.Translate(err)
}

func (o openStream) Close() { o.frames.Close() }
