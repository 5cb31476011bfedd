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

// Ticket is the right of one viewer to a stream that viewers of the same class share. It is safe for concurrent use.
type Ticket struct {
	class authz.Class
	s     *Watcher
	guard control.Guard
	runID string
	// filter selects the runs of a list.
	filter control.RunFilter

	mu      sync.Mutex
	version int64     // of the policy at the last successful check
	until   time.Time // time of the next check
}

// Class is equal for viewers that may get the same bytes of the same stream.
func (t *Ticket) Class() authz.Class { return t.class }

// Check returns nil while the right holds. It checks the right when the policy has changed, when the token expires, and
// at least every RightsConfig.CheckInterval (contract T178). It does no I/O; the loss of a right is audited in the
// background. ErrMoved means that the viewer may see something else than before and needs another ticket. Any other
// error is a *Error.
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
				t.auditLoss(err)
				return nil
			})
		}()
		return control.Translate(err)
	}
	t.version, t.until = version, t.guard.Due()
	return nil
}

// auditTime limits the time of writing the audit row of a lost right.
const auditTime = 5 * time.Second

func (t *Ticket) auditLoss(err error) {
	ctx, cancel := context.WithTimeout(context.Background(), auditTime)
	defer cancel()
	_ = t.guard.EndError(ctx, err) // writes the audit row; Check returns the error to the viewer
}

// ErrMoved means that a viewer now belongs to another class.
var ErrMoved = control.ErrLook

// AdmitRun returns a ticket for a run. Every principal that may read a run gets the same frames of it. Error: NOT_FOUND
// as for WatchRun.
func (s *Watcher) AdmitRun(ctx context.Context, p authz.Principal, runID string) (*Ticket, error) {
	id, err := s.checkWatchable(ctx, p, runID)
	if err != nil {
		return nil, err
	}
	t := &Ticket{class: authz.Class(p.TenantID), s: s, guard: s.rights.GuardRun(p, id), runID: runID}
	return t, t.Check()
}

// OpenRun returns the stream for all holders of tickets of the run. It does not check rights while it runs; the tickets
// do.
func (s *Watcher) OpenRun(ctx context.Context, t *Ticket) (control.Stream[live.Frame], error) {
	frames, err := s.hub.Watch(ctx, t.runID, nil, "")
	if err != nil {
		return nil, control.Translate(err)
	}
	return openStream{frames}, nil
}

// AdmitRuns returns a ticket for a page of runs. Tickets of one class belong to one tenant, see the same projects and
// environments, and ask for the same page. Errors: BAD_USER_INPUT, FORBIDDEN.
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

// classOf returns the class of a list: every part of the filter that selects its runs. It returns an error when a time
// of the filter is outside the years 0 to 9999.
func classOf(f control.RunFilter) (authz.Class, error) {
	class, err := json.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("control: class of a list: %w", err)
	}
	return authz.Class(class), nil
}

// openStream translates the errors of a hub's stream.
type openStream struct{ frames *live.Stream }

func (o openStream) Next(ctx context.Context) (live.Frame, error) {
	f, err := o.frames.Next(ctx)
	return f, control.Translate(err)
}

func (o openStream) Close() { o.frames.Close() }
