package duty

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/forecast"
	"github.com/dvt-engine/dvt/store"
)

// Limits of the check of deadlines.
const (
	// maxForecasts is the number of forecasts that one round makes.
	maxForecasts = 100
	// deadlineEvery is the time between two looks at a run that has a deadline.
	deadlineEvery = 30 * time.Second
	// utcTime is the layout of a time in the note of an alert.
	utcTime = "2006-01-02 15:04:05 UTC"
)

// Forecaster predicts the end of a run from its state.
type Forecaster interface {
	ForecastOf(ctx context.Context, st run.State) (forecast.Forecast, error)
}

// checkDeadlines reads the next page of open runs. It raises RUN_MAY_BE_LATE when the forecast says that a run will
// miss its deadline, and RUN_LATE when it has. Both end with the run; the first one also when the forecast changes.
func (w *pass) checkDeadlines(ctx context.Context) error {
	rows, err := w.s.runs.ListQuietRuns(ctx, 0, w.deadlinePage, w.cfg.Batch)
	if err != nil {
		return err
	}
	forecasts := 0
	err = control.ForEach(ctx, rows, func(r store.QuietRun) error {
		now := w.s.background.Now()
		if r.DueAt == nil || now.Before(w.deadlineDue[r.RunID]) {
			return nil
		}
		late := r.Now.After(*r.DueAt)
		if !late {
			if forecasts == maxForecasts {
				return nil
			}
			forecasts++
		}
		if len(w.deadlineDue) < maxSuspects {
			w.deadlineDue[r.RunID] = now.Add(min(deadlineEvery, w.cfg.RecoverEvery))
		}
		if late {
			return w.raiseLate(ctx, r)
		}
		return w.foresee(ctx, r)
	})
	if err != nil {
		return err
	}
	w.deadlinePage = ""
	if len(rows) == w.cfg.Batch {
		w.deadlinePage = rows[len(rows)-1].RunID
		return nil
	}
	now := w.s.background.Now()
	maps.DeleteFunc(w.deadlineDue, func(_ string, due time.Time) bool { return !now.Before(due) })
	return nil
}

func deadlineAlert(r store.QuietRun, code run.Code, level store.AlertLevel, note string) store.Alert {
	return store.Alert{TenantID: r.TenantID, ProjectID: r.ProjectID, RunID: r.RunID, Level: level, Code: code,
		Note: note, Actor: control.EngineActor}
}

// raiseLate raises the alert that a run is late, and counts whether people were warned.
func (w *pass) raiseLate(ctx context.Context, r store.QuietRun) error {
	raised, err := w.s.background.Alerts.Raise(ctx, deadlineAlert(r, run.CodeRunLate, store.AlertHigh, fmt.Sprintf(
		"The run should have ended by %s and still runs. The alert closes when it ends.",
		r.DueAt.UTC().Format(utcTime))))
	if err != nil || !raised.Opened {
		return err
	}
	w.metrics.done.WithLabelValues(runLate, didEscalate).Inc()
	open, err := w.s.background.Alerts.Open(ctx, run.CodeRunMayBeLate)
	if err != nil {
		return err
	}
	for _, a := range open {
		if a.RunID == r.RunID {
			w.metrics.done.WithLabelValues(runLateWarned, didEscalate).Inc()
			return w.s.background.Alerts.Resolve(ctx, "The run is late.", a.Alert)
		}
	}
	return nil
}

// foresee warns when a run will probably be late. It takes the warning back when the run is expected to end in time.
func (w *pass) foresee(ctx context.Context, r store.QuietRun) error {
	l, err := w.s.runs.Load(ctx, r.RunID)
	if err != nil {
		return err
	}
	f, err := w.s.help.Forecasts.ForecastOf(ctx, l.State)
	if err != nil {
		return err
	}
	if f.Gap == "" && !f.Expected.After(*r.DueAt) {
		if !w.warned[r.RunID] {
			return nil
		}
		delete(w.warned, r.RunID)
		return w.s.background.Alerts.Resolve(ctx, "The run is expected to end in time.",
			deadlineAlert(r, run.CodeRunMayBeLate, store.AlertMedium, ""))
	}
	if !f.WillBeLate(*r.DueAt) {
		return nil
	}
	if len(w.warned) >= maxSuspects {
		clear(w.warned)
	}
	w.warned[r.RunID] = true
	raised, err := w.s.background.Alerts.Raise(ctx, deadlineAlert(r, run.CodeRunMayBeLate, store.AlertMedium,
		fmt.Sprintf("The run should end by %s, in %s. "+
			"It will probably end at about %s, between %s and %s UTC, by %d earlier runs.",
			r.DueAt.UTC().Format(utcTime), plan.DurationWords(r.DueAt.Sub(r.Now)),
			f.Expected.UTC().Format(time.TimeOnly), f.Earliest.UTC().Format(time.TimeOnly),
			f.Latest.UTC().Format(time.TimeOnly), f.Runs)))
	if raised.Opened {
		w.metrics.done.WithLabelValues(runMayBeLate, didEscalate).Inc()
	}
	return err
}
