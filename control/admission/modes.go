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

// Modes knows the mode of dvt and the frozen tenants. It does no I/O. It is safe for concurrent use.
type Modes struct {
	Breaker    *Breaker
	gate       PublishGate
	Waker      *Waker
	leaseBatch int
	log        *slog.Logger
	State      *modeState
	// Installed is the recovery of the installation; "" is RecoveryOff.
	Installed RecoveryMode
}

// NewModes makes Modes.
func NewModes(breaker *Breaker, gate PublishGate, waker *Waker, leaseBatch int, log *slog.Logger) *Modes {
	return &Modes{Breaker: breaker, gate: gate, Waker: waker, leaseBatch: leaseBatch, log: log, State: newModeState()}
}

// EngineMode is the mode of the whole installation.
type EngineMode string

// Engine modes. In each of them running runs go on and take signals.
const (
	ModeNormal EngineMode = "NORMAL"
	// ModeReadOnly starts nothing and publishes nothing: viewers read the store (contract T169).
	ModeReadOnly EngineMode = "READ_ONLY"
	// ModeDrained starts nothing. When the running runs have ended, the installation can be stopped.
	ModeDrained EngineMode = "DRAINED"
)

// PublishGate halts and resumes the publication of committed events. Its methods do not wait; repeated calls change
// nothing.
type PublishGate interface {
	Hold()
	Release()
}

// JSON documents of the settings.
type (
	modeDocument struct {
		Mode EngineMode `json:"mode"`
	}
	freezeDocument struct {
		Frozen bool `json:"frozen"`
	}
)

// modeReason is a mode or a freeze that is in force, with its reason.
type modeReason struct {
	reason string
	since  time.Time
}

// modes is the current state of this process. It is immutable.
type modes struct {
	Mode EngineMode
	modeReason
	Frozen map[string]modeReason // by tenant
	thawed map[string]time.Time  // end of the newest freeze, by tenant
	share  map[string]ShareRule  // by tenant
	// recovery has the modes of tenants that lowered it.
	recovery map[string]RecoveryMode
}

// modesOf decodes the newest version of each setting. An unreadable setting was written by a later version of dvt; to
// be safe it starts nothing new.
func (s *Modes) modesOf(settings []store.StoredSetting) *modes {
	out := &modes{Mode: ModeNormal, Frozen: map[string]modeReason{}, thawed: map[string]time.Time{},
		share: map[string]ShareRule{}, recovery: map[string]RecoveryMode{}}
	unreadable := func(st store.StoredSetting) {
		s.log.Error("a setting cannot be read: nothing new starts where it applies",
			slog.String("kind", string(st.Kind)), slog.String("tenantId", st.TenantID), slog.Int64("version", st.Version))
	}
	for _, st := range settings {
		why := modeReason{st.Reason, st.At}
		switch st.Kind {
		case store.SettingMode:
			var doc modeDocument
			if err := json.Unmarshal(st.Doc, &doc); err != nil || !doc.Mode.known() {
				unreadable(st)
				doc.Mode = ModeDrained
			}
			out.Mode, out.modeReason = doc.Mode, why
		case store.SettingFreeze:
			var doc freezeDocument
			if err := json.Unmarshal(st.Doc, &doc); err != nil {
				unreadable(st)
				doc.Frozen = true
			}
			if doc.Frozen {
				out.Frozen[st.TenantID] = why
			} else {
				out.thawed[st.TenantID] = st.At
			}
		case store.SettingShare:
			rule, err := shareRuleOf(st)
			if err != nil {
				s.log.Error("the setting of share links cannot be read: they are off", slog.String("tenantId", st.TenantID),
					slog.Int64("version", st.Version))
			}
			out.share[st.TenantID] = rule
		case store.SettingRecovery:
			mode, err := recoveryOf(st)
			if err != nil {
				s.log.Error("the setting of the recovery cannot be read: it is off", slog.String("tenantId", st.TenantID),
					slog.Int64("version", st.Version))
			}
			out.recovery[st.TenantID] = mode
		}
	}
	return out
}

func (m EngineMode) known() bool { return m == ModeNormal || m == ModeReadOnly || m == ModeDrained }

// modeState holds the current modes and notifies of changes.
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

// moved returns a channel that is closed when the service state may have changed after the call.
func (r *modeState) moved() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// Set puts next in force and wakes those who wait on moved. With nil it only wakes them.
func (r *modeState) Set(next *modes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if next != nil {
		r.now = next
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// LoadSettings puts the settings in force in this process (contract T169).
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
	control.Wake(s.Waker.Starts) // runs that were held may start
}

// FollowBreakers takes the heartbeats of all processes, by which a process that starts no runs learns that those that
// do refuse new ones. Heartbeats older than fresh do not count. It does no I/O.
func (s *Modes) FollowBreakers(beats []store.Heartbeat, fresh time.Duration) {
	if s.Breaker.followPeers(beats, fresh) {
		s.State.Set(nil)
	}
}

// CheckAdmits returns nil when a new run of the tenant may be requested now, else the refusal. It does no I/O.
func (s *Modes) CheckAdmits(tenantID string) *control.Error {
	now := s.State.Current()
	frozen, isFrozen := now.Frozen[tenantID]
	wait, slow := s.Breaker.refuses()
	switch {
	case now.Mode == ModeReadOnly:
		return control.Later(control.Refuse(
			run.CodeEngineReadOnly,
			"dvt is read-only: nothing new starts until its operators lift that. Runs in progress continue.%s",
			because(now.reason)), modeRetry)
	case now.Mode == ModeDrained:
		return control.Later(control.Refuse(
			run.CodeEngineDraining, "dvt is being drained: nothing new starts here. Runs in progress continue to their end.%s",
			because(now.reason)), modeRetry)
	case isFrozen:
		return control.Refuse(run.CodeTenantFrozen, "The tenant is frozen: nothing new starts. Runs in progress continue.%s",
			because(frozen.reason))
	case slow && s.Breaker.Failing():
		return control.Later(control.Refuse(run.CodeEngineDegraded,
			"The engine does not answer, so new runs are refused. Runs that were accepted before wait in the queue. dvt "+
				"tries a start every few seconds."), wait)
	case slow:
		return control.Later(control.Refuse(
			run.CodeEngineDegraded,
			"The engine starts runs too slowly, so new runs are refused. dvt tries a start every few seconds."),
			wait)
	}
	return nil
}

// modeRetry is the RetryAfter of refusals in a mode that people set.
const modeRetry = 30 * time.Second

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " Reason: " + reason
}

// isHolding reports whether the waiting runs of the tenant must go on waiting. It does no I/O.
func (s *Modes) isHolding(tenantID string) bool {
	now := s.State.Current()
	_, frozen := now.Frozen[tenantID]
	return frozen || now.Mode != ModeNormal
}

// holdEnd returns when the newest hold of the tenant's waiting runs ended; zero when there was none. It is meaningful
// only while isHolding is false.
func (s *Modes) holdEnd(tenantID string) time.Time {
	now := s.State.Current()
	if ended := now.thawed[tenantID]; ended.After(now.since) {
		return ended
	}
	return now.since
}

// LeaseSize returns how many starts a dispatcher may lease now: none in a mode that starts nothing, and a probe now and
// then while the engine is slow (contract T135).
func (s *Modes) LeaseSize() int {
	if s.State.Current().Mode != ModeNormal {
		return 0
	}
	return s.Breaker.allows(s.leaseBatch)
}

// HoldsStarts reports whether pending starts wait on purpose, because of the mode or the open breaker.
func (s *Modes) HoldsStarts() bool {
	_, _, open := s.Breaker.Stats()
	return open || s.State.Current().Mode != ModeNormal
}

// FrozenPause is the time after which a start of a frozen tenant is tried again.
const FrozenPause = 5 * time.Second
