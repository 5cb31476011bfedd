package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// raiseTime bounds the time in which a finding of the projector becomes an alert.
const raiseTime = 10 * time.Second

// raiseProjectorAlert turns a finding of the projector into an alert, without blocking the projector. A lost one is
// found again while its state lasts.
func (p *parts) raiseProjectorAlert(runID string, code run.Code, why string) {
	a := store.Alert{RunID: runID, Code: code, Level: store.AlertHigh, Note: why}
	switch code {
	case run.CodeLagHigh:
		a.Level = store.AlertMedium
	case run.CodeCausalViolation:
		a.Level = store.AlertLow
	}
	if runID == "" && p.control.IsRecent(a) {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), raiseTime)
		defer cancel()
		if runID != "" {
			r, err := p.raw.Get(ctx, runID)
			if err != nil {
				return // the next finding tries again
			}
			a.TenantID, a.ProjectID = r.TenantID, r.ProjectID
		}
		if _, err := p.control.Raise(ctx, a); err != nil {
			p.log.Warn("an alert of the projector was not raised", slog.String("code", string(code)), slog.Any("error", err))
		}
	}()
}
