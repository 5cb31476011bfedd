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
	runID   = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)            // T12
	name    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`) // T13
	digest  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	anyUUID = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`) // T11
)

// maxText bounds names of foreign events that no pattern bounds.
const maxText = 256

// checkPlan reports whether a plan may be kept under its hash.
func checkPlan(r *reader, p *planLine) bool {
	sum := sha256.Sum256(p.Body)
	if got := hex.EncodeToString(sum[:]); got != p.SHA256 {
		r.bad("plan.sha256", "is %q; the body's is %s", p.SHA256, got)
		return false
	}
	return true
}

func checkRun(r *reader, u store.Run) {
	if !runID.MatchString(u.RunID) {
		r.bad("run.runId", "%q must match %s", u.RunID, runID)
	}
	for _, part := range []struct{ name, value string }{
		{"tenantId", u.TenantID}, {"projectId", u.ProjectID}, {"environmentId", u.EnvironmentID},
		{"planId", u.PlanID}, {"planVersion", u.PlanVersion},
	} {
		if !name.MatchString(part.value) {
			r.bad("run."+part.name, "%q must match %s", part.value, name)
		}
	}
	if u.RequestKey != "" && !digest.MatchString(string(u.RequestKey)) {
		r.bad("run.requestKey", "must be 64 lower-case hexadecimal digits")
	}
	if u.PlanRef.SHA256 != "" && !digest.MatchString(u.PlanRef.SHA256) {
		r.bad("run.planRef.sha256", "must be 64 lower-case hexadecimal digits")
	}
	checkTime(r, "run.createdAt", u.CreatedAt)
	checkJSON(r, "run.params", u.Params)
}

// checkEvent holds an event against its run and the events before it. Of a run
// that was not imported before, keys must be those that this program makes.
func checkEvent(r *reader, u *unit, e run.Event) {
	foreign := u.run.TriggerSource == TriggerImport
	if e.Identity != u.run.Identity {
		r.bad("event", "is of another run, tenant, project, environment or plan than run %s", u.run.RunID)
	}
	var last run.Event
	if n := len(u.events); n > 0 {
		last = u.events[n-1]
	}
	switch {
	case e.Seq <= last.Seq || e.Seq > run.MaxSeq:
		r.bad("event.runSeq", "%d does not follow %d", e.Seq, last.Seq)
	case e.Seq != last.Seq+1 && !foreign:
		r.bad("event.runSeq", "%d leaves a hole after %d", e.Seq, last.Seq)
	}
	if e.PersistedAt.Before(last.PersistedAt) && !foreign {
		r.bad("event.persistedAt", "is before that of the event before it")
	}
	if !anyUUID.MatchString(e.EventID) {
		r.bad("event.eventId", "%q is not a UUID", e.EventID)
	}
	if key := draftOf(e).Key(u.run.Identity); !foreign && e.Key != key {
		r.bad("event.idempotencyKey", "is not %s, which this event has", key)
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
	u.once(r, e)
}

// once finds keys and ends that stand twice (T10).
func (u *unit) once(r *reader, e run.Event) {
	if u.keys == nil {
		u.keys, u.ends = map[run.Key]bool{}, map[authority.Attempt]bool{}
	}
	if u.keys[e.Key] {
		r.bad("event.idempotencyKey", "stands in the run before")
	}
	u.keys[e.Key] = true
	var of authority.Attempt // the zero one is the run
	switch {
	case e.Type.EndsAttempt():
		of = authority.Attempt{StepID: e.StepID, Logical: e.LogicalAttempt}
	case !e.Type.EndsRun():
		return
	}
	if u.ends[of] {
		r.bad("event.eventType", "%s ends what ended before", e.Type)
	}
	u.ends[of] = true
}

func checkReceipt(r *reader, u *unit, c run.Receipt) {
	if c.RunID != u.run.RunID {
		r.bad("receipt.runId", "is %q within run %s", c.RunID, u.run.RunID)
	}
	checkText(r, "receipt.signal.signalId", c.Signal.ID)
	if u.signals == nil {
		u.signals, u.numbers = map[string]bool{}, map[int64]bool{}
	}
	if u.signals[c.Signal.ID] {
		r.bad("receipt.signal.signalId", "stands in the run before")
	}
	u.signals[c.Signal.ID] = true
	if c.No > 0 && u.numbers[c.No] {
		r.bad("receipt.no", "%d is another signal's", c.No)
	}
	u.numbers[c.No] = true
	if c.No < 0 || (c.No == 0) != c.Rejected {
		r.bad("receipt.no", "is %d; an accepted signal has a number, a rejected one has none", c.No)
	}
	checkTime(r, "receipt.receivedAt", c.ReceivedAt)
	checkJSON(r, "receipt.payload", c.Payload)
}

func checkAttempt(r *reader, path string, n int) {
	if n < 1 || n > math.MaxInt32 {
		r.bad(path, "%d must be from 1 to %d", n, math.MaxInt32)
	}
}

func checkText(r *reader, path, s string) {
	if s == "" || len(s) > maxText || strings.ContainsRune(s, 0) {
		r.bad(path, "must have from 1 to %d bytes, none of them zero", maxText)
	}
}

func checkTime(r *reader, path string, t time.Time) {
	if t.IsZero() || t.Year() < 0 || t.Year() > 9999 {
		r.bad(path, "must be a time in the years 0 to 9999")
	}
}

func checkJSON(r *reader, path string, raw json.RawMessage) {
	if raw != nil && !json.Valid(raw) {
		r.bad(path, "must be JSON")
	}
}
