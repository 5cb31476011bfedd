// The status of a run in words.
import { isStuck } from "../actions/refusal";
import type { AvailableActions } from "../actions/useAvailability";
import { instant, type RunHeader, type Signal } from "../api/model";
import { m } from "../messages";
import { duration, ticking } from "../format/format";
import { cancelledWords } from "../status/runWords";

function sentence(parts: readonly (string | null | false)[]): string | null {
  const said = parts.filter((part) => typeof part === "string" && part !== "");
  return said.length === 0 ? null : said.join(" · ");
}

/** Explains the status. `quiescent` is the newest receipt of a PAUSE with a quiescent position. */
export function statusWords(
  header: RunHeader,
  now: number,
  actions: AvailableActions | null,
  quiescent: Signal | undefined,
  nameOf: (stepId: string) => string = (stepId) => stepId,
): string | null {
  const { substatus, status, failedSteps, retryDeadline, pause, message, cancellation } = header;
  if (cancellation) return cancelledWords(cancellation);
  if (status === "PENDING" || status === "APPROVED") return waitingWords(header, now, actions);
  if (status === "PAUSED" && pause) {
    const by = m.run.pausedBy(pause.requestedBy ?? "?", pause.reason);
    if (substatus === "DRAINING") return sentence([m.run.draining(pause.draining), by]);
    return sentence([by, quiescent?.quiescentSeq ? m.receipt.quiescent(quiescent.quiescentSeq) : null]);
  }
  if (substatus === "AWAITING_OPERATOR" || retryDeadline !== null) {
    const left = retryDeadline === null ? null : retryDeadline - now;
    return sentence([
      left !== null && (left > 0 ? m.run.windowCloses(countdown(left)) : m.run.windowClosed),
      failedSteps > 0 && failureWords(header, nameOf),
    ]);
  }
  if (status === "FAILED") return endWords(header, nameOf);
  if (message !== null && message !== "") return message;
  if (status === "UNKNOWN") return m.run.unknownMeans;
  return substatus === "COMPENSATING" ? m.run.compensatingMeans : null;
}

const SOON_MS = 600_000;
const HOUR_MS = 3_600_000;

/** The time left. Seconds matter, and take room, only in the last minutes; hours are said as everywhere. */
function countdown(left: number): string {
  return left < SOON_MS || left >= HOUR_MS ? ticking(left) : `${Math.floor(left / 60_000)} min`;
}

const URGENT_MS = 120_000;

/** Whether the window in which somebody can retry closes within two minutes. */
export function isUrgent({ retryDeadline }: Pick<RunHeader, "retryDeadline">, now: number): boolean {
  return retryDeadline !== null && retryDeadline - now < URGENT_MS;
}

/** The failed step with its error, and the number of other failed steps. */
function failureWords({ rootCause, failedSteps }: RunHeader, nameOf: (stepId: string) => string): string {
  if (!rootCause?.stepId) return m.run.stepsFailed(failedSteps);
  return m.run.failure(nameOf(rootCause.stepId), firstLine(rootCause.message) ?? rootCause.code, failedSteps - 1);
}

function firstLine(message: string | null): string | null {
  return message?.split("\n", 1)[0]?.trim() || null;
}

/** Why a run ended as failed. A run with a window that has a failed step ends because nobody answered within it. */
function endWords(header: RunHeader, nameOf: (stepId: string) => string): string | null {
  const { rootCause, retryWindowMs, failedSteps } = header;
  if (failedSteps === 0 || !rootCause?.stepId) return firstLine(rootCause?.message ?? null) ?? rootCause?.code ?? null;
  return sentence([
    failureWords(header, nameOf),
    retryWindowMs !== null && retryWindowMs > 0 && m.run.nobodyRetried(duration(retryWindowMs)),
  ]);
}

/** Explains why a run has not started: approval or queue, since when, until when. */
function waitingWords(header: RunHeader, now: number, actions: AvailableActions | null): string | null {
  const { queue = null, approval = null } = actions ?? {};
  const since = m.run.waitingFor(ticking(now - header.createdAt));
  if (approval?.expiresAt) {
    const said = approval.decisions.filter(({ decision }) => decision === "APPROVE");
    const may = actions?.run.get("APPROVE");
    return sentence([
      // Nothing else matters while the approvals that are missing cannot be given.
      isStuck(may, approval) &&
        m.run.stuck(may?.outcome === "APPLY" ? [m.run.you, ...may.whoCould] : (may?.whoCould ?? [])),
      m.run.approvals(said.length, approval.required, said.map(({ principal }) => principal).join(", ")),
      // A narrow header cuts the end: the time that is left matters more than the time that has passed.
      m.run.approvalEnds(ticking(instant(approval.expiresAt) - now)),
      since,
    ]);
  }
  if (!queue) return since;
  return sentence([
    queue.position !== null && m.run.position(queue.position),
    since,
    queue.waitsFor && m.queue.waits[queue.waitsFor],
    queue.estimatedWaitMs !== null
      ? m.run.startsIn(ticking(queue.estimatedWaitMs))
      : queue.position === 1 &&
        queue.waitsFor !== "HOLD" &&
        queue.slots &&
        m.run.startsAfter(queue.slots.active, queue.slots.max),
  ]);
}
