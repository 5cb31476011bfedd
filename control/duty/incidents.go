package duty

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/dvt-engine/dvt/control/health"
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
		what, why := "an incident was opened", i.Title
		if len(i.Notes) > 0 {
			what, why = "the severity of an incident was raised", i.Notes[0].Text
		}
		//nolint:sloglint // one of two constants
		w.s.background.Log.ErrorContext(ctx, what, slog.String("incidentId", i.ID),
			slog.String("severity", string(i.Severity)), slog.String("code", cmp.Or(string(i.Code), "ESCALATE_ALERT")),
			slog.String("tenantId", i.TenantID), slog.String("runId", i.RunID), slog.String("why", why))
	}
	return err
}

// severityOf is the table of how bad alerts are. An alert that it does not name stands for a part that does not work.
// Without the bus of events people see changes later, and nothing else happens.
func severityOf(a store.AlertState) store.Severity {
	if a.Code == run.CodeDependencyDown {
		switch a.Subject {
		case health.CheckBus:
			return store.Sev3
		case health.CheckArtifacts:
			return store.Sev2
		}
	}
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
