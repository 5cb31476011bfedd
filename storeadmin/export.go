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

// Exported counts what Export wrote.
type Exported struct {
	Runs     int   `json:"runs"`
	Events   int64 `json:"events"`
	Receipts int64 `json:"receipts"`
	Plans    int   `json:"plans"`
}

// Export writes the named runs, or all runs when none is named, as JSON Lines: their facts, plans, events byte for
// byte, and receipts. Import makes equal runs from it in another store (contract Z09). If servers are running, each run
// is exported as of one moment. *UnknownRunsError when a named run does not exist.
func Export(ctx context.Context, s store.Store, only []string, w io.Writer, p Progress) (Exported, error) {
	return ExportAt(ctx, s, time.Now(), only, w, p)
}

// ExportAt is Export with the time that its header names, so that a repetition writes the same bytes.
func ExportAt(ctx context.Context, s store.Store, at time.Time, only []string, w io.Writer, p Progress) (Exported,
	error) {
	var out Exported
	epoch, err := s.Epoch(ctx)
	if err != nil {
		return out, err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	now := at.UTC().Truncate(time.Millisecond)
	if err := enc.Encode(line{Format: Format, Version: Version, StoreEpoch: epoch, ExportedAt: &now}); err != nil {
		return out, err
	}
	plans := map[string]bool{}
	err = forEachRun(ctx, s, only, func(r store.Run) error {
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

// exportPlan writes a plan unless it was written before. A plan by reference that was never fetched is not in the
// store, and is left out.
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
	sent, upTo, err := readMoment(ctx, s, r.RunID)
	if err != nil {
		return err
	}
	of := runLineOf(r)
	tags, err := s.ListTags(ctx, store.RunFilter{TenantID: r.TenantID}, []string{r.RunID})
	if err != nil {
		return err
	}
	notes, err := s.ListNotes(ctx, r.RunID)
	if err != nil {
		return err
	}
	of.annotate(tags[r.RunID], notes)
	if err := enc.Encode(line{Run: of}); err != nil {
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

// momentTries limits how often the receipts are read again because the run has changed.
const momentTries = 5

// readMoment reads the receipts of a run and the head at the same moment. If the run changes during each try, it leaves
// out receipts that are newer than the head.
func readMoment(ctx context.Context, s store.Store, runID string) (sent []run.SignalReceipt, upTo run.Seq, err error) {
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
	return slices.DeleteFunc(sent, func(r run.SignalReceipt) bool {
		return max(r.AcceptedSeq, r.AppliedSeq, r.QuiescentSeq) > upTo
	}), upTo, nil
}
