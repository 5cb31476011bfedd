package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/dvt-engine/dvt/run"
)

// InlinePlan begins the URI of a plan whose document came with the request. Its body is in the store from the start.
const InlinePlan = "dvt:plan/"

// The actions of rows that a request for a run leaves.
const (
	actionStart = "START"
	actionRerun = "RERUN"
)

// MadeRun returns row as the row that made r. The digest covers all that was requested: the identity of the run, its
// plan's address and digest, who triggered it and from where, its request id, parent and params.
func MadeRun(row AuditRow, r Run) AuditRow {
	return madeBy(row, "run/"+r.RunID, "run", r.RunID, r.TenantID, r.ProjectID, r.EnvironmentID, r.PlanID, r.PlanVersion,
		r.RequestID, r.PlanRef.URI, r.PlanRef.SHA256, r.TriggeredBy, r.TriggerSource, r.ParentRunID, string(r.Params))
}

// MadeSignal returns row as the row that made a receipt. The digest covers the signal, its sender and the decision; it
// does not cover the receipt's progress (Application, AppliedSeq, QuiescentSeq and times), which moves with the run.
func MadeSignal(row AuditRow, r run.Receipt) AuditRow {
	s := r.Signal
	return madeBy(row, "signal/"+r.RunID+"/"+s.ID, "signal", r.RunID, s.ID, string(s.Type), s.StepID,
		strconv.Itoa(s.ExpectedAttempt), strconv.FormatBool(s.Force), string(r.Payload), r.Actor, r.Reason,
		strconv.FormatInt(r.No, 10), strconv.FormatBool(r.Rejected), string(r.Rejection), r.RejectText,
		strconv.FormatInt(int64(r.AcceptedSeq), 10))
}

// ImportRows returns the rows that make an imported run and its receipts, without ids.
func ImportRows(r Run, receipts []run.Receipt) []AuditRow {
	row := AuditRow{TenantID: r.TenantID, Actor: sealActor, Action: ActionImport, RunID: r.RunID, Outcome: "ACCEPTED"}
	rows := []AuditRow{MadeRun(row, r)}
	for _, rc := range receipts {
		rc.RunID, row.SignalID = r.RunID, rc.Signal.ID
		rows = append(rows, MadeSignal(row, rc))
	}
	return rows
}

// MaxCheckedRuns bounds the runs of one page of AuditObjects. The store hashes the plans of the page, each once.
const MaxCheckedRuns = 50

// CheckRun compares a run with the row that made it; a row without an ID means that there is none. planSum is the
// PlanSum of the body that the store holds, "" when it holds none: only a run of an inline plan must have one.
func CheckRun(r Run, made AuditRow, planSum string) AuditObject {
	o := check(r.TenantID, MadeRun(AuditRow{}, r), made)
	if made.Action == actionStart || made.Action == actionRerun {
		o.differs("requester", r.TriggeredBy, made.Actor)
		o.startDiffers(r, made.Detail)
	}
	if planSum != "" || strings.HasPrefix(r.PlanRef.URI, InlinePlan) {
		o.differs("digest of the stored plan", planSum, r.PlanRef.SHA256)
	}
	return o
}

// startDiffers compares a run with the detail of its START or RERUN row. Older rows name fewer facts.
func (o *AuditObject) startDiffers(r Run, detail json.RawMessage) {
	var recorded map[string]any
	if json.Unmarshal(detail, &recorded) != nil {
		return
	}
	for _, f := range []struct{ key, fact, stored string }{
		{"projectId", "project", r.ProjectID},
		{"environmentId", "environment", r.EnvironmentID},
		{"planId", "plan", r.PlanID},
		{"planVersion", "plan version", r.PlanVersion},
		{"planSha256", "digest of the plan", r.PlanRef.SHA256},
		{"parentRunId", "parent run", r.ParentRunID},
	} {
		if text, ok := recorded[f.key].(string); ok {
			o.differs(f.fact, f.stored, text)
		}
	}
}

// CheckSignal compares a receipt of a tenant's run with the row that made it; a row without an ID means that there is
// none.
func CheckSignal(tenantID string, r run.Receipt, made AuditRow) AuditObject {
	o := check(tenantID, MadeSignal(AuditRow{}, r), made)
	if made.ID != "" && made.Action != ActionImport {
		o.differs("actor", r.Actor, made.Actor)
		o.differs("type", string(r.Signal.Type), made.Action)
		o.differs("reason", r.Reason, made.Reason)
	}
	return o
}

// check compares the digest of an object as it is with the one that a row recorded.
func check(tenantID string, now, made AuditRow) AuditObject {
	return AuditObject{
		TenantID: tenantID, Object: now.Object, Digest: now.Digest, Made: made.Digest,
		Uncovered: made.ID != "" && made.Object == "",
	}
}

// differs adds a difference when the store holds another text than the row, which AuditRow.Fit may have cut.
func (o *AuditObject) differs(fact, stored, recorded string) {
	if run.Text(stored, MaxRowText) != recorded {
		o.Differences = append(o.Differences, AuditDifference{Fact: fact, Stored: stored, Recorded: recorded})
	}
}

// PlanSum is SHA-256 of a plan's body in lower-case hex, as plan.Ref has it.
func PlanSum(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
