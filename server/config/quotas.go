package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/store"
)

// defaultQuotas returns the default quotas. In `dvt dev` the default tier is so large that it does not limit a
// developer.
func defaultQuotas(dev bool) *admission.Quotas {
	tier := func(starts, heavy, signals, depth int) admission.Tier {
		return admission.Tier{
			StartRunPerMinute: starts, HeavyStepsPerMinute: heavy, SignalOpsPerMinute: signals, MaxActive: 1_000,
			MaxQueueDepth: depth, Weight: 1,
		}
	}
	q := &admission.Quotas{
		Tiers: map[string]admission.Tier{
			admission.DefaultTier: tier(10, 5, 100, 100), "enterprise": tier(100, 50, 1_000, 100), "hobby": tier(2, 1, 20, 100),
		},
		MaxActive: 10_000, Strategy: store.StrategyQueue, TTL: 5 * time.Minute,
	}
	if dev {
		q.Tiers[admission.DefaultTier] = tier(6_000, 600, 6_000, 1_000)
	}
	return q
}

// quotas decodes the setting quotas over the defaults. A tier inherits missing fields from the default of the same
// name, or else from the tier admission.DefaultTier. An unknown key is an error.
func quotas(setting any, dev bool) (*admission.Quotas, error) {
	q := defaultQuotas(dev)
	if setting == nil {
		return q, nil
	}
	in := struct {
		Tiers     map[string]json.RawMessage       `json:"tiers"`
		Tenants   map[string]string                `json:"tenants"`
		Projects  map[string]admission.QuotaLimits `json:"projects"`
		MaxActive int                              `json:"maxActive"`
		Strategy  store.Strategy                   `json:"strategy"`
		TTL       string                           `json:"ttl"`
	}{MaxActive: q.MaxActive, Strategy: q.Strategy, TTL: q.TTL.String()}
	if err := strict(setting, &in); err != nil {
		return q, fmt.Errorf("quotas: %w", err)
	}
	var errs []error
	var err error
	if q.TTL, err = time.ParseDuration(in.TTL); err != nil {
		errs = append(errs, fmt.Errorf("quotas: ttl must look like 5m, not %q", in.TTL))
	}
	q.Tenants, q.Projects, q.MaxActive, q.Strategy = in.Tenants, in.Projects, in.MaxActive, in.Strategy
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(in.Tiers)),
		func(name string) bool { return name == admission.DefaultTier })
	for _, name := range append([]string{admission.DefaultTier}, others...) {
		tier, ok := in.Tiers[name]
		if !ok {
			continue
		}
		t, known := q.Tiers[name]
		if !known {
			t = q.Tiers[admission.DefaultTier]
		}
		if err := strict(tier, &t); err != nil {
			errs = append(errs, fmt.Errorf("quotas: tiers.%s: %w", name, err))
		}
		q.Tiers[name] = t
	}
	if len(errs) == 0 {
		if err := q.Check(); err != nil {
			errs = append(errs, fmt.Errorf("quotas: %w", err))
		}
	}
	return q, errors.Join(errs...)
}

// strict decodes setting, a value of a YAML file, into v. A key without a field in v is an error.
func strict(setting, v any) error {
	doc, err := json.Marshal(setting)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	return d.Decode(v)
}
