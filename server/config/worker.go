package config

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

// Allowed range of the settings of a worker.
const (
	maxSlots         = 1000
	maxRate          = 10_000
	minQueueRate     = 0.1
	maxTenantShares  = 1000
	everyOtherTenant = "*"
	minRequests      = 60
	maxRequests      = 1_000_000
)

// verifyWorker returns all errors in the settings of a worker.
func (c *Config) verifyWorker() (errs []error) {
	if c.Concurrency < 1 || c.Concurrency > maxSlots {
		errs = append(errs, fmt.Errorf("concurrency must be between 1 and %d", maxSlots))
	}
	if _, err := c.Limits(); err != nil {
		errs = append(errs, err)
	}
	if err := c.verifyMetricsListen(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, c.verifyQueueSuffixes()...)
	for name, n := range map[string]int{
		"requests-per-minute": c.RequestsPerMinute, "address-requests-per-minute": c.AddressRequestsPerMinute,
	} {
		if n < minRequests || n > maxRequests {
			errs = append(errs, fmt.Errorf("%s must be between %d and %d, not %d", name, minRequests, maxRequests, n))
		}
	}
	return errs
}

// verifyQueueSuffixes returns an error for each data queue whose name ends like the task queue of a workload in
// Temporal. A worker of such a queue would take steps of another queue, which it cannot begin.
func (c *Config) verifyQueueSuffixes() (errs []error) {
	check := func(key string, queues ...string) {
		for _, queue := range queues {
			for _, w := range plan.WorkloadsOf(queue) {
				suffix := w.TaskQueue("")
				if name, found := strings.CutSuffix(queue, suffix); found && suffix != "" {
					errs = append(errs, fmt.Errorf(
						"%s: %s must not end in %s, which dvt adds to the name of a data queue in Temporal "+
							"for its %s steps; name the queue %s, whose workers serve these steps too", key, queue, suffix, w, name))
				}
			}
		}
	}
	check("queues", c.Queues...)
	check("data-queue", c.DataQueue)
	check("known-queues", c.KnownQueues...)
	if len(c.IsolationTenants) > 0 {
		check("isolation-queue", c.IsolationQueue)
	}
	return errs
}

// Limits parses the limits of a worker. Its error joins all errors in these settings.
func (c *Config) Limits() (l temporal.Limits, err error) {
	var errs []error
	slots, err := parseByType("slots-by-type", c.SlotsByType, 1, maxSlots)
	errs = append(errs, err)
	l.Slots = map[plan.Workload]int{}
	for w, n := range slots {
		if n != math.Trunc(n) {
			errs = append(errs, fmt.Errorf("slots-by-type: %s needs a whole number", w))
		}
		l.Slots[w] = int(n)
	}
	l.Rates, err = parseByType("rate-by-type", c.RateByType, temporal.MinRate, maxRate)
	errs = append(errs, err)
	l.QueueRates, err = parseByType("queue-rate-by-type", c.QueueRateByType, minQueueRate, maxRate)
	errs = append(errs, err)
	l.TenantShare, l.TenantShares, err = parseTenantShares(c.SlotsByTenant)
	return l, errors.Join(append(errs, err)...)
}

// parseByType parses a list of TYPE=N, with N from least to most. Its error joins all errors in the list.
func parseByType(setting string, list []string, least, most float64) (map[plan.Workload]float64, error) {
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
				"where DBT covers DBT_COMPILE, DBT_RUN and DBT_TEST", setting, name))
		case twice:
			errs = append(errs, fmt.Errorf("%s: %s is given twice", setting, name))
		case err != nil || !(n >= least && n <= most):
			errs = append(errs, fmt.Errorf("%s: %s must be between %v and %v, not %q", setting, name, least, most, value))
		default:
			out[w] = n
		}
	}
	return out, errors.Join(errs...)
}

// parseTenantShares parses a list of TENANT=N%. others is the share of "*", or 0 without one.
func parseTenantShares(list []string) (others int, of map[string]int, err error) {
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
			errs = append(errs, fmt.Errorf("slots-by-tenant: %s is given twice", tenant))
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
