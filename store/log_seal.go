package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// ActionSealLog is the action of audit rows by which dvt seals the log of a run up to an event.
const ActionSealLog = "SEAL_LOG"

// sealActor is the actor of audit rows that no person requested.
const sealActor = "dvt"

// LogSeal is the hash of a run's log up to an event. The zero value is the seal of an empty log.
type LogSeal struct {
	Seq  run.Seq           // of the last event that the hash covers
	Hash [sha256.Size]byte // of that event, as NextLogHash computes it
}

// LogSeals finds seals of logs. A seal is an audit row, so that the tenant's chain and its signed heads protect it.
type LogSeals interface {
	// LastLogSeal returns the newest seal of a run with a Seq below below, or the zero value. If several rows seal one
	// event, the first in the chain counts, so that a row added later cannot justify a changed log. Rows without the form
	// of a seal are ignored, so that such a row cannot hide the seals of a run.
	LastLogSeal(ctx context.Context, tenantID, runID string, below run.Seq) (LogSeal, error)
}

// sealedLogs is the part of Log that SealLog and LogHash read.
type sealedLogs interface {
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
}

// ErrLogShort says that a log ends before the event up to which it must be sealed or hashed, or lacks an event before
// it.
var ErrLogShort = errors.New("store: the log ends before that event")

// SealLog returns the audit row that seals the log of a run up to the event to. from is an earlier seal, as LastLogSeal
// returns it; only the events after it are read. ErrLogShort as LogHash.
//
// The caller sets a random id and writes the row. With an id that somebody could guess, that person could write another
// row under it first and so prevent the seal. Two concurrent callers write two equal rows, which is harmless.
func SealLog(ctx context.Context, s sealedLogs, id run.Identity, from LogSeal, to run.Seq) (AuditRow, error) {
	seal, err := LogHash(ctx, s, id.RunID, from, to)
	if err != nil {
		return AuditRow{}, err
	}
	return AuditRow{
		TenantID: id.TenantID, Actor: sealActor, Action: ActionSealLog, RunID: id.RunID, Outcome: "ACCEPTED",
		Object: LogSealObject(id.RunID, to), Digest: hex.EncodeToString(seal.Hash[:]),
	}, nil
}

// LogHash computes the seal of a run's log at the event to from an earlier seal and the events between them, which it
// reads in pages of MaxPage. ErrLogShort when the log ends before that event or lacks an event before it.
func LogHash(ctx context.Context, s sealedLogs, runID string, from LogSeal, to run.Seq) (LogSeal, error) {
	if from.Seq > to {
		return LogSeal{}, fmt.Errorf("store: the seal at event %d of run %s is after event %d", from.Seq, runID, to)
	}
	for from.Seq < to {
		events, err := s.Events(ctx, runID, from.Seq, int(min(int64(to-from.Seq), MaxPage)))
		if err != nil {
			return LogSeal{}, err
		}
		if len(events) == 0 {
			return LogSeal{}, ErrLogShort
		}
		for _, e := range events {
			if e.Seq != from.Seq+1 {
				return LogSeal{}, ErrLogShort
			}
			from = LogSeal{Seq: e.Seq, Hash: NextLogHash(from, e)}
		}
	}
	return from, nil
}

// NextLogHash returns the hash of an event that is the next in its log after the seal before. It is the Digest of the
// strings log1, hash before in hex (empty for the first event), runSeq, eventId, eventType, idempotencyKey, runId,
// tenantId, projectId, environmentId, planId, planVersion, stepId, signalId, logicalAttemptId, engineAttemptId,
// emittedAt and persistedAt (RFC 3339 in UTC with six digits), emittedBy and payload (the JSON text as the store
// returns it).
func NextLogHash(before LogSeal, e run.Event) [sha256.Size]byte {
	previous := ""
	if before.Seq > 0 {
		previous = hex.EncodeToString(before.Hash[:])
	}
	at := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }
	return Digest("log1", previous, strconv.FormatInt(int64(e.Seq), 10), e.EventID, string(e.Type), string(e.Key),
		e.RunID, e.TenantID, e.ProjectID, e.EnvironmentID, e.PlanID, e.PlanVersion, e.StepID, e.SignalID,
		strconv.Itoa(e.LogicalAttempt), strconv.Itoa(e.EngineAttempt), at(e.EmittedAt), at(e.PersistedAt),
		string(e.EmittedBy), string(e.Payload))
}

// LogSealObject returns the name of the seal of a run's log at an event, for AuditRow.Object. The names of one run sort
// in the order of the events.
func LogSealObject(runID string, seq run.Seq) string { return fmt.Sprintf("log/%s/%012d", runID, seq) }

// ParseLogSeal returns the seal of an audit row, from its Object and its Digest.
func ParseLogSeal(object, digest string) (LogSeal, error) {
	seq, err := strconv.ParseInt(object[strings.LastIndexByte(object, '/')+1:], 10, 64)
	hash, hashErr := hex.DecodeString(digest)
	if err != nil || hashErr != nil || len(hash) != sha256.Size || seq < 1 {
		return LogSeal{}, fmt.Errorf("store: the audit row of %q is not the seal of a log", object)
	}
	return LogSeal{Seq: run.Seq(seq), Hash: [sha256.Size]byte(hash)}, nil
}
