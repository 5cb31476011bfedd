package temporaladmin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/connect"
)

// MaxCapture bounds the histories of one capture.
const MaxCapture = 1000

// Capture is what CaptureHistories did.
type Capture struct {
	Written  []string `json:"written"` // new files
	Known    int      `json:"known"`   // executions whose files existed
	Replayed int      `json:"replayed"`
	// Mismatches are the files from which this version could not continue, with the first difference.
	Mismatches []CaptureMismatch `json:"mismatches"`
}

// CaptureMismatch is a history that this version does not replay.
type CaptureMismatch struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

// CaptureHistories is `dvt workflow capture`. It writes the histories of executions that closed since a time into a
// directory, at most limit, one file RUN-EXECUTION.json with the mode 0600 for each, and replays each new one. Existing
// files stay, so that a repetition continues. It changes nothing in Temporal.
func CaptureHistories(ctx context.Context, cfg config.Config, log *slog.Logger, dir string, since time.Time,
	limit int) (out Capture, err error) {
	out.Written, out.Mismatches = []string{}, []CaptureMismatch{}
	to, err := connect.Temporal(&cfg, log, false)
	if err != nil {
		return out, err
	}
	if err := connect.Ping(ctx, &cfg, to); err != nil {
		return out, err
	}
	e, err := connect.OpenEngine(&cfg, to, temporal.Config{Payloads: to.Payloads}, log)
	if err != nil {
		return out, err
	}
	defer e.Close()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return out, err
	}
	file := func(runID, engineRunID string) string { return filepath.Join(dir, runID+"-"+engineRunID+".json") }
	isKnown := func(runID, engineRunID string) bool {
		_, err := os.Lstat(file(runID, engineRunID))
		if err == nil {
			out.Known++
		}
		return err == nil
	}
	for h, err := range e.Histories(ctx, since, isKnown) {
		if err != nil {
			return out, err
		}
		name := file(h.RunID, h.EngineRunID)
		if err := writeNew(name, h.JSON); err != nil {
			return out, err
		}
		out.Written = append(out.Written, name)
		if reason, err := replays(h.JSON, to.Payloads); err != nil {
			return out, fmt.Errorf("%s: %w", name, err)
		} else if reason != "" {
			out.Mismatches = append(out.Mismatches, CaptureMismatch{name, reason})
		}
		out.Replayed++
		if len(out.Written) == limit {
			break
		}
	}
	return out, nil
}

// replays returns why this version could not continue from a history; "" if it could.
func replays(history []byte, payloads *temporal.Payloads) (string, error) {
	_, err := temporal.Replay(bytes.NewReader(history), payloads)
	if mismatch, ok := errors.AsType[*temporal.MismatchError](err); ok {
		return mismatch.Error(), nil
	}
	return "", err
}

// writeNew writes a file that appears with its whole content or not at all.
func writeNew(name string, content []byte) error {
	part := name + ".part"
	if err := os.WriteFile(part, content, 0o600); err != nil {
		return err
	}
	return os.Rename(part, name)
}
