package admission

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Modes knows in which mode dvt is and which tenants are frozen. It does no I/O. It is safe for concurrent use.
type Modes struct {
	Breaker    *Breaker
	gate       PublishGate
	Waker      *Waker
	leaseBatch int
	log        *slog.Logger
	State      *modeState
}

// NewModes makes a Modes.
func NewModes(breaker *Breaker, gate PublishGate, waker *Waker, leaseBatch int, log *slog.Logger) *Modes {
	return &Modes{Breaker: breaker, gate: gate, Waker: waker, leaseBatch: leaseBatch, log: log, State: newModeState()}
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
	Mode EngineMode
	ruled
	Frozen map[string]ruled // by tenant
}

// modesOf reads the newest version of each setting. One that cannot be read is of a later
// program: it lets nothing new start.
func (s *Modes) modesOf(settings []store.StoredSetting) *modes {
	out := &modes{Mode: ModeNormal, Frozen: map[string]ruled{}}
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
			out.Mode, out.ruled = doc.Mode, why
		case store.SettingFreeze:
			var doc freezeDocument
			if err := json.Unmarshal(st.Doc, &doc); err != nil {
				unreadable(st)
				doc.Frozen = true
			}
			if doc.Frozen {
				out.Frozen[st.TenantID] = why
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
	return &modeState{now: &modes{Mode: ModeNormal}, changed: make(chan struct{})}
}

func (r *modeState) Current() *modes {
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

// Set puts next in force, nil for what there is, and wakes who waits on moved.
func (r *modeState) Set(next *modes) {
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
	case next.Mode == ModeReadOnly:
		s.gate.Hold()
	default:
		s.gate.Release()
	}
	was := s.State.Current().Mode
	s.State.Set(next)
	if was != next.Mode {
		s.log.Warn("the engine's mode has changed", slog.String("mode", string(next.Mode)),
			slog.String("was", string(was)), slog.String("reason", next.reason))
	}
	control.Wake(s.Waker.Starts) // what was held may start
}

// CheckAdmits is nil when a run of the tenant may be asked for now, else why not. It does no I/O.
func (s *Modes) CheckAdmits(tenantID string) *control.Error {
	now := s.State.Current()
	frozen, isFrozen := now.Frozen[tenantID]
	wait, slow := s.Breaker.refuses()
	switch {
	case now.Mode == ModeReadOnly:
		return control.Later(control.Refuse(
			run.CodeEngineReadOnly, "dvt is read-only: nothing new starts until its operators lift that. What runs goes on.%s",
			because(now.reason)), modeRetry)
	case now.Mode == ModeDrained:
		return control.Later(control.Refuse(
			run.CodeEngineDraining, "dvt is being drained: nothing new starts here. What runs goes on to its end.%s",
			because(now.reason)), modeRetry)
	case isFrozen:
		return control.Refuse(run.CodeTenantFrozen, "The tenant is frozen: nothing new starts. What runs goes on.%s",
			because(frozen.reason))
	case slow:
		return control.Later(control.Refuse(
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

// isHolding reports whether what waits in the queue of the tenant goes on waiting. It does no I/O.
func (s *Modes) isHolding(tenantID string) bool {
	now := s.State.Current()
	_, frozen := now.Frozen[tenantID]
	return frozen || now.Mode != ModeNormal
}

// LeaseSize is how many starts a reconciler may lease now: none in a mode that starts
// nothing, and one now and then while the engine is slow (T135).
func (s *Modes) LeaseSize() int {
	if s.State.Current().Mode != ModeNormal {
		return 0
	}
	return s.Breaker.allows(s.leaseBatch)
}

// StartsNothing reports whether starts that wait are meant to.
func (s *Modes) StartsNothing() bool {
	_, _, open := s.Breaker.Seen()
	return open || s.State.Current().Mode != ModeNormal
}

// FrozenPause is after how long a start of a frozen tenant is looked at again.
const FrozenPause = 5 * time.Second
