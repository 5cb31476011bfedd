package server

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/destination/send"
	"github.com/dvt-engine/dvt/notifier"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/lineage"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/store"
)

// newNotifier returns the delivery of events and alerts to the destinations of the setting destinations. The error says
// what is wrong with the file, or which sender cannot be made.
func (p *parts) newNotifier() (*notifier.Notifier, error) {
	if p.cfg.Destinations == "" || !slices.Contains(p.cfg.Duties, "notify") {
		return nil, nil //nolint:nilnil // nothing is sent
	}
	configs, err := config.ReadDestinations(p.cfg.Destinations)
	if err != nil {
		return nil, fmt.Errorf("destinations: the file %s is wrong:\n%w", p.cfg.Destinations, err)
	}
	for _, c := range configs {
		s, err := p.newSender(c)
		if err != nil {
			return nil, fmt.Errorf("destinations: the file %s is wrong: %w", p.cfg.Destinations, err)
		}
		_ = s.Close()
	}
	var reload chan os.Signal
	if !p.cfg.Dev { // the end of a terminal ends dvt dev by the same signal
		reload = make(chan os.Signal, 1)
		signal.Notify(reload, syscall.SIGHUP)
	}
	return notifier.New(notifier.Config{
		Store: p.raw, Alerts: p.control, Owner: p.owner, NewSender: p.newSender, Link: p.pageOf,
		OpenAudit: func(ctx context.Context, tenantID string, rows []*store.AuditRow) error {
			return p.subjects.Open(ctx, p.raw, tenantID, rows)
		},
		ReadManifest: func(ctx context.Context, id run.Identity, ref run.ArtifactRef) (*lineage.Manifest, error) {
			return readManifest(ctx, p.artifacts, id, ref)
		},
		Load:   func() ([]destination.Config, error) { return config.ReadDestinations(p.cfg.Destinations) },
		Reload: reload, Now: p.now, Metrics: p.registry, Logger: p.log,
	}), nil
}

// newSender makes the sender of a destination.
func (p *parts) newSender(c destination.Config) (destination.Sender, error) {
	guard, err := newGuard(&p.cfg, p.cfg.Dev, p.log)
	if err != nil {
		return nil, err
	}
	return send.New(c, send.Options{PublicAddress: p.cfg.PublicURL, Guard: guard, AllowPrivate: p.cfg.Dev})
}

// pageOf returns the address of the page of a run, or of the health of the installation when runID is "".
func (p *parts) pageOf(runID string) string {
	base := strings.TrimRight(p.cfg.PublicURL, "/")
	switch {
	case base == "":
		return ""
	case runID == "":
		return base + "/health"
	}
	return base + "/runs/" + url.PathEscape(runID)
}
