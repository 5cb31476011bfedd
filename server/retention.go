package server

import (
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// newRetention makes the worker of the duty `retain`.
func (p *parts) newRetention() *retention.Worker {
	return retention.NewWorker(retention.WorkerConfig{
		Store: p.raw, Archive: archive.Archive{Store: p.raw, Objects: p.artifacts}, Bucket: p.artifacts,
		Installed: p.cfg.Retention, Owner: p.owner, Alerts: p.control.Alerts, Now: p.now, Metrics: p.registry,
		Logger: p.log,
	})
}
