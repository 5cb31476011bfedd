package controltest

import (
	"time"

	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// HobbyQuotas returns the quotas of the seed with acme in the tier hobby.
func HobbyQuotas(change ...func(*admission.Quotas)) *admission.Quotas {
	q := &admission.Quotas{
		Tiers: map[string]admission.Tier{
			admission.DefaultTier: {StartRunPerMinute: 10, HeavyStepsPerMinute: 5, SignalOpsPerMinute: 100, MaxActive: 1000,
				MaxQueueDepth: 100, Weight: 1},
			"hobby": {StartRunPerMinute: 2, HeavyStepsPerMinute: 1, SignalOpsPerMinute: 20, MaxActive: 1000,
				MaxQueueDepth: 100, Weight: 1},
		},
		Tenants: map[string]string{"acme": "hobby"}, MaxActive: 10_000, Strategy: store.StrategyQueue, TTL: 5 * time.Minute,
	}
	for _, f := range change {
		f(q)
	}
	return q
}

// WithQuotas sets the quotas of the world.
func WithQuotas(q *admission.Quotas) func(*usecases.Config) {
	return func(c *usecases.Config) { c.Quotas = q }
}
