package duty

import (
	"context"
	"log/slog"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// IncidentStore opens incidents.
type IncidentStore interface {
	OpenIncidents(ctx context.Context, limit int, severity func(store.AlertState) store.Severity) ([]store.Incident, error)
}

// openIncidents opens an incident for each new alert of level HIGH, or adds the alert to the open one of its group. It
// follows the table of alerts, so that an alert whose raiser died right after it is not forgotten.
func (w *pass) openIncidents(ctx context.Context) error {
	opened, err := w.s.help.Recovery.Incidents.OpenIncidents(ctx, store.MaxPage, severityOf)
	for _, i := range opened {
		w.s.background.Log.ErrorContext(ctx, "an incident was opened", slog.String("incidentId", i.ID),
			slog.String("severity", string(i.Severity)), slog.String("code", string(i.Code)),
			slog.String("tenantId", i.TenantID), slog.String("runId", i.RunID), slog.String("why", i.Title))
	}
	return err
}

// severityOf is the table of how bad alerts are. An alert that it does not name stands for a part that does not work.
func severityOf(a store.AlertState) store.Severity {
	switch a.Code {
	case run.CodeStoreRegressed, run.CodeCausalViolation, run.CodeAuditUnlinked, run.CodeAuditHeads, // data may be wrong
		run.CodeDispatcherAbsent, run.CodeReconcilerAbsent, run.CodeWorkerAbsent, run.CodeEngineUnavailable,
		run.CodeEngineLost, run.CodeDependencyDown: // dvt is down
		return store.Sev1
	case run.CodeLagHigh:
		return store.Sev3
	}
	return store.Sev2
}
