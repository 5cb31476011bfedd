// Package health checks and measures what dvt depends on: the store, the engine, the bus, artifacts, workers and
// pollers.
package health

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Health is the state of the dependencies of dvt (contract T136).
type Health struct {
	Status string // HEALTHY, DEGRADED or UNHEALTHY
	Checks []HealthCheck
}

// HealthCheck is the result of one check.
type HealthCheck struct {
	Name, Status, Message string
	Latency               time.Duration
	Unused                bool // this installation has no such part
	// Providers are the systems behind the check secretsProvider, by name; none for other checks.
	Providers []ProviderState
}

// EngineProbe checks whether the engine answers.
type EngineProbe struct {
	Engine engine.Engine
	// Trouble returns a sentence that says why the engine does not answer, or "". It is called only while the engine
	// does not answer; may be nil.
	Trouble func() string
}

// HealthStore checks whether the store answers and accepts writes.
type HealthStore interface {
	Ping(ctx context.Context) error
	CheckWritable(ctx context.Context) error
}

// Checks checks the dependencies of dvt. It is safe for concurrent use.
type Checks struct {
	store      *storeView
	logs       artifact.Logs
	bus        live.Bus
	engine     *EngineProbe
	modes      *admission.Modes
	background *control.Background
}

// NewChecks makes Checks.
func NewChecks(store HealthStore, reports SecretsStore, logs artifact.Logs, bus live.Bus, engine *EngineProbe,
	modes *admission.Modes, background *control.Background) *Checks {
	return &Checks{store: &storeView{HealthStore: store, reports: reports}, logs: logs, bus: bus, engine: engine,
		modes: modes, background: background}
}

// StandbyPrefix begins the message of the check of the store on a standby.
const StandbyPrefix = "STANDBY: "

// SetStandby says that this site is a standby: the store need not take writes, and the health is DEGRADED with the
// message, which begins with StandbyPrefix. Call it before the first check.
func (s *Checks) SetStandby(message func() string) { s.store.standby = message }

// BacklogStore counts unpublished and active runs.
type BacklogStore interface {
	Ping(ctx context.Context) error
	Dirty(ctx context.Context, minAge time.Duration, limit int) ([]store.DirtyRun, error)
	ActiveRuns(ctx context.Context) (int64, error)
}

// Reports returns the health of this server. It is safe for concurrent use.
type Reports struct {
	rights *control.Rights
	store  BacklogStore
	checks *Checks
	health sample[Health]
	ready  sample[bool]
}

// NewReports makes Reports.
func NewReports(rights *control.Rights, store BacklogStore, checks *Checks) *Reports {
	return &Reports{rights: rights, store: store, checks: checks}
}

// healthTimeout limits the duration of one check.
const healthTimeout = 2 * time.Second

// Health runs the five checks concurrently (contract H01). The result is UNHEALTHY without the store. It is DEGRADED
// when another check fails or while the engine starts runs too slowly (contract T136). It takes at most about
// healthTimeout.
func (s *Checks) Health(ctx context.Context) Health {
	checks := []struct {
		name string
		look func(context.Context) (down string) // a sentence about what is wrong; "" when nothing is
	}{
		{CheckTemporal, s.checkEngine},
		{CheckStore, s.checkStore},
		{CheckSecrets, func(ctx context.Context) string {
			return secretsTrouble(s.store.providers(ctx, s.background.Now()))
		}},
		{CheckArtifacts, func(ctx context.Context) string {
			_, err := s.logs.Read(ctx, artifact.AttemptID{TenantID: "dvt", RunID: "health", StepID: "health",
				LogicalAttempt: 1}, 1, 1)
			if err == nil {
				err = s.logs.CheckWritable(ctx)
			}
			return messageUnless(err == nil, "Logs and artifacts cannot be read or stored.")
		}},
		{CheckBus, func(context.Context) string {
			return messageUnless(s.bus.Up(), "The bus is down: viewers poll the store and stay LIVE.")
		}},
	}
	out := Health{Status: "HEALTHY", Checks: make([]HealthCheck, len(checks))}
	var wg sync.WaitGroup
	for i, c := range checks {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, healthTimeout)
			defer cancel()
			began := s.background.Now()
			h := HealthCheck{Name: c.name, Status: "HEALTHY"}
			panicked := s.background.Panics.Call(control.DutyHealth, c.name, func() error {
				h.Message = c.look(ctx)
				return nil
			})
			if panicked != nil {
				h.Message = "The check itself panicked; the log of the server has the stack."
			}
			if h.Message != "" {
				h.Status = "UNHEALTHY"
			} else if c.name != CheckSecrets { // what does not answer has no time in which it answers
				h.Latency = s.background.Now().Sub(began)
			}
			out.Checks[i] = h
		})
	}
	wg.Wait()
	for i := range out.Checks {
		c := &out.Checks[i]
		_, _, slow := s.modes.Breaker.Stats()
		switch {
		case c.Name == CheckStore && strings.HasPrefix(c.Message, StandbyPrefix):
			c.Status = "DEGRADED"
		case c.Name == CheckSecrets:
			c.complete(s.store.providers(ctx, s.background.Now()))
		case c.Name == CheckTemporal && c.Status == "HEALTHY" && slow:
			c.Status, c.Message = "DEGRADED", "The engine starts runs too slowly: new ones are refused until a probe succeeds."
		}
		switch {
		case c.Status == "HEALTHY":
		case c.Name == CheckStore && c.Status == "UNHEALTHY":
			out.Status = "UNHEALTHY"
		case out.Status == "HEALTHY":
			out.Status = "DEGRADED"
		}
	}
	return out
}

func messageUnless(well bool, sentence string) string {
	if well {
		return ""
	}
	return sentence
}

func (s *Checks) checkEngine(ctx context.Context) string {
	if s.engine.Answers(ctx) == nil {
		return ""
	}
	trouble := "The engine does not answer."
	if s.engine.Trouble != nil {
		trouble = cmp.Or(s.engine.Trouble(), trouble)
	}
	trouble += " Signals stay accepted, runs wait in the queue."
	if _, _, open := s.modes.Breaker.Stats(); open {
		trouble += " New runs are refused until a probe succeeds."
	}
	return trouble
}

func (s *Checks) checkStore(ctx context.Context) string {
	if s.store.Ping(ctx) != nil {
		return "The store does not answer: nothing can be changed, views are STALE."
	}
	if s.store.standby != nil {
		return s.store.standby()
	}
	return messageUnless(s.store.CheckWritable(ctx) == nil,
		"The store can be read but not written: nothing can be changed, and running runs make no progress. Check its "+
			"disk and its permissions.")
}

// Names of the checks (contract H01).
const (
	CheckTemporal  = "temporal"
	CheckStore     = "stateStore"
	CheckSecrets   = "secretsProvider"
	CheckArtifacts = "artifactStore"
	CheckBus       = "eventBus"
)

// DetailedHealth is Health with more facts for operators.
type DetailedHealth struct {
	Health
	Mode         admission.EngineMode
	StartP95     time.Duration // of the starts by this process in the last minute
	StartSamples int           // number of those starts
	BreakerOpen  bool          // this process refuses new runs because the engine is slow
	Backlog      int           // runs with unpublished events, at most backlogLimit
	ActiveRuns   int64         // of the whole installation
}

const backlogLimit = 1000

// DetailedHealth returns the health with more facts. The caller needs the action DEBUG on the whole tenant of the
// operators, or on its own whole tenant when there is no operators' tenant (contract T136). Error: FORBIDDEN.
func (s *Reports) DetailedHealth(ctx context.Context, p authz.Principal) (DetailedHealth, error) {
	if err := s.rights.MaySeeInstallation(ctx, p); err != nil {
		return DetailedHealth{}, err
	}
	out := DetailedHealth{Health: s.SampledHealth(ctx), Mode: s.checks.modes.State.Current().Mode}
	out.StartP95, out.StartSamples, out.BreakerOpen = s.checks.modes.Breaker.Stats()
	if out.Status == "UNHEALTHY" {
		return out, nil // the other facts need the store
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	dirty, err := s.store.Dirty(ctx, 0, backlogLimit)
	if err != nil {
		return DetailedHealth{}, control.Translate(err)
	}
	out.Backlog = len(dirty)
	out.ActiveRuns, err = s.store.ActiveRuns(ctx)
	return out, control.Translate(err)
}

// Answers returns nil when the engine answers. It asks about a run that cannot exist; "not started" is a good answer.
func (s *EngineProbe) Answers(ctx context.Context) error {
	_, err := s.Engine.Describe(ctx, run.Identity{TenantID: "dvt", RunID: "health"})
	if errors.Is(err, engine.ErrNotStarted) {
		return nil
	}
	return err
}
