// Package namespaces decides in which Temporal namespace a run belongs, which namespaces a worker of a queue serves,
// and how long each namespace keeps closed executions. It is pure: it calls no server.
package namespaces

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Strategy assigns runs to namespaces. The zero value of all fields but Default puts every run into Default. It is
// immutable after Check and safe for concurrent use.
type Strategy struct {
	// Default is the namespace of the runs of environments that Environments does not name.
	Default string `json:"-"`
	// Environments gives the namespace of the runs of an environment. Several environments may share one.
	Environments map[string]string `json:"environments"`
	// Tiers gives the regulatory tier of a tenant, such as HIPAA.
	Tiers map[string]string `json:"tiers"`
	// Regulated gives the namespace of the runs of an environment whose tenant has a tier. No other run is started there.
	Regulated map[string]string `json:"regulated"`
	// Former are namespaces that hold executions of earlier settings. Workers serve them and calls look there, but no run
	// is started there.
	Former []string `json:"former"`
	// RetentionDays overrides the days for which a namespace keeps closed executions.
	RetentionDays map[string]int `json:"retentionDays"`
	// Archival accepts that namespaces archive histories. Erasures do not reach the archive of Temporal.
	Archival bool `json:"archival"`
}

// Bounds of a Strategy.
const (
	// MaxNamespaces bounds the namespaces of an installation, because each worker polls its queues in each of them.
	MaxNamespaces = 16
	// ShortestRetention is the shortest time for which a namespace must keep closed executions. `dvt store repair` reads
	// their histories after a restore, and captured histories reach back three days.
	ShortestRetention = 3 * 24 * time.Hour
	// LongestRetention is the maximum of RetentionDays, ten years.
	LongestRetention = 3650 * 24 * time.Hour
	maxTenants       = 1000
)

// namePattern is the alphabet of namespaces. Temporal Cloud adds the account behind a dot.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

// Check returns every problem of the strategy, under the names of the settings.
func (s Strategy) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	name := func(where, namespace string) {
		if !namePattern.MatchString(namespace) || namespace == "temporal-system" {
			bad("%s: %q is not a name of a namespace: use letters, digits, '_', '.' and '-'", where, namespace)
		}
	}
	of := func(key string, byEnvironment map[string]string) {
		for _, e := range slices.Sorted(maps.Keys(byEnvironment)) {
			if !plan.IsID(e) {
				bad("%s: %q is not an id of an environment", key, e)
			}
			name(key+"."+e, byEnvironment[e])
		}
	}
	of("environments", s.Environments)
	of("regulated", s.Regulated)
	for _, n := range s.Former {
		name("former", n)
	}
	for _, e := range slices.Sorted(maps.Keys(s.Regulated)) {
		if n := s.Regulated[e]; n == s.Default || slices.Contains(slices.Collect(maps.Values(s.Environments)), n) {
			bad("regulated.%s: the namespace %s also holds the runs of other tenants: name a namespace of its own", e, n)
		}
	}
	for _, t := range slices.Sorted(maps.Keys(s.Tiers)) {
		if !plan.IsID(t) || !plan.IsID(s.Tiers[t]) {
			bad("tiers: %q: %q: write an id of a tenant and a tier such as HIPAA or PCI-DSS", t, s.Tiers[t])
		}
	}
	if len(s.Tiers) > maxTenants {
		bad("tiers has %d tenants, and the maximum is %d", len(s.Tiers), maxTenants)
	}
	all := s.All()
	if len(all) > MaxNamespaces {
		bad("there are %d namespaces, and the maximum is %d: let environments share one", len(all), MaxNamespaces)
	}
	active := s.active()
	for _, n := range s.Former {
		if slices.Contains(active, n) {
			bad("former: runs are started in the namespace %s, so that it is not a former one: remove it here", n)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(s.RetentionDays)) {
		days := time.Duration(s.RetentionDays[n]) * 24 * time.Hour
		if !slices.Contains(all, n) {
			bad("retentionDays: no setting uses the namespace %q: these are %s", n, strings.Join(all, ", "))
		}
		if days < ShortestRetention || days > LongestRetention {
			bad("retentionDays.%s must be between 3 and 3650, not %d", n, s.RetentionDays[n])
		}
	}
	return errors.Join(errs...)
}

// active lists the namespaces in which runs are started: the default first, the others by name.
func (s Strategy) active() []string {
	out := slices.Concat(slices.Collect(maps.Values(s.Environments)), slices.Collect(maps.Values(s.Regulated)))
	slices.Sort(out)
	out = slices.DeleteFunc(slices.Compact(out), func(n string) bool { return n == s.Default })
	return append([]string{s.Default}, out...)
}

// All lists every namespace without repetitions: the default, then those in which runs are started, then former ones.
func (s Strategy) All() []string {
	out := s.active()
	for _, n := range s.Former {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// Of returns the namespace in which a run is started. It depends on tenant and environment only.
func (s Strategy) Of(id run.Identity) string {
	if n := s.Regulated[id.EnvironmentID]; n != "" && s.Tiers[id.TenantID] != "" {
		return n
	}
	if n := s.Environments[id.EnvironmentID]; n != "" {
		return n
	}
	return s.Default
}

// Tier returns the regulatory tier of a tenant, or "".
func (s Strategy) Tier(tenantID string) string { return s.Tiers[tenantID] }

// Serving lists the namespaces in which tasks of a queue may wait, in the order of All. These are the namespaces of the
// environments that the name of the queue stands for, and all former ones. A queue that every environment uses is
// served in all of them. The name of a queue of a tenant does not always tell where the tenant ends and the environment
// begins, so that it may also stand for an environment of Default. q are the queues of the settings, with placeholders.
func (s Strategy) Serving(queue string, q plan.Queues) []string {
	wanted, known := map[string]bool{}, false
	for _, template := range append([]string{q.Control, q.Data, q.Isolation}, q.Known...) {
		if !strings.Contains(template, "{env}") {
			if matches(template, queue) {
				return s.All()
			}
			continue
		}
		for _, by := range []map[string]string{s.Environments, s.Regulated} {
			for environment, namespace := range by {
				if !matches(strings.ReplaceAll(template, "{env}", environment), queue) {
					continue
				}
				wanted[namespace], known = true, true
				if s.Environments[environment] == "" || strings.Contains(template, "{tenant}") {
					wanted[s.Default] = true
				}
			}
		}
	}
	if !known {
		wanted[s.Default] = true
	}
	return slices.DeleteFunc(s.All(), func(n string) bool { return !wanted[n] && !slices.Contains(s.Former, n) })
}

// matches reports whether a queue is an expansion of a template. {tenant} stands for any text.
func matches(template, queue string) bool {
	before, after, ok := strings.Cut(template, "{tenant}")
	if !ok {
		return template == queue
	}
	return len(queue) > len(before)+len(after) && strings.HasPrefix(queue, before) && strings.HasSuffix(queue, after)
}

// Days of the defaults of Retention, by the kind of an environment (contract R576).
const (
	productionDays  = 90
	otherDays       = 30
	developmentDays = 7
)

// Retention returns for how long a namespace should keep closed executions, and 0 when any time from ShortestRetention
// on is right. Without RetentionDays it is the longest of its environments. A namespace of no environment has no wanted
// retention.
func (s Strategy) Retention(namespace string) time.Duration {
	days := s.RetentionDays[namespace]
	if days == 0 {
		for _, by := range []map[string]string{s.Environments, s.Regulated} {
			for environment, n := range by {
				if n == namespace {
					days = max(days, daysOf(environment))
				}
			}
		}
	}
	return time.Duration(days) * 24 * time.Hour
}

func daysOf(environment string) int {
	switch strings.ToLower(environment) {
	case "production", "prod":
		return productionDays
	case "development", "dev":
		return developmentDays
	}
	return otherDays
}
