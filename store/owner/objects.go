package owner

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// part is a column of an object that the digest in the audit covers.
type part struct{ name, sql string }

// partsOf lists the parts of the objects of a table; nil for a table without objects of the audit.
func partsOf(name string, dialect Dialect) (out []part) {
	d := &DB{dialect: dialect}
	columns := map[string]string{
		"run": "run_id project_id environment_id plan_id plan_version request_id request_key plan_ref triggered_by " +
			"trigger_source parent_run_id params",
		"signal": "run_id signal_id type step_id expected_attempt force payload actor reason no rejected rejection " +
			"reject_text accepted_seq",
		"approval_decision": "run_id principal approved reason request_id",
		"policy":            "version doc actor reason request_id",
		"setting":           "kind version doc actor reason request_id",
		"api_token":         "id kind name principal provider sha256 grants created_by",
	}
	for _, c := range strings.Fields(columns[name]) {
		out = append(out, part{c, d.asText(c)})
	}
	if name == "api_token" {
		groups, expires := `array_to_string(memberships, chr(31))`,
			`(extract(epoch FROM expires_at) * 1000000)::bigint::text`
		if dialect == SQLite {
			groups, expires = `(SELECT group_concat(value, char(31)) FROM json_each(memberships))`, `CAST(expires_at AS TEXT)`
		}
		out = append(out, part{"groups", groups}, part{"expires", expires})
	}
	return out
}

// objectOf returns the name and the digest of the object that a row is, from its parts; zero for another table.
func objectOf(name, tenantID string, p map[string]string) (out store.AuditRow) {
	var number int64
	is := func(part string) bool { return p[part] != "" && p[part] != "false" && p[part] != "0" }
	num := func(part string) int64 { _, _ = fmt.Sscan(p[part], &number); return number }
	switch name {
	case "run":
		r := store.Run{RequestID: p["request_id"], RequestKey: run.Key(p["request_key"]), TriggeredBy: p["triggered_by"],
			TriggerSource: p["trigger_source"], ParentRunID: p["parent_run_id"], Params: json.RawMessage(p["params"])}
		r.RunID, r.TenantID, r.ProjectID, r.EnvironmentID = p["run_id"], tenantID, p["project_id"], p["environment_id"]
		r.PlanID, r.PlanVersion = p["plan_id"], p["plan_version"]
		_ = json.Unmarshal([]byte(p["plan_ref"]), &r.PlanRef) // one that cannot be read has another digest than the row
		out = store.AuditRowOfRun(out, r)
	case "signal":
		s := run.SignalReceipt{RunID: p["run_id"], Payload: json.RawMessage(p["payload"]), Actor: p["actor"],
			Reason: p["reason"], No: num("no"), Rejected: is("rejected"), Rejection: run.Code(p["rejection"]),
			RejectText: p["reject_text"], AcceptedSeq: run.Seq(num("accepted_seq"))}
		s.Signal = run.Signal{ID: p["signal_id"], Type: run.SignalType(p["type"]), StepID: p["step_id"],
			ExpectedAttempt: int(num("expected_attempt")), Force: is("force")}
		out = store.AuditRowOfSignal(out, s)
	case "approval_decision":
		out = store.AuditRowOfDecision(out, p["run_id"], store.ApprovalDecision{Principal: p["principal"],
			Approved: is("approved"), Reason: p["reason"], RequestID: p["request_id"]})
	case "policy":
		out = store.AuditRowOfPolicy(out, store.StoredPolicy{TenantID: tenantID, Version: num("version"),
			Doc: json.RawMessage(p["doc"]), Actor: p["actor"], Reason: p["reason"], RequestID: p["request_id"]})
	case "setting":
		out = store.AuditRowOfSetting(out, store.StoredSetting{Kind: store.SettingKind(p["kind"]), TenantID: tenantID,
			Version: num("version"), Doc: json.RawMessage(p["doc"]), Actor: p["actor"], Reason: p["reason"],
			RequestID: p["request_id"]})
	case "api_token":
		t := store.StoredToken{ID: p["id"], Kind: store.TokenKind(p["kind"]), TenantID: tenantID, Name: p["name"],
			Principal: p["principal"], Provider: p["provider"], SHA256: p["sha256"], Grants: json.RawMessage(p["grants"]),
			CreatedBy: p["created_by"], ExpiresAt: time.UnixMicro(num("expires"))}
		if p["groups"] != "" {
			t.Groups = strings.Split(p["groups"], "\x1f")
		}
		out = store.AuditRowOfToken(out, t)
	}
	out.RunID = p["run_id"]
	return out
}
