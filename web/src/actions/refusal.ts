import type { Availability, Signal } from "../api/model";
import { m } from "../messages";
import type { Verdict } from "../runstate/store";
import { ticking } from "../format/format";
import type { Sendable } from "./intent";
import type { Approval } from "./RunRequest";

/** Whether the action stops the run. Stopping is allowed on a stale view and without a preview. */
export function stops(action: Sendable): boolean {
  return action === "PAUSE" || action === "CANCEL" || action === "EMERGENCY_STOP";
}

interface Situation {
  action: Sendable;
  availability: Availability | undefined;
  verdict: Verdict;
  /** The age of a stale view, in milliseconds. */
  ageMs: number;
  /** Steps in flight while the run is draining; else 0. */
  draining: number;
  /** The viewer's newest receipt for the same action on the same run or step. */
  receipt: Signal | undefined;
}

/** Says why the page's own state forbids the action, whatever the server would say; null when it does not. */
export function refusalOfView({
  action,
  verdict,
  ageMs,
  draining,
}: Omit<Situation, "availability" | "receipt">): string | null {
  if (verdict.state === "PAST") return m.denied.past;
  if (verdict.state === "OFFLINE") return m.denied.offline;
  if (verdict.state === "STALE" && !stops(action)) return m.denied.stale(ticking(ageMs));
  return draining > 0 && (action === "RESUME" || action === "RETRY_STEP") ? m.denied.draining(draining) : null;
}

/** Says why the button is refused now; null when it is not. */
export function refusal({ action, availability, verdict, ageMs, draining, receipt }: Situation): string | null {
  const shown = refusalOfView({ action, verdict, ageMs, draining: 0 });
  if (shown !== null) return shown;
  if (receipt) {
    if (receipt.decision === "ACCEPTED" && (receipt.application === "PENDING" || receipt.application === "DELIVERED")) {
      return m.denied.inFlight;
    }
    if (receipt.appliedSeq !== null && receipt.appliedSeq > verdict.seq) return m.denied.catchingUp(receipt.appliedSeq);
  }
  if (!availability) return m.denied.noAnswer;
  const drained = refusalOfView({ action, verdict, ageMs, draining });
  if (drained !== null) return drained;
  // The confirmation offers force, which overrules the policy.
  if (action === "RETRY_STEP" && availability.code === "RETRY_POLICY_DENIED") return null;
  return explain(availability);
}

/** The server's refusal of an action in words; null when the action would take effect. */
export function explain(availability: Availability): string | null {
  const { outcome, reason, code, requiredRole, whoCould } = availability;
  if (outcome === "APPLY") return null;
  const said = requiredRole ? (reason?.replace(requiredRole, m.role[requiredRole]) ?? null) : reason;
  const words = [
    said ?? (outcome === "NOOP" ? m.denied.noop : outcome === "UNSUPPORTED" ? m.denied.unsupported : null),
    requiredRole && code === "FORBIDDEN" && !said?.includes(m.role[requiredRole])
      ? m.denied.needs(m.role[requiredRole])
      : null,
    whoCould.length > 0 ? m.denied.could(whoCould) : null,
  ].filter((word) => word !== null);
  return words.length > 0 ? words.join(" ") : (code ?? m.confirm.outcome[outcome]);
}

/** The server names at most ten people, one of whom may be the viewer; with so many, more may exist. */
const MANY = 9;
/** The codes with which the server has looked for everybody who could decide. */
const KNOWN: ReadonlySet<string | null> = new Set(["FORBIDDEN", "SOD_VIOLATION", "ALREADY_IN_STATE"]);

/** Whether too few people could still approve the run, so that it cannot start unless the policy changes. */
export function isStuck(
  may: Pick<Availability, "outcome" | "code" | "whoCould"> | undefined,
  approval: Approval | null,
): boolean {
  if (!may || !approval || approval.expiresAt === null || may.whoCould.length >= MANY) return false;
  const mine = may.outcome === "APPLY";
  if (!mine && !KNOWN.has(may.code)) return false;
  const given = approval.decisions.filter(({ decision }) => decision === "APPROVE").length;
  return given + (mine ? 1 : 0) + may.whoCould.length < approval.required;
}
