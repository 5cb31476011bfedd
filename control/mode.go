package control

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Modes knows in which mode dvt is and which tenants are frozen. It does no I/O. It is safe for concurrent use.
type Modes struct {
	breaker    *startBreaker
	gate       PublishGate
	waker      *Waker
	leaseBatch int
	log        *slog.Logger
	state      *modeState
}

// NewModes makes a Modes.
func NewModes(breaker *startBreaker, gate PublishGate, waker *Waker, leaseBatch int, log *slog.Logger) *Modes {
	return &Modes{breaker: breaker, gate: gate, waker: waker, leaseBatch: leaseBatch, log: log, state: newModeState()}
}

// EngineMode says what the whole installation takes on (§17.1).
type EngineMode string

// Engine modes. What runs goes on in each of them, and takes signals.
const (
	ModeNormal EngineMode = "NORMAL"
	// ModeReadOnly starts nothing and publishes nothing: viewers read the store (T169).
	ModeReadOnly EngineMode = "READ_ONLY"
	// ModeDrained starts nothing: what runs ends, and then the installation may be stopped.
	ModeDrained EngineMode = "DRAINED"
)

// PublishGate halts and resumes the publication of committed events. Its methods do not wait; repeated calls change
// nothing.
type PublishGate interface {
	Hold()
	Release()
}

// The documents of the settings.
type (
	modeDocument struct {
		Mode EngineMode `json:"mode"`
	}
	freezeDocument struct {
		Frozen bool `json:"frozen"`
	}
)

// ruled is a mode or a freeze that holds, and why.
type ruled struct {
	reason string
	since  time.Time
}

// modes is what holds now in this process. One is never changed.
type modes struct {
	mode EngineMode
	ruled
	frozen map[string]ruled // by tenant
}

// modesOf reads the newest version of each setting. One that cannot be read is of a later
// program: it lets nothing new start.
func (s *Modes) modesOf(settings []store.StoredSetting) *modes {
	out := &modes{mode: ModeNormal, frozen: map[string]ruled{}}
	unreadable := func(st store.StoredSetting) {
		s.log.Error("a setting cannot be read: nothing new starts where it holds",
			slog.String("kind", string(st.Kind)), slog.String("tenant", st.TenantID), slog.Int64("version", st.Version))
	}
	for _, st := range settings {
		why := ruled{st.Reason, st.At}
		switch st.Kind {
		case store.SettingMode:
			var doc modeDocument
			if err := json.Unmarshal(st.Doc, &doc); err != nil || !doc.Mode.known() {
				unreadable(st)
				doc.Mode = ModeDrained
			}
			out.mode, out.ruled = doc.Mode, why
		case store.SettingFreeze:
			var doc freezeDocument
			if err := json.Unmarshal(st.Doc, &doc); err != nil {
				unreadable(st)
				doc.Frozen = true
			}
			if doc.Frozen {
				out.frozen[st.TenantID] = why
			}
		}
	}
	return out
}

func (m EngineMode) known() bool { return m == ModeNormal || m == ModeReadOnly || m == ModeDrained }

// modeState is what holds now and says when that changes.
type modeState struct {
	mu      sync.Mutex
	now     *modes
	changed chan struct{}
}

func newModeState() *modeState {
	return &modeState{now: &modes{mode: ModeNormal}, changed: make(chan struct{})}
}

func (r *modeState) current() *modes {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// moved is closed when what ServiceState says may have changed since the call.
func (r *modeState) moved() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// set puts next in force, nil for what there is, and wakes who waits on moved.
func (r *modeState) set(next *modes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if next != nil {
		r.now = next
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// LoadSettings puts the settings in force here (T169).
func (s *Modes) LoadSettings(_ context.Context, settings []store.StoredSetting) {
	next := s.modesOf(settings)
	switch {
	case s.gate == nil:
	case next.mode == ModeReadOnly:
		s.gate.Hold()
	default:
		s.gate.Release()
	}
	was := s.state.current().mode
	s.state.set(next)
	if was != next.mode {
		s.log.Warn("the engine's mode has changed", slog.String("mode", string(next.mode)),
			slog.String("was", string(was)), slog.String("reason", next.reason))
	}
	wake(s.waker.starts) // what was held may start
}

// admitting is nil when a run of the tenant may be asked for now, else why not. It does no I/O.
func (s *Modes) admitting(tenantID string) *Error {
	now := s.state.current()
	frozen, isFrozen := now.frozen[tenantID]
	wait, slow := s.breaker.refuses()
	switch {
	case now.mode == ModeReadOnly:
		return later(refuse(
			run.CodeEngineReadOnly, "dvt is read-only: nothing new starts until its operators lift that. What runs goes on.%s",
			because(now.reason)), modeRetry)
	case now.mode == ModeDrained:
		return later(refuse(
			run.CodeEngineDraining, "dvt is being drained: nothing new starts here. What runs goes on to its end.%s",
			because(now.reason)), modeRetry)
	case isFrozen:
		return refuse(run.CodeTenantFrozen, "The tenant is frozen: nothing new starts. What runs goes on.%s",
			because(frozen.reason))
	case slow:
		return later(refuse(
			run.CodeEngineDegraded, "The engine starts runs too slowly for new ones. It is tried again every few seconds."),
			wait)
	}
	return nil
}

// modeRetry is after how long a start is worth another try in a mode that people set.
const modeRetry = 30 * time.Second

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " Reason: " + reason
}

// holding reports whether what waits in the queue of the tenant goes on waiting. It does no I/O.
func (s *Modes) holding(tenantID string) bool {
	now := s.state.current()
	_, frozen := now.frozen[tenantID]
	return frozen || now.mode != ModeNormal
}

// leasing is how many starts a reconciler may lease now: none in a mode that starts
// nothing, and one now and then while the engine is slow (T135).
func (s *Modes) leasing() int {
	if s.state.current().mode != ModeNormal {
		return 0
	}
	return s.breaker.allows(s.leaseBatch)
}

// startsNothing reports whether starts that wait are meant to.
func (s *Modes) startsNothing() bool {
	_, _, open := s.breaker.seen()
	return open || s.state.current().mode != ModeNormal
}

// frozenPause is after how long a start of a frozen tenant is looked at again.
const frozenPause = 5 * time.Second
