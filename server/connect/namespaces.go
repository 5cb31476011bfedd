package connect

import (
	"context"

	"github.com/dvt-engine/dvt/engine/namespaces"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/server/config"
)

// Wanted returns how a namespace of the settings should be. to is the connection of the settings. Preflight, servers
// and `dvt temporal` compare with it.
func Wanted(c *config.Config, to temporal.Connection, namespace string) temporal.Wanted {
	strategy := c.Strategy()
	w := temporal.Wanted{Retention: strategy.Retention(namespace), Shortest: namespaces.ShortestRetention,
		Attributes: to.RequiredAttributes(), Archival: strategy.Archival}
	if len(strategy.Tiers) > 0 {
		w.Attributes = append(w.Attributes, temporal.AttributeTier)
	}
	return w
}

// NamespaceStatus is what one namespace is, and what differs from the settings.
type NamespaceStatus struct {
	Namespace string
	Facts     temporal.Facts
	Drift     []temporal.Drift
}

// Drift compares every namespace of the settings with them. It changes nothing. It returns what it learned before an
// error.
func Drift(ctx context.Context, c *config.Config, to temporal.Connection) (out []NamespaceStatus, err error) {
	for _, name := range c.Strategy().All() {
		to.Namespace = name
		s := NamespaceStatus{Namespace: name}
		if s.Facts, s.Drift, err = to.Drift(ctx, Wanted(c, to, name)); err != nil {
			return out, err
		}
		out = append(out, s)
	}
	return out, nil
}
