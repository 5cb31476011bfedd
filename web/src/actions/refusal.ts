import type { Availability, Signal } from "../api/model";
import { m } from "../messages";
import type { Verdict } from "../runstate/store";
import { ticking } from "../format/format";
import type { Sendable } from "./intent";

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
  const { outcome, reason, code, requiredRole, whoCould, rule } = availability;
  if (outcome === "APPLY") return null;
  const said = requiredRole ? (reason?.replace(requiredRole, m.role[requiredRole]) ?? null) : reason;
  const words = [
    said ?? (outcome === "NOOP" ? m.denied.noop : outcome === "UNSUPPORTED" ? m.denied.unsupported : null),
    requiredRole && code === "FORBIDDEN" && !said?.includes(m.role[requiredRole])
      ? m.denied.needs(m.role[requiredRole])
      : null,
    whoCould.length > 0 ? m.denied.could(whoCould) : null,
    rule && code === "FORBIDDEN" ? `(${rule})` : null,
    code && outcome === "REFUSED" ? `[${code}]` : null,
  ];
  return words.filter((word) => word !== null).join(" ");
}
