package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/store"
)

// maxCause is the maximum length in bytes of the error text in a dead letter.
const maxCause = 500

// handleRefusal counts a refusal against the run's next message and delays the run. After MaxRefusals it turns the
// message into a dead letter (contract T123). before is the number of refusals when the run was read.
func (p *Projector) handleRefusal(ctx context.Context, m live.Message, before int, cause error) error {
	text := cause.Error()
	if len(text) > maxCause {
		text = strings.ToValidUTF8(text[:maxCause], "")
	}
	r, err := p.store.RecordRefusal(ctx, m.RunID, m.To, text, p.delay.after(before+1))
	switch {
	case errors.Is(err, store.ErrNotFound): // another projector published it
		return nil
	case err != nil:
		return err
	case r.Attempts < p.cfg.MaxRefusals:
		return nil
	}
	isDead, err := p.store.AddDeadLetter(ctx, m.RunID, r.Upto, text)
	if err != nil {
		return err
	}
	if !isDead && m.From < r.Upto {
		return nil // another projector published it or made it a dead letter
	}
	if !isDead { // the message had only receipts and queue: the next head check shows those
		if _, err := p.store.Advance(ctx, []store.PublishedTo{{RunID: m.RunID, To: r.Upto, OpsRev: m.OpsRev}},
			nil); err != nil {
			return err
		}
	}
	p.monitor.reportDeadLetter(ctx, m, r, text)
	p.Wake(m.RunID) // the run continues after the dead letter
	return nil
}

// Redrive publishes the current state of the run from the dead letter's position, and marks the dead letter as
// redriven. Consumers that have seen later states ignore the message (contract T188, O04), so that Redrive may be
// repeated. An error that wraps live.ErrRefused means that the bus still refuses. After any error the dead letter is
// unchanged.
func (p *Projector) Redrive(ctx context.Context, d store.DeadLetter) error {
	l, delta, err := p.store.Since(ctx, d.RunID, d.From)
	if err != nil {
		return fmt.Errorf("redrive %s: %w", d.ID, err)
	}
	if err := p.send(ctx, newMessage(l.Epoch, l.Head.OpsRev, l.Now, l.Head.LastAt, delta)); err != nil {
		return fmt.Errorf("redrive %s: %w", d.ID, err)
	}
	if _, err := p.store.MarkRedriven(ctx, d.ID); err != nil {
		return fmt.Errorf("redrive %s: %w", d.ID, err)
	}
	p.cfg.Logger.InfoContext(ctx, "dead letter redriven", slog.String("id", d.ID), slog.String("runId", d.RunID))
	return nil
}
