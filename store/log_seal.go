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

// ActionSealLog is the action of rows by which dvt seals the log of a run up to an event.
const ActionSealLog = "SEAL_LOG"

// sealActor acts in rows of seals: no person asks for one.
const sealActor = "dvt"

// LogSeal is the hash of a run's log up to an event. The zero value is the seal of an empty log.
type LogSeal struct {
	Seq  run.Seq           // of the last event that the hash covers
	Hash [sha256.Size]byte // of that event, as NextLogHash computes it
}

// LogSeals finds seals of logs. A seal is a row of the audit, so the tenant's chain and its signed heads cover it.
type LogSeals interface {
	// LastLogSeal returns the newest seal of a run below an event, which need not exist; the zero value when there is
	// none. Of several rows for one event the first of the chain counts, so that a later row excuses no change. A row
	// that has not the form of a seal does not count, so that nobody keeps the seals of a run out by one.
	LastLogSeal(ctx context.Context, tenantID, runID string, below run.Seq) (LogSeal, error)
}

// sealedLogs is what SealLog and LogHash read.
type sealedLogs interface {
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
}

// ErrLogShort says that a log ends before an event that it should have.
var ErrLogShort = errors.New("store: the log ends before that event")

// SealLog returns the audit row that seals the log of a run up to an event, by its events since an earlier seal, which
// LastLogSeal found. ErrLogShort when the log does not reach the event.
// The caller gives the row a random id and writes it: a row under an id that somebody can guess and write first would
// keep the seal out. Two callers at once make two rows that say the same, which is harmless.
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

// LogHash computes the seal of a run's log at an event from an earlier seal and the events between them, MaxPage at a
// time. ErrLogShort when the log does not reach the event or lacks one before it.
func LogHash(ctx context.Context, s sealedLogs, runID string, from LogSeal, to run.Seq) (LogSeal, error) {
	if from.Seq > to {
		return LogSeal{}, fmt.Errorf("store: the seal at event %d of run %s lies behind event %d", from.Seq, runID, to)
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

// NextLogHash is the hash of an event as the next one of its log after a seal: SHA-256 over the strings log1, the hash
// before in hex (empty for the first event), runSeq, eventId, eventType, idempotencyKey, runId, tenantId, projectId,
// environmentId, planId, planVersion, stepId, signalId, logicalAttemptId, engineAttemptId, emittedAt and persistedAt
// (RFC 3339 in UTC with six digits), emittedBy and payload (the JSON text as the store returns it), each written as its
// length in bytes, a colon and itself.
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

// LogSealObject names the seal of a run's log at an event in AuditRow.Object. Names of one run order as their events.
func LogSealObject(runID string, seq run.Seq) string { return fmt.Sprintf("log/%s/%012d", runID, seq) }

// ParseLogSeal reads a seal from the object and the digest of its row.
func ParseLogSeal(object, digest string) (LogSeal, error) {
	seq, err := strconv.ParseInt(object[strings.LastIndexByte(object, '/')+1:], 10, 64)
	hash, hashErr := hex.DecodeString(digest)
	if err != nil || hashErr != nil || len(hash) != sha256.Size || seq < 1 {
		return LogSeal{}, fmt.Errorf("store: the audit row of %q is no seal of a log", object)
	}
	return LogSeal{Seq: run.Seq(seq), Hash: [sha256.Size]byte(hash)}, nil
}
