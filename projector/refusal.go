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

// maxCause is the most bytes of an error that a dead letter keeps.
const maxCause = 500

// refused counts a refusal against the run's next message and holds the run back,
// or buries the message when it was the last one (T123). before is how many there
// were when the run was read.
func (p *Projector) refused(ctx context.Context, m live.Message, before int, cause error) error {
	text := cause.Error()
	if len(text) > maxCause {
		text = strings.ToValidUTF8(text[:maxCause], "")
	}
	r, err := p.store.PublishFailed(ctx, m.RunID, m.To, text, p.delay.after(before+1))
	switch {
	case errors.Is(err, store.ErrNotFound): // somebody published it
		return nil
	case err != nil:
		return err
	case r.Attempts < p.cfg.MaxRefusals:
		return nil
	}
	buried, err := p.store.Bury(ctx, m.RunID, r.Upto, text)
	if err != nil {
		return err
	}
	if !buried && m.From < r.Upto {
		return nil // somebody published or buried it
	}
	if !buried { // it began as news of receipts and queue alone: the next head check brings those
		if _, err := p.store.Advance(ctx, []store.PublishedTo{{RunID: m.RunID, To: r.Upto, OpsRev: m.OpsRev}},
			nil); err != nil {
			return err
		}
	}
	p.watch.buried(ctx, m, r, text)
	p.Wake(m.RunID) // it goes on behind the hole
	return nil
}

// Redrive publishes again what a dead letter held, as the run is now, and marks
// it. Consumers that have seen later states ignore it (T188, O04); it may be
// repeated. An error that wraps live.ErrRefused says that the bus still refuses;
// any error leaves the letter as it is.
func (p *Projector) Redrive(ctx context.Context, d store.DeadLetter) error {
	l, delta, err := p.store.Since(ctx, d.RunID, d.From)
	if err != nil {
		return fmt.Errorf("redrive %s: %w", d.ID, err)
	}
	if err := p.send(ctx, message(l.Epoch, l.Head.OpsRev, l.Now, l.Head.LastAt, delta)); err != nil {
		return fmt.Errorf("redrive %s: %w", d.ID, err)
	}
	if _, err := p.store.Redriven(ctx, d.ID); err != nil {
		return fmt.Errorf("redrive %s: %w", d.ID, err)
	}
	p.cfg.Logger.InfoContext(ctx, "dead letter redriven", slog.String("id", d.ID), slog.String("runId", d.RunID))
	return nil
}
