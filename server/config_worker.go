package server

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/plan"
)

// Bounds of what the settings of a worker may say.
const (
	maxSlots         = 1000
	maxRate          = 10_000
	minQueueRate     = 0.1
	maxTenantShares  = 1000
	everyOtherTenant = "*"
	minRequests      = 60
	maxRequests      = 1_000_000
)

// verifyWorker names what is wrong with the settings of a worker.
func (c *Config) verifyWorker() (errs []error) {
	if c.Concurrency < 1 || c.Concurrency > maxSlots {
		errs = append(errs, fmt.Errorf("concurrency must be between 1 and %d", maxSlots))
	}
	if _, err := c.limits(); err != nil {
		errs = append(errs, err)
	}
	if err := c.verifyMetricsListen(); err != nil {
		errs = append(errs, err)
	}
	for name, n := range map[string]int{
		"requests-per-minute": c.RequestsPerMinute, "address-requests-per-minute": c.AddressRequestsPerMinute,
	} {
		if n < minRequests || n > maxRequests {
			errs = append(errs, fmt.Errorf("%s must be between %d and %d, not %d", name, minRequests, maxRequests, n))
		}
	}
	return errs
}

// limits reads what bounds a worker. It names everything that is wrong.
func (c *Config) limits() (l temporal.Limits, err error) {
	var errs []error
	slots, err := byType("slots-by-type", c.SlotsByType, 1, maxSlots)
	errs = append(errs, err)
	l.Slots = map[plan.Workload]int{}
	for w, n := range slots {
		if n != math.Trunc(n) {
			errs = append(errs, fmt.Errorf("slots-by-type: %s needs a whole number", w))
		}
		l.Slots[w] = int(n)
	}
	l.Rates, err = byType("rate-by-type", c.RateByType, temporal.MinRate, maxRate)
	errs = append(errs, err)
	l.QueueRates, err = byType("queue-rate-by-type", c.QueueRateByType, minQueueRate, maxRate)
	errs = append(errs, err)
	l.TenantShare, l.TenantShares, err = tenantShares(c.SlotsByTenant)
	return l, errors.Join(append(errs, err)...)
}

// byType reads TYPE=N of a setting, with N from least to most.
func byType(setting string, list []string, least, most float64) (map[plan.Workload]float64, error) {
	var errs []error
	out := map[plan.Workload]float64{}
	for _, entry := range list {
		name, value, found := strings.Cut(strings.TrimSpace(entry), "=")
		w := plan.Workload(name)
		n, err := strconv.ParseFloat(value, 64)
		_, twice := out[w]
		switch {
		case !found:
			errs = append(errs, fmt.Errorf("%s: %q must look like HTTP_NOTIFY=20", setting, entry))
		case !slices.Contains(plan.Workloads(), w):
			errs = append(errs, fmt.Errorf("%s: %q is not one of NOOP, COMMAND, DBT and HTTP_NOTIFY, "+
				"of which DBT is DBT_COMPILE, DBT_RUN and DBT_TEST together", setting, name))
		case twice:
			errs = append(errs, fmt.Errorf("%s: %s is there twice", setting, name))
		case err != nil || !(n >= least && n <= most):
			errs = append(errs, fmt.Errorf("%s: %s must be between %v and %v, not %q", setting, name, least, most, value))
		default:
			out[w] = n
		}
	}
	return out, errors.Join(errs...)
}

// tenantShares reads TENANT=N%.
func tenantShares(list []string) (others int, of map[string]int, err error) {
	var errs []error
	of = map[string]int{}
	if len(list) > maxTenantShares {
		errs = append(errs, fmt.Errorf("slots-by-tenant: at most %d tenants", maxTenantShares))
	}
	for _, entry := range list {
		tenant, value, _ := strings.Cut(strings.TrimSpace(entry), "=")
		value, percent := strings.CutSuffix(value, "%")
		n, err := strconv.Atoi(value)
		_, twice := of[tenant]
		switch {
		case tenant != everyOtherTenant && !plan.IsID(tenant):
			errs = append(errs, fmt.Errorf("slots-by-tenant: %q must look like acme=50%%, "+
				"with the id of a tenant or * for every other one", entry))
		case twice || tenant == everyOtherTenant && others > 0:
			errs = append(errs, fmt.Errorf("slots-by-tenant: %s is there twice", tenant))
		case err != nil || !percent || n < 1 || n > 100:
			errs = append(errs, fmt.Errorf("slots-by-tenant: the share of %s must be from 1%% to 100%%, not %q", tenant, entry))
		case tenant == everyOtherTenant:
			others = n
		default:
			of[tenant] = n
		}
	}
	return others, of, errors.Join(errs...)
}
