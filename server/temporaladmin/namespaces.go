// Package temporaladmin looks after the namespaces of Temporal: it creates them, compares them with the settings, says
// which are unused, and captures histories of workflows.
package temporaladmin

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/connect"
)

// SetUp is `dvt temporal setup`. It brings every namespace of the settings to what they want, one after the
// other, and ends with the first error. With dry it changes nothing.
func SetUp(ctx context.Context, cfg config.Config, log *slog.Logger, dry bool) (temporal.Setup, error) {
	out := temporal.Setup{Changes: []string{}, Left: []temporal.Drift{}}
	to, err := connect.Temporal(&cfg, log, false)
	if err != nil {
		return out, err
	}
	for _, name := range cfg.Strategy().All() {
		to.Namespace = name
		one, err := to.Setup(ctx, connect.Wanted(&cfg, to, name), dry)
		out.Changes, out.Left = append(out.Changes, one.Changes...), append(out.Left, one.Left...)
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// Namespace is one namespace of the settings as `dvt temporal status` shows it.
type Namespace struct {
	Namespace string `json:"namespace"`
	Exists    bool   `json:"exists"`
	// Retention is in words, such as "30 days"; empty when the namespace does not exist.
	Retention string           `json:"retention,omitempty"`
	Use       string           `json:"use"` // the runs that are started there, in words
	Drift     []temporal.Drift `json:"drift"`
}

// Status is `dvt temporal status`. It changes nothing.
func Status(ctx context.Context, cfg config.Config, log *slog.Logger) (out []Namespace, err error) {
	to, err := connect.Temporal(&cfg, log, false)
	if err != nil {
		return nil, err
	}
	all, err := connect.Drift(ctx, &cfg, to)
	for _, s := range all {
		one := Namespace{Namespace: s.Namespace, Use: useOf(&cfg, s.Namespace), Exists: true,
			Retention: plan.DurationWords(s.Facts.Retention), Drift: append([]temporal.Drift{}, s.Drift...)}
		if len(s.Drift) > 0 && s.Drift[0].Kind == temporal.DriftNamespace {
			one.Exists, one.Retention = false, ""
		}
		out = append(out, one)
	}
	return out, err
}

// useOf says which runs are started in a namespace.
func useOf(cfg *config.Config, namespace string) string {
	s := cfg.Strategy()
	var environments, regulated []string
	for e, n := range s.Environments {
		if n == namespace {
			environments = append(environments, e)
		}
	}
	for e, n := range s.Regulated {
		if n == namespace {
			regulated = append(regulated, e)
		}
	}
	slices.Sort(environments)
	slices.Sort(regulated)
	var parts []string
	if len(environments) > 0 {
		parts = append(parts, "runs of "+strings.Join(environments, ", "))
	}
	if len(regulated) > 0 {
		parts = append(parts, "runs of tenants with a regulatory tier in "+strings.Join(regulated, ", "))
	}
	switch {
	case namespace == s.Default && len(s.Environments)+len(s.Regulated) == 0:
		parts = append(parts, "all runs")
	case namespace == s.Default:
		parts = append(parts, "runs of every other environment")
	case slices.Contains(s.Former, namespace):
		parts = append(parts, "runs of earlier settings, no new ones")
	}
	return strings.Join(parts, "; ")
}

// Times after which a namespace without new executions counts as unused (contract R311, R312).
const (
	unusedEphemeral = 7 * 24 * time.Hour
	unusedOther     = 30 * 24 * time.Hour
	ephemeralPrefix = "pr-"
)

// UnusedNamespace is a namespace in which dvt starts no runs and that holds executions of it.
type UnusedNamespace struct {
	Namespace string `json:"namespace"`
	// State is USED, because something is open or young, or REMOVABLE.
	State  string `json:"state"`
	Open   int64  `json:"open"`
	Closed int64  `json:"closed"`
	Recent int64  `json:"recent"` // of these, those that were started within 30 days, or 7 where the name begins with pr-
	Reason string `json:"reason"`
}

// Unused is `dvt temporal unused`. It changes nothing. Former namespaces of the settings are listed also when
// they are empty, because they can be removed from the settings then.
func Unused(ctx context.Context, cfg config.Config, log *slog.Logger) (out []UnusedNamespace, err error) {
	out = []UnusedNamespace{}
	to, err := connect.Temporal(&cfg, log, false)
	if err != nil {
		return nil, err
	}
	strategy := cfg.Strategy()
	now := time.Now()
	held, err := to.Holdings(ctx, func(name string) time.Time { return now.Add(-quietFor(name)) })
	if err != nil {
		return nil, err
	}
	for _, h := range held {
		former := slices.Contains(strategy.Former, h.Namespace)
		if slices.Contains(strategy.All(), h.Namespace) && !former || h.Open+h.Closed == 0 && !former {
			continue
		}
		out = append(out, judgeUnused(h, former))
	}
	return out, nil
}

// quietFor returns the time without a start after which a namespace counts as unused.
func quietFor(namespace string) time.Duration {
	if strings.HasPrefix(namespace, ephemeralPrefix) {
		return unusedEphemeral
	}
	return unusedOther
}

// judgeUnused decides whether a namespace can be removed.
func judgeUnused(h temporal.Holding, former bool) UnusedNamespace {
	u := UnusedNamespace{Namespace: h.Namespace, Open: h.Open, Closed: h.Closed, Recent: h.Recent, State: "REMOVABLE"}
	quiet := plan.DurationWords(quietFor(h.Namespace))
	switch {
	case h.Open > 0:
		u.State, u.Reason = "USED", "executions are open"
	case h.Recent > 0:
		u.State, u.Reason = "USED", fmt.Sprintf("%d executions are younger than %s", h.Recent, quiet)
	case former:
		u.Reason = "nothing is open or young: remove it from former in temporal-namespaces first"
	default:
		u.Reason = "nothing is open, and no execution is younger than " + quiet
	}
	return u
}
