package controltest

import (
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
)

// ReporterOf returns the Journal of a worker of tq-data-dev.
func (w *World) ReporterOf(id string) engine.WorkerReporter {
	return w.Journal.For(authz.Worker{ID: id, Serves: []string{"acme"},
		Queues: []string{"tq-data-dev"}}).(engine.WorkerReporter)
}

// ReportOf returns the report of a worker that has some parts and lacks the others.
func ReportOf(worker string, parts ...plan.SandboxPart) engine.WorkerReport {
	return engine.WorkerReport{
		Worker: worker, Queues: []string{"tq-data-dev"}, Runtime: "process", OK: true, Parts: parts,
		Missing: map[plan.SandboxPart]string{plan.SandboxPIDs: "no delegated cgroup"},
	}
}
