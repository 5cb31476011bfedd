package storeadmin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

var (
	runID  = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)
	name   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	digest = regexp.MustCompile(`^[0-9a-f]{64}$`)
	// anyUUID accepts every version of UUID, because older programs wrote others than version 4 (contract T11).
	anyUUID = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
)

// maxText limits the texts of events for which there is no pattern, in bytes.
const maxText = 256

// checkPlan reports whether the hash of a plan is that of its body.
func checkPlan(r *reader, p *planLine) bool {
	sum := sha256.Sum256(p.Body)
	if got := hex.EncodeToString(sum[:]); got != p.SHA256 {
		r.reject("plan.sha256", "is %q, but the SHA-256 of the body is %s", p.SHA256, got)
		return false
	}
	return true
}

// checkRun checks the facts of a run.
func checkRun(r *reader, u store.Run) {
	if !runID.MatchString(u.RunID) {
		r.reject("run.runId", "%q must match %s", u.RunID, runID)
	}
	for _, part := range []struct{ name, value string }{
		{"tenantId", u.TenantID}, {"projectId", u.ProjectID}, {"environmentId", u.EnvironmentID},
		{"planId", u.PlanID}, {"planVersion", u.PlanVersion},
	} {
		if !name.MatchString(part.value) {
			r.reject("run."+part.name, "%q must match %s", part.value, name)
		}
	}
	if u.RequestKey != "" && !digest.MatchString(string(u.RequestKey)) {
		r.reject("run.requestKey", "must be 64 lower-case hexadecimal digits")
	}
	if u.PlanRef.SHA256 != "" && !digest.MatchString(u.PlanRef.SHA256) {
		r.reject("run.planRef.sha256", "must be 64 lower-case hexadecimal digits")
	}
	checkTime(r, "run.createdAt", u.CreatedAt)
	checkJSON(r, "run.params", u.Params)
}

// checkEvent checks an event, also against its run and the events before it. In a run of version 1, keys, numbers and
// times may be those of another program, see TriggerImport.
func checkEvent(r *reader, u *unit, e run.Event) {
	foreign := u.run.TriggerSource == TriggerImport
	if e.Identity != u.run.Identity {
		r.reject("event", "belongs to another run, tenant, project, environment or plan than run %s", u.run.RunID)
	}
	var last run.Event
	if n := len(u.events); n > 0 {
		last = u.events[n-1]
	}
	switch {
	case e.Seq <= last.Seq || e.Seq > run.MaxSeq:
		r.reject("event.runSeq", "%d does not follow %d", e.Seq, last.Seq)
	case e.Seq != last.Seq+1 && !foreign:
		r.reject("event.runSeq", "%d leaves a hole after %d", e.Seq, last.Seq)
	}
	if e.PersistedAt.Before(last.PersistedAt) && !foreign {
		r.reject("event.persistedAt", "must not be before the time of the previous event")
	}
	if !anyUUID.MatchString(e.EventID) {
		r.reject("event.eventId", "%q is not a UUID", e.EventID)
	}
	if key := draftOf(e).Key(u.run.Identity); !foreign && e.Key != key {
		r.reject("event.idempotencyKey", "must be %s, the key of this event", key)
	}
	checkText(r, "event.idempotencyKey", string(e.Key))
	checkText(r, "event.eventType", string(e.Type))
	for _, part := range []struct{ path, value string }{
		{"event.stepId", e.StepID}, {"event.signalId", e.SignalID}, {"event.emittedBy", string(e.EmittedBy)},
	} {
		if part.value != "" {
			checkText(r, part.path, part.value)
		}
	}
	checkAttempt(r, "event.logicalAttemptId", e.LogicalAttempt)
	checkAttempt(r, "event.engineAttemptId", e.EngineAttempt)
	checkTime(r, "event.emittedAt", e.EmittedAt)
	checkTime(r, "event.persistedAt", e.PersistedAt)
	checkJSON(r, "event.payload", e.Payload)
	u.checkOnce(r, e)
}

// checkOnce checks that no earlier event of the run has the same key or ends the same attempt, or the run.
func (u *unit) checkOnce(r *reader, e run.Event) {
	if u.keys == nil {
		u.keys, u.ends = map[run.Key]bool{}, map[authority.Attempt]bool{}
	}
	if u.keys[e.Key] {
		r.reject("event.idempotencyKey", "is also the key of an earlier event of the run")
	}
	u.keys[e.Key] = true
	var of authority.Attempt // the zero value stands for the run
	switch {
	case e.Type.EndsAttempt():
		of = authority.Attempt{StepID: e.StepID, Logical: e.LogicalAttempt}
	case !e.Type.EndsRun():
		return
	}
	if u.ends[of] {
		r.reject("event.eventType", "%s is a second end of the same run or attempt", e.Type)
	}
	u.ends[of] = true
}

// checkReceipt checks a receipt, also against its run and the receipts before it.
func checkReceipt(r *reader, u *unit, c run.SignalReceipt) {
	if c.RunID != u.run.RunID {
		r.reject("receipt.runId", "is %q, but the receipt is among the lines of run %s", c.RunID, u.run.RunID)
	}
	checkText(r, "receipt.signal.signalId", c.Signal.ID)
	if u.signals == nil {
		u.signals, u.numbers = map[string]bool{}, map[int64]bool{}
	}
	if u.signals[c.Signal.ID] {
		r.reject("receipt.signal.signalId", "is also the id of an earlier receipt of the run")
	}
	u.signals[c.Signal.ID] = true
	if c.No > 0 && u.numbers[c.No] {
		r.reject("receipt.no", "%d is also the number of another signal", c.No)
	}
	u.numbers[c.No] = true
	if c.No < 0 || (c.No == 0) != c.Rejected {
		r.reject("receipt.no", "is %d; an accepted signal must have a number above 0, a rejected one must have none", c.No)
	}
	checkTime(r, "receipt.receivedAt", c.ReceivedAt)
	checkJSON(r, "receipt.payload", c.Payload)
}

func checkAttempt(r *reader, path string, n int) {
	if n < 1 || n > math.MaxInt32 {
		r.reject(path, "%d must be from 1 to %d", n, math.MaxInt32)
	}
}

func checkText(r *reader, path, s string) {
	if s == "" || len(s) > maxText || strings.ContainsRune(s, 0) {
		r.reject(path, "must have from 1 to %d bytes and no zero byte", maxText)
	}
}

func checkTime(r *reader, path string, t time.Time) {
	if t.IsZero() || t.Year() < 0 || t.Year() > 9999 {
		r.reject(path, "must be a time in the years 0 to 9999")
	}
}

func checkJSON(r *reader, path string, raw json.RawMessage) {
	if raw != nil && !json.Valid(raw) {
		r.reject(path, "must be JSON")
	}
}
