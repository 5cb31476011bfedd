package run

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// Key returns the idempotency key of d as an event of the run id (contract T03, T05): the lower-case hex SHA-256 of
// runId|subject|logicalAttemptId|eventType|planId|planVersion. The key does not depend on the engine attempt, the times
// and the payload, so that every repetition of one fact has the same key; only that of a StepNodesReported has the
// engine attempt and the number of the batch.
func (d Draft) Key(id Identity) Key {
	return digest(id.RunID, d.subject(), strconv.Itoa(d.LogicalAttempt), string(d.Type), id.PlanID, id.PlanVersion)
}

// subject returns the part of the key that names the step, the signal or the run. Step ids have no colon, so the
// subject of a step never equals the subject of a signal (contract T07, T13). One engine attempt reports many batches
// of nodes, so their subject also names the engine attempt and the batch.
func (d Draft) subject() string {
	switch {
	case d.Type == StepNodesReported:
		p, _ := PayloadOf[nodesBatch](d.Payload) // Validate checks the number
		return d.StepID + ":" + strconv.Itoa(d.EngineAttempt) + ":" + strconv.Itoa(p.Batch)
	case d.Type == SignalAccepted || d.Type == SignalRejected:
		return "SIGNAL:" + d.SignalID
	case d.StepID != "":
		return d.StepID
	default:
		return "RUN"
	}
}

// RequestKey returns the key that makes a request for a run unique (contract T03, T08, T138). No event has this key.
func RequestKey(tenantID, projectID, environmentID, planID, planVersion, requestID string) Key {
	return digest(tenantID, projectID, environmentID, planID, planVersion, requestID)
}

func digest(parts ...string) Key {
	sum := sha256.Sum256([]byte(strings.Join(parts, "|")))
	return Key(hex.EncodeToString(sum[:]))
}

// EventID derives the id of the event with this key: SHA-256("event|"+key) in the form of a v4 UUID. Every process that
// knows the fact can compute its id (contract T198).
func (k Key) EventID() string {
	sum := sha256.Sum256([]byte("event|" + string(k)))
	sum[6] = sum[6]&0x0f | 0x40
	sum[8] = sum[8]&0x3f | 0x80
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
