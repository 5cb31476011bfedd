package retention

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const (
	// policyAge is how long Expiries follow a policy that was replaced.
	policyAge     = 10 * time.Second
	maxKnownRules = 1024 // policies of tenants in memory
)

// ExpiryStore has the policies of tenants, and knows which runs a hold keeps.
type ExpiryStore interface {
	SettingHistory(ctx context.Context, kind store.SettingKind, tenantID string, before int64,
		limit int) ([]store.StoredSetting, error)
	ArchiveObstacle(ctx context.Context, runID string) (store.ArchiveObstacle, error)
}

// Expiries tells when artifacts expire. It follows a change of a policy within ten seconds. It is safe for concurrent
// use.
type Expiries struct {
	store     ExpiryStore
	installed Installation
	now       func() time.Time
	known     *lru.Cache[string, knownDays] // by tenant
}

type knownDays struct {
	days Days
	at   time.Time
}

// NewExpiries makes Expiries.
func NewExpiries(s ExpiryStore, installed Installation, now func() time.Time) *Expiries {
	return &Expiries{store: s, installed: installed, now: now, known: control.NewLRU[knownDays](maxKnownRules)}
}

// days returns the effective values for a tenant. While the store does not answer, the last known ones count.
func (e *Expiries) days(ctx context.Context, tenantID string) (Days, error) {
	known, ok := e.known.Get(tenantID)
	if ok && e.now().Sub(known.at).Abs() < policyAge {
		return known.days, nil
	}
	rows, err := e.store.SettingHistory(ctx, store.SettingRetention, tenantID, 0, 1)
	if err != nil && ok {
		return known.days, nil
	}
	if err != nil {
		return Days{}, err
	}
	doc := Document{}
	if len(rows) > 0 {
		if err := json.Unmarshal(rows[0].Doc, &doc); err != nil {
			return Days{}, fmt.Errorf("control: version %d of the retention policy of tenant %s: %w", rows[0].Version, tenantID, err)
		}
	}
	days := e.installed.effective(doc)
	e.known.Add(tenantID, knownDays{days, e.now()})
	return days, nil
}

// OfWritten returns when an artifact expires that a run of the tenant writes at a time, or nil when it is kept for
// ever.
func (e *Expiries) OfWritten(ctx context.Context, tenantID string, kind run.ArtifactKind, at time.Time) (*time.Time,
	error) {
	days, err := e.days(ctx, tenantID)
	n := days.Artifacts[kindOf(kind)]
	if err != nil || n <= 0 {
		return nil, err
	}
	return new(at.UTC().AddDate(0, 0, n)), nil
}

// Effective returns the artifacts of a run with the times at which they expire now: the earlier of the one that was
// set when the artifact was written and the one of today's policy, which counts from the end of the run. So a policy
// can shorten a time, and it never extends one. A hold keeps artifacts: those of runs that it covers have no end while
// it lasts.
func (e *Expiries) Effective(ctx context.Context, state *run.State, refs []run.ArtifactRef) ([]run.ArtifactRef, error) {
	if len(refs) == 0 {
		return refs, nil
	}
	days, err := e.days(ctx, state.TenantID)
	if err != nil {
		return nil, err
	}
	out, expired := slices.Clone(refs), false
	for i, ref := range out {
		out[i].ExpiresAt = expiryOf(ref, state.CompletedAt, days)
		expired = expired || isExpired(out[i], e.now())
	}
	if !expired {
		return out, nil
	}
	obstacle, err := e.store.ArchiveObstacle(ctx, state.RunID)
	if err != nil {
		return nil, err
	}
	for i := range out {
		if obstacle == store.ObstacleHeld && isExpired(out[i], e.now()) {
			out[i].ExpiresAt = nil
		}
	}
	return out, nil
}

// expiryOf returns when an artifact expires under a policy, or nil.
func expiryOf(ref run.ArtifactRef, ended *time.Time, days Days) *time.Time {
	n := days.Artifacts[kindOf(ref.Kind)]
	if n <= 0 || ended == nil {
		return ref.ExpiresAt
	}
	if at := ended.UTC().AddDate(0, 0, n); ref.ExpiresAt == nil || at.Before(*ref.ExpiresAt) {
		return &at
	}
	return ref.ExpiresAt
}

func isExpired(ref run.ArtifactRef, now time.Time) bool {
	return ref.ExpiresAt != nil && !now.Before(*ref.ExpiresAt)
}
