package storeadmin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Exported is what Export wrote.
type Exported struct {
	Runs     int   `json:"runs"`
	Events   int64 `json:"events"`
	Receipts int64 `json:"receipts"`
	Plans    int   `json:"plans"`
}

// Export writes runs, all when none is named, as JSON Lines: their facts, plans,
// events byte for byte, and receipts. Import makes the same runs of it elsewhere
// (Z09). Beside running servers each run is as it was at one moment.
func Export(ctx context.Context, s store.Store, only []string, w io.Writer, p Progress) (Exported, error) {
	var out Exported
	epoch, err := s.Epoch(ctx)
	if err != nil {
		return out, err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	now := time.Now().UTC().Truncate(time.Millisecond)
	if err := enc.Encode(line{Format: Format, Version: Version, StoreEpoch: epoch, ExportedAt: &now}); err != nil {
		return out, err
	}
	plans := map[string]bool{}
	err = each(ctx, s, only, func(r store.Run) error {
		if err := exportPlan(ctx, s, r.PlanRef.SHA256, plans, enc); err != nil {
			return err
		}
		if err := exportRun(ctx, s, r, enc, &out); err != nil {
			return err
		}
		p.done(r.RunID)
		return nil
	})
	if err != nil {
		return out, err
	}
	out.Plans = len(plans)
	return out, enc.Encode(line{Total: &totalLine{Runs: out.Runs, Events: out.Events}})
}

// exportPlan writes a plan that was not written before; one by reference that
// was never fetched is not there.
func exportPlan(ctx context.Context, s store.Runs, sha string, done map[string]bool, enc *json.Encoder) error {
	if sha == "" || done[sha] {
		return nil
	}
	body, err := s.Plan(ctx, sha)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	done[sha] = true
	return enc.Encode(line{Plan: &planLine{SHA256: sha, Body: body}})
}

func exportRun(ctx context.Context, s store.Store, r store.Run, enc *json.Encoder, out *Exported) error {
	sent, upTo, err := moment(ctx, s, r.RunID)
	if err != nil {
		return err
	}
	if err := enc.Encode(line{Run: runLineOf(r)}); err != nil {
		return err
	}
	end := endLine{RunID: r.RunID, Receipts: len(sent)}
	for page, err := range pages(ctx, s, r.RunID, upTo) {
		if err != nil {
			return err
		}
		for _, e := range page {
			if err := enc.Encode(line{Event: eventLineOf(e)}); err != nil {
				return err
			}
		}
		end.Events += len(page)
	}
	for _, receipt := range sent {
		if err := enc.Encode(line{Receipt: receiptLineOf(receipt)}); err != nil {
			return err
		}
	}
	out.Runs++
	out.Events += int64(end.Events)
	out.Receipts += int64(end.Receipts)
	return enc.Encode(line{End: &end})
}

// momentTries bounds how often receipts are read again because the run moved.
const momentTries = 5

// moment is the receipts of a run and the head that they belong to. Of a run that
// never rests, receipts newer than the head are left out.
func moment(ctx context.Context, s store.Store, runID string) (sent []run.Receipt, upTo run.Seq, err error) {
	for range momentTries {
		before, _, err := headOf(ctx, s, runID)
		if err != nil {
			return nil, 0, err
		}
		sent = sent[:0]
		for r, err := range receipts(ctx, s, runID) {
			if err != nil {
				return nil, 0, err
			}
			sent = append(sent, r)
		}
		after, _, err := headOf(ctx, s, runID)
		if err != nil {
			return nil, 0, err
		}
		upTo = before.LastSeq
		if before.LastSeq == after.LastSeq && before.OpsRev == after.OpsRev {
			break
		}
	}
	return slices.DeleteFunc(sent, func(r run.Receipt) bool {
		return max(r.AcceptedSeq, r.AppliedSeq, r.QuiescentSeq) > upTo
	}), upTo, nil
}
