package duty

import (
	"context"
	"fmt"
	"strings"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// mostDrainingNamed is the number of attempts that an alert about a pause names.
const mostDrainingNamed = 3

// checkDrains raises PAUSE_DRAIN_TIMEOUT for each paused run whose attempts have not ended within PauseDrain
// (contract R116, T46), once for each pause. It asks no engine, because a drain also hangs while the engine or the
// workers are down. The workflow has no timer for this: a server that reads the log notices more, and recorded
// histories stay valid.
func (w *pass) checkDrains(ctx context.Context, rows []store.QuietRun) error {
	return control.ForEach(ctx, rows, func(r store.QuietRun) error {
		if r.Head.Gate&run.GatePaused == 0 || len(r.Running) == 0 {
			return nil
		}
		return w.s.background.DoForRun(ctx, control.DutyReconcile, r.RunID, func() error { return w.checkDrain(ctx, r) })
	})
}

func (w *pass) checkDrain(ctx context.Context, r store.QuietRun) error {
	l, err := w.s.runs.Load(ctx, r.RunID)
	if err != nil {
		return err
	}
	p := l.State.Pause
	if p == nil || r.Now.Sub(p.Since) < w.cfg.PauseDrain {
		return nil
	}
	w.draining++
	var names []string
	for _, s := range r.Running[:min(len(r.Running), mostDrainingNamed)] {
		name := "step " + s.StepID
		if at := s.Attempts[len(s.Attempts)-1].StartedAt; at != nil {
			name += " since " + control.TimeWords(*at)
		}
		names = append(names, name)
	}
	more := ""
	if n := len(r.Running) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	why := fmt.Sprintf("The run was paused at %s, and %s later it still runs %s%s. Resume the run, or cancel it to stop "+
		"what runs. If the step should have ended, check its worker.",
		control.TimeWords(p.Since), plan.DurationWords(w.cfg.PauseDrain), strings.Join(names, ", "), more)
	return w.escalate(ctx, store.Alert{Code: run.CodePauseDrain, Note: why}, r.Identity, pauseDrains)
}
