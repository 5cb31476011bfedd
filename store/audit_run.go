package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// InlinePlan is the prefix of the URI of a plan whose document came with the request. The store has its body from the
// creation of the run on.
const InlinePlan = "dvt:plan/"

// Actions of the audit rows of requests for a run.
const (
	actionStart = "START"
	actionRerun = "RERUN"
)

// AuditRowOfRun returns row as the audit row that made r. The digest covers the whole request: the identity of the run,
// its request id and request key, the whole reference of its plan, its requester, trigger source, parent run and
// params.
func AuditRowOfRun(row AuditRow, r Run) AuditRow {
	ref := r.PlanRef
	return auditRowOf(row, "run/"+r.RunID, "run", r.RunID, r.TenantID, r.ProjectID, r.EnvironmentID, r.PlanID,
		r.PlanVersion,
		r.RequestID, string(r.RequestKey), ref.URI, ref.SHA256, ref.SchemaVersion, ref.PlanID, ref.PlanVersion,
		strconv.FormatInt(ref.SizeBytes, 10), ref.Compression, r.TriggeredBy, r.TriggerSource, r.ParentRunID,
		string(r.Params))
}

// AuditRowOfSignal returns row as the audit row that made a receipt. The digest covers the signal, its sender and the
// decision. It does not cover the progress of the receipt (Application, AppliedSeq, QuiescentSeq and times), which
// changes with the run.
func AuditRowOfSignal(row AuditRow, r run.SignalReceipt) AuditRow {
	s := r.Signal
	return auditRowOf(row, "signal/"+r.RunID+"/"+s.ID, "signal", r.RunID, s.ID, string(s.Type), s.StepID,
		strconv.Itoa(s.ExpectedAttempt), strconv.FormatBool(s.Force), string(r.Payload), r.Actor, r.Reason,
		strconv.FormatInt(r.No, 10), strconv.FormatBool(r.Rejected), string(r.Rejection), r.RejectText,
		strconv.FormatInt(int64(r.AcceptedSeq), 10))
}

// ImportRows returns the audit rows of an imported run and its receipts. The caller sets their ids.
func ImportRows(r Run, receipts []run.SignalReceipt) []AuditRow {
	row := AuditRow{TenantID: r.TenantID, Actor: sealActor, Action: ActionImport, RunID: r.RunID, Outcome: "ACCEPTED"}
	rows := []AuditRow{AuditRowOfRun(row, r)}
	for _, rc := range receipts {
		rc.RunID, row.SignalID = r.RunID, rc.Signal.ID
		rows = append(rows, AuditRowOfSignal(row, rc))
	}
	return rows
}

// MaxCheckedRuns limits the runs of one page of AuditObjects, because the store hashes the plans of a page, each once.
const MaxCheckedRuns = 50

// maxRowDelay bounds the time between an object and its audit row. One transaction writes both by one clock.
const maxRowDelay = 5 * time.Minute

// CheckedRun is a run as the store holds it, with everything that Check compares it with.
type CheckedRun struct {
	Run             Run             // without PlanRef and Policy until Decode
	PlanRef, Policy json.RawMessage // as stored
	Made            AuditLink       // the row that made the run; a row without an ID means that there is none
	// PlanSum is the PlanSum of the plan's body in the store, "" when the store has no body.
	PlanSum   string
	Approvals int // required ones; 0 when the run needed none
	HasHead   bool
	HeadEnded bool    // as the head says
	HeadSeq   run.Seq // of the last event, as the head says
	LogEnded  bool    // the log has an event that ends the run
	LogSeq    run.Seq // of the last event of the log

	unreadable []AuditDifference
}

// Decode decodes PlanRef and Policy. Check reports one that cannot be decoded.
func (c *CheckedRun) Decode() {
	for _, d := range []struct {
		name string
		raw  json.RawMessage
		into any
	}{{"plan reference", c.PlanRef, &c.Run.PlanRef}, {"policy", c.Policy, &c.Run.Policy}} {
		if err := json.Unmarshal(d.raw, d.into); err != nil {
			c.unreadable = append(c.unreadable, AuditDifference{Note: fmt.Sprintf("its %s cannot be read: %v", d.name, err)})
		}
	}
}

// PlanDigests returns the digests of the plans of runs, each once. It leaves out texts that are no digests.
func PlanDigests(runs []CheckedRun) (out []string) {
	for _, c := range runs {
		sum := c.Run.PlanRef.SHA256
		if raw, err := hex.DecodeString(sum); err == nil && len(raw) == sha256.Size {
			out = append(out, sum)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Check compares a run with the audit row that made it, its plan with its digest, and its head with its log. Only an
// inline plan must be in the store: another one may not have been fetched yet.
func (c CheckedRun) Check() AuditObject {
	r, made := c.Run, *c.Made.Row
	o := check(r.TenantID, AuditRowOfRun(AuditRow{}, r), c.Made)
	o.Cursor, o.Differences = r.RunID, c.unreadable
	if made.Action == actionStart || made.Action == actionRerun {
		if KeyOfActor(made.Actor) == "" { // the digest covers the requester, too
			o.differs("requester", r.TriggeredBy, made.Actor)
		}
		o.differsInTime("time of creation", r.CreatedAt, made.At)
		o.startDiffers(r, c.Approvals, made.Detail)
	}
	switch {
	case len(c.unreadable) > 0 && r.PlanRef.SHA256 == "": // the plan has no digest
	case c.PlanSum == "" && strings.HasPrefix(r.PlanRef.URI, InlinePlan):
		o.note("the stored plan was removed")
	case c.PlanSum != "":
		o.differs("digest of the stored plan", c.PlanSum, r.PlanRef.SHA256)
	}
	switch {
	case !c.HasHead:
		o.note("its head was removed")
	case c.HeadEnded && !c.LogEnded:
		o.note("its head says that it has ended, and its log has no end")
	case !c.HeadEnded && c.LogEnded:
		o.note("its head says that it is open, and its log has an end")
	case c.HeadSeq != c.LogSeq:
		o.note(fmt.Sprintf("its head names %d as the last event, and its log ends at %d", c.HeadSeq, c.LogSeq))
	}
	return o
}

// startDiffers compares a run with the detail of its START or RERUN row. A fact that the row does not name is "".
func (o *AuditObject) startDiffers(r Run, approvals int, detail json.RawMessage) {
	var recorded struct {
		ProjectID, EnvironmentID, PlanID, PlanVersion, PlanSHA256, ParentRunID string
		Approvals                                                              int
	}
	if err := json.Unmarshal(detail, &recorded); err != nil {
		o.note(fmt.Sprintf("the detail of the row cannot be read: %v", err))
		return
	}
	for _, f := range []struct{ fact, stored, recorded string }{
		{"project", r.ProjectID, recorded.ProjectID},
		{"environment", r.EnvironmentID, recorded.EnvironmentID},
		{"plan", r.PlanID, recorded.PlanID},
		{"plan version", r.PlanVersion, recorded.PlanVersion},
		{"digest of the plan", r.PlanRef.SHA256, recorded.PlanSHA256},
		{"parent run", r.ParentRunID, recorded.ParentRunID},
		{"number of approvals", strconv.Itoa(approvals), strconv.Itoa(recorded.Approvals)},
	} {
		o.differs(f.fact, f.stored, f.recorded)
	}
}

// CheckSignal compares a receipt of a tenant's run with the audit row that made it; a row without an ID means that
// there is none. eventTime says that the receipt arrived later than its row says, at the time of an event of its run.
// That is no difference: a receipt never precedes the newest event, whereas the row has the time of the clock, which
// may have been set back.
func CheckSignal(tenantID string, r run.SignalReceipt, by AuditLink, eventTime bool) AuditObject {
	made := *by.Row
	o := check(tenantID, AuditRowOfSignal(AuditRow{}, r), by)
	if made.ID != "" && made.Action != ActionImport {
		if KeyOfActor(made.Actor) == "" { // the digest covers actor and reason, too
			o.differs("actor", r.Actor, made.Actor)
			o.differs("reason", r.Reason, made.Reason)
		}
		o.differs("type", string(r.Signal.Type), made.Action)
		if !eventTime {
			o.differsInTime("time of arrival", r.ReceivedAt, made.At)
		}
	}
	return o
}

// check returns the object with the digest of its content now and the digest that its row recorded.
func check(tenantID string, now AuditRow, made AuditLink) AuditObject {
	return AuditObject{
		TenantID: tenantID, Object: now.Object, Digest: now.Digest, Made: made.Row.Digest, MadeNo: made.No,
	}
}

// differsInTime adds a difference when a stored time is further than maxRowDelay from that of the row.
func (o *AuditObject) differsInTime(fact string, stored, recorded time.Time) {
	if stored.Sub(recorded).Abs() > maxRowDelay {
		o.differs(fact, stored.UTC().Format(time.RFC3339), recorded.UTC().Format(time.RFC3339))
	}
}

// note adds a difference that has no two values.
func (o *AuditObject) note(note string) {
	o.Differences = append(o.Differences, AuditDifference{Note: note})
}

// differs adds a difference when the stored text is not the recorded one. The stored text is cut first, because
// AuditRow.Fit may have cut the recorded one.
func (o *AuditObject) differs(fact, stored, recorded string) {
	if run.Text(stored, MaxRowText) != recorded {
		o.Differences = append(o.Differences, AuditDifference{Fact: fact, Stored: stored, Recorded: recorded})
	}
}

// PlanSum returns the SHA-256 of a plan's body in lower-case hex, as in plan.Ref.
func PlanSum(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
