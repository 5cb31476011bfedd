// What an audit record says in words: its action, and the object that its detail names.
import { operationNames, operations } from "../messages/auditOperations";
import type { AuditFieldsFragment } from "../api/gen/graphql";
import { m } from "../messages";
import { audit as auditWords } from "../messages/audit";
import { service as serviceWords } from "../messages/service";

type Row = NonNullable<AuditFieldsFragment["row"]>;

/** The members of a detail that have words. The server writes them; other members stay in the detail. */
export interface Known {
  projectId?: unknown;
  environmentId?: unknown;
  approvals?: unknown;
  changed?: unknown;
  role?: unknown;
  minutes?: unknown;
  until?: unknown;
  hours?: unknown;
  hoursBefore?: unknown;
  name?: unknown;
  grants?: unknown;
  expiresAt?: unknown;
  decision?: unknown;
  outcome?: unknown;
  principal?: unknown;
  signal?: unknown;
  runs?: unknown;
  uri?: unknown;
  bulkId?: unknown;
  repeatedBefore?: unknown;
  code?: unknown;
  worker?: unknown;
  stepId?: unknown;
  force?: unknown;
  notes?: unknown;
  planId?: unknown;
  planVersion?: unknown;
  frozen?: unknown;
  mode?: unknown;
  quotaVersion?: unknown;
  policyVersion?: unknown;
  retentionVersion?: unknown;
  archived?: unknown;
  deleted?: unknown;
  kind?: unknown;
  destination?: unknown;
  subject?: unknown;
}

export function known(detail: string): Known {
  if (detail === "") return {};
  try {
    const value: unknown = JSON.parse(detail);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}

/** The name of an action; an unknown one keeps the server's name, so that a filter by it works. */
export function nameOf(action: string): string {
  const shared: Readonly<Record<string, string>> = m.action;
  return operationNames[action] ?? auditWords.actions[action] ?? shared[action] ?? action;
}

export function actionWords({ action, detail }: Pick<Row, "action" | "detail">): string {
  return action === "FREEZE_TENANT" && known(detail).frozen === false ? auditWords.unfreeze : nameOf(action);
}

/** The object of an action within or beside its run, such as "step load"; empty when the detail names none. */
export function objectWords({ action, outcome, detail }: Pick<Row, "action" | "outcome" | "detail">): string {
  const { stepId, force, planId, planVersion, mode, quotaVersion, policyVersion } = known(detail);
  // A refusal names the version of the policy that refused it, which is not its object.
  const made = outcome === "ACCEPTED" && ["SET_POLICY", "BREAK_GLASS"].includes(action) ? policyVersion : quotaVersion;
  const modes: Readonly<Record<string, string>> = serviceWords.modes;
  return [
    typeof stepId === "string" ? auditWords.step(stepId) : "",
    force === true ? auditWords.forced : "",
    typeof planId !== "string" || planId === ""
      ? ""
      : typeof planVersion === "string"
        ? auditWords.plan(planId, planVersion)
        : operations.plan(planId),
    typeof mode === "string" ? auditWords.mode(modes[mode] ?? mode) : "",
    typeof made === "number" ? auditWords.version(made) : "",
  ]
    .filter((part) => part !== "")
    .join(", ");
}

/** The reason that the actor gave; for the completion of a step, its notes. */
export function reasonWords({ action, reason, detail }: Pick<Row, "action" | "reason" | "detail">): string {
  // The server keeps the name of a new token there, which the sentence says.
  if (action === "CREATE_TOKEN") return "";
  const { notes } = known(detail);
  return reason === "" && typeof notes === "string" ? notes : reason;
}

/** The names of actions for the suggestions of the filter, as the server finds them: `retry step` is RETRY_STEP. */
export function suggestedActions(): { value: string; word: string }[] {
  const names = { ...m.action, ...auditWords.actions, ...operationNames };
  return Object.entries(names).map(([action, word]) => ({
    value: action.toLowerCase().replaceAll("_", " "),
    word,
  }));
}
