// One sentence for an audit record: its effect, or the request and the reason of its refusal.
import { operations } from "../messages/auditOperations";
import type { AuditFieldsFragment } from "../api/gen/graphql";
import { instant } from "../api/model";
import { dateTime, type Zone, zoneName } from "../format/format";
import { m } from "../messages";
import { audit as auditWords } from "../messages/audit";
import { service as serviceWords } from "../messages/service";
import { actionWords, type Known, known, nameOf, objectWords } from "./words";

type Row = Pick<NonNullable<AuditFieldsFragment["row"]>, "action" | "outcome" | "code" | "detail" | "reason">;

export interface Sentence {
  text: string;
  /** The differences that a change of the policy or of the quotas made, one per line. */
  lines: readonly string[];
  /** Where more stands about the object of the record. */
  to:
    | { kind: "policy" | "quotas" | "tokens" | "service" | "retention" | "erasure" }
    | { kind: "plan"; planId: string; projectId: string; environmentId: string }
    | { kind: "bulk"; id: string }
    | null;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function number(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

function time(value: unknown, zone: Zone): string {
  return typeof value === "string" ? `${dateTime(instant(value), zone)} ${zoneName(zone)}` : "";
}

function role(value: unknown): string {
  const roles: Readonly<Record<string, string>> = m.role;
  return roles[text(value)] ?? text(value);
}

/** What a token may do at most, such as "Viewer in shop / *". */
function grants(value: unknown): string {
  if (!Array.isArray(value)) return "";
  return value
    .map((grant: Partial<Record<"role" | "project" | "environment", unknown>>) =>
      auditWords.did.grant(
        role(grant.role),
        grant.project === "*" ? m.policy.everywhere : m.policy.scope(text(grant.project), text(grant.environment)),
      ),
    )
    .join(", ");
}

/** The sentence of an accepted record; null when its action and object say it. */
function deed(row: Row, detail: Known, named: string, zone: Zone): string | null {
  const { did } = auditWords;
  const { action } = row;
  const modes: Readonly<Record<string, string>> = serviceWords.modes;
  const outcomes: Readonly<Record<string, string>> = m.inbox.outcome;
  const plan = auditWords.plan(text(detail.planId), text(detail.planVersion));
  const where = `${text(detail.projectId)} / ${text(detail.environmentId)}`;
  const needs = number(detail.approvals) > 0 ? did.needs(number(detail.approvals)) : "";
  const erasing = operations.erasing[text(detail.kind)] ?? "";
  switch (action) {
    case "SET_POLICY":
      return did.policy(number(detail.policyVersion));
    case "SET_QUOTA":
      return did.quotas(number(detail.quotaVersion));
    case "BREAK_GLASS":
      return detail.role ? did.broke(role(detail.role), number(detail.minutes), time(detail.until, zone)) : null;
    case "END_BREAK_GLASS":
      return detail.role ? did.unbroke(role(detail.role), time(detail.until, zone)) : null;
    case "START":
      return detail.planId ? did.started(plan, where) + needs : null;
    case "RERUN":
      return detail.planId ? did.reran(plan, where) + needs : null;
    case "FREEZE_TENANT":
      return detail.frozen === false ? did.unfroze : did.froze;
    case "SET_ENGINE_MODE":
      return did.mode(modes[text(detail.mode)] ?? text(detail.mode));
    case "SET_SHARE_LINKS":
      return number(detail.hours) > 0 && detail.hours === detail.hoursBefore
        ? did.revokedLinks(number(detail.hours))
        : did.links(number(detail.hours));
    case "LINK_ARTIFACT":
      return operations.linked(text(detail.uri));
    case "SHARE_RUN":
      return did.link(time(detail.expiresAt, zone));
    case "APPROVE":
      return detail.decision === "REJECT" ? did.rejected : did.approved;
    case "COMPLETE_MANUAL_STEP":
      return detail.outcome ? did.completed(text(detail.stepId), outcomes[text(detail.outcome)] ?? "") : null;
    case "CREATE_TOKEN":
      // The reason of this record is the name of the token.
      return detail.principal
        ? did.token(
            row.reason.replace(/^token /, ""),
            grants(detail.grants),
            text(detail.principal),
            time(detail.expiresAt, zone),
          )
        : null;
    case "REVOKE_TOKEN":
      return did.revoked(text(detail.name) || auditWords.did.aToken);
    case "ACKNOWLEDGE_ALERT":
      return operations.acknowledged(text(detail.code));
    case "SILENCE_ALERTS":
      return operations.silenced(which(detail), time(detail.until, zone));
    case "END_SILENCE":
      return operations.unsilenced(which(detail));
    case "DRAIN_WORKER":
      return operations.drained(text(detail.worker));
    case "END_WORKER_DRAIN":
      return operations.undrained(text(detail.worker));
    case "SET_RECOVERY":
      return operations.recovery(text(detail.mode));
    case "SIGNAL_RUNS":
      return did.bulk(nameOf(text(detail.signal)), number(detail.runs));
    case "PAUSE":
    case "RESUME":
    case "RETRY_STEP":
    case "SKIP_STEP":
    case "UPDATE_PARAMS":
    case "INJECT_OVERRIDE":
    case "UPDATE_TARGET":
    case "ESCALATE_ALERT":
    case "EMERGENCY_STOP":
    case "CANCEL":
      return did.sent(named);
    case "PLACE_HOLD":
      return operations.held(text(detail.kind), text(detail.subject));
    case "REQUEST_ERASURE":
      return operations.erasureAsked(erasing);
    case "CONFIRM_ERASURE":
      return operations.erasureConfirmed(erasing);
    case "CANCEL_ERASURE":
      return operations.erasureCancelled(erasing);
    case "SET_RETENTION":
      return operations.retention(number(detail.retentionVersion));
    case "RETAIN":
      return operations.retained(number(detail.archived), number(detail.deleted));
    default:
      return auditWords.done[action] ?? done(action, text(detail.destination));
  }
}

function done(action: string, destination: string): string | null {
  const words = operations.done[action];
  return words === undefined ? null : `${words} ${destination}`.trimEnd();
}

/** Which alerts a silence is of. */
function which({ code, planId, projectId }: Known): string {
  const words = operations.which;
  const parts = [
    text(code) && words.code(text(code)),
    text(planId) && words.plan(text(planId)),
    text(planId) === "" && text(projectId) && words.project(text(projectId)),
  ].filter((part) => part !== "" && part !== false);
  return parts.length > 0 ? parts.join(" ") : words.run;
}

function target(action: string, detail: Known): Sentence["to"] {
  if (["SET_POLICY", "BREAK_GLASS", "END_BREAK_GLASS"].includes(action)) return { kind: "policy" };
  if (action === "SET_QUOTA") return { kind: "quotas" };
  if (["SET_RETENTION", "RETAIN", "PLACE_HOLD", "LIFT_HOLD"].includes(action)) return { kind: "retention" };
  if (["REQUEST_ERASURE", "CONFIRM_ERASURE", "CANCEL_ERASURE"].includes(action)) return { kind: "erasure" };
  if (action === "CREATE_TOKEN" || action === "REVOKE_TOKEN") return { kind: "tokens" };
  if (["FREEZE_TENANT", "SET_ENGINE_MODE", "SET_SHARE_LINKS"].includes(action)) return { kind: "service" };
  if (typeof detail.bulkId === "string") return { kind: "bulk", id: detail.bulkId };
  // Only records of a run name the environment of its plan too.
  if (typeof detail.planId !== "string" || typeof detail.environmentId !== "string") return null;
  const { planId } = detail;
  return { kind: "plan", planId, projectId: text(detail.projectId), environmentId: text(detail.environmentId) };
}

export function sentenceOf(row: Row, zone: Zone): Sentence {
  const detail = known(row.detail);
  const named = [actionWords(row), objectWords(row)].filter((part) => part !== "").join(": ");
  if (row.outcome === "ESCALATED") return { text: auditWords.escalated(row.code), lines: [], to: null };
  const breaker = row.action === "BREAKER" ? auditWords.breaker[row.outcome] : undefined;
  if (breaker !== undefined) return { text: breaker, lines: [], to: null };
  if (row.outcome !== "ACCEPTED") {
    const why = auditWords.why[row.code] ?? auditWords.whyOther;
    const more = number(detail.repeatedBefore) > 0 ? `. ${auditWords.more(number(detail.repeatedBefore))}` : "";
    const asked = row.action === "READ" ? auditWords.askedToSee : auditWords.asked(named);
    return { text: `${asked}; ${why}${more}`, lines: [], to: null };
  }
  const lines = Array.isArray(detail.changed) ? detail.changed.map(String) : [];
  return { text: deed(row, detail, named, zone) ?? named, lines, to: target(row.action, detail) };
}
