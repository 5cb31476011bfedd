package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// completeManual adds to the end of a MANUAL step who completed it, with which notes and evidence, and at which time
// the work was done (contract T82, T84).
func (j *Journal) completeManual(ctx context.Context, runID string, d *run.Draft) error {
	if !bytes.Contains(d.Payload, []byte(`"manual"`)) {
		return nil
	}
	var payload map[string]json.RawMessage
	var m run.ManualEnd
	if err := json.Unmarshal(d.Payload, &payload); err != nil {
		return err
	}
	if err := json.Unmarshal(payload["manual"], &m); payload["manual"] == nil || err != nil || m.SignalID == "" {
		return err
	}
	r, err := j.cfg.Store.Signals.Receipt(ctx, runID, m.SignalID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var c runs.Completion
	if err := json.Unmarshal(r.Payload, &c); err != nil {
		return err
	}
	m.Actor, m.Notes, m.EvidenceRefs = r.Actor, c.Notes, c.EvidenceRefs
	if payload["manual"], err = json.Marshal(m); err != nil {
		return err
	}
	if c.CompletedAt != nil {
		if payload["sourceOccurredAt"], err = json.Marshal(c.CompletedAt); err != nil {
			return err
		}
	}
	d.Payload, err = json.Marshal(payload)
	return err
}
