package journal

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const (
	// maxLostNotes bounds the notes about lost lines that wait for the bucket; each is a goroutine.
	maxLostNotes = 1000
	lostNoteFor  = time.Hour
	lostNoteWait = 5 * time.Second
	// maxLostLines bounds the number that a worker may claim.
	maxLostLines = 1_000_000_000
)

// noteLostLines raises an alert about lines of an attempt that nobody could store, and adds a line with their number to
// the log of the attempt as soon as the bucket accepts it. A repeated report adds no second line. The line is lost when
// this process ends before the bucket works again; the alert stays.
func (j *Journal) noteLostLines(ctx context.Context, f *RunFacts, e engine.End) {
	lost := min(e.LostLines, maxLostLines)
	j.cfg.Logger.WarnContext(ctx, "lines that a step printed are lost: the bucket of artifacts did not accept them",
		slog.String("runId", e.RunID), slog.String("stepId", e.StepID), slog.Int64("lines", lost))
	if j.cfg.Alerts != nil {
		_, err := j.cfg.Alerts.Raise(ctx, store.Alert{TenantID: f.run.TenantID, ProjectID: f.run.ProjectID, RunID: e.RunID,
			StepID: e.StepID, Level: store.AlertMedium, Code: run.CodeLogLinesLost, Subject: e.RunID, Shared: true,
			Actor: control.EngineActor,
			Note: fmt.Sprintf("%d lines that step %s printed could not be stored and are lost. Check that the bucket of "+
				"artifacts accepts objects.", lost, e.StepID)})
		if err != nil && ctx.Err() == nil {
			j.cfg.Logger.WarnContext(ctx, "the alert about lost lines was not written", slog.Any("error", err))
		}
	}
	select {
	case j.lostNotes <- struct{}{}:
	default: // the alert tells it
		return
	}
	id := artifact.AttemptID{TenantID: f.run.TenantID, RunID: e.RunID, StepID: e.StepID, LogicalAttempt: e.LogicalAttempt}
	stored := engine.StoredAttempt(e.EngineAttempt, e.Hook)
	line := artifact.Line{At: j.cfg.Now().UTC(), Stream: "dvt",
		Text: fmt.Sprintf("%d lines are missing here: they could not be stored", lost)}
	waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), lostNoteFor)
	go func() {
		defer func() { cancel(); <-j.lostNotes }()
		for {
			// The worker numbers its lines from 1 without a hole, so no line of its own has this number.
			if j.cfg.Logs.Append(waiting, id, stored, math.MaxInt32, []artifact.Line{line}) == nil {
				return
			}
			select {
			case <-waiting.Done():
				return
			case <-time.After(lostNoteWait):
			}
		}
	}()
}
