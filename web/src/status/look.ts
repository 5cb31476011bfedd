// The look of statuses: shape, word and colour.
import {
  Ban,
  CircleCheck,
  CircleDashed,
  CirclePlay,
  CircleQuestionMark,
  Hand,
  Hourglass,
  BadgeCheck,
  OctagonPause,
  OctagonX,
  RotateCcw,
  SkipForward,
  Undo2,
  UserCheck,
} from "lucide-react";
import type { RunRow, Step } from "../api/model";
import { shortId } from "../format/format";
import { m } from "../messages";
import type { Look } from "../ui/tones";

/** The errors of attempts that somebody stopped: they have not failed by themselves. */
export const STOPPED: ReadonlySet<string> = new Set(["CANCELLED", "CANCELLED_BY_PAUSE", "TERMINATED"]);

type RunState = Pick<RunRow, "status" | "statusRaw" | "substatus"> &
  Partial<Pick<RunRow, "waitsForApprovals">> & { pause: { draining: number } | null };

export function runLook(run: RunState): Look {
  switch (run.status) {
    case "PENDING":
      if (run.waitsForApprovals) return { tone: "person", word: m.status.waitsForApproval, icon: UserCheck };
      return run.substatus === "QUEUED"
        ? { tone: "pending", word: m.status.queued, icon: Hourglass }
        : { tone: "pending", word: m.status.pending, icon: CircleDashed };
    case "APPROVED":
      return { tone: "approved", word: m.status.approved, icon: BadgeCheck };
    case "RUNNING":
      return runningLook(run);
    case "PAUSED":
      return {
        tone: "paused",
        word: run.substatus === "DRAINING" ? m.status.draining(run.pause?.draining ?? 0) : m.status.paused,
        icon: OctagonPause,
      };
    case "COMPLETED":
      return { tone: "success", word: m.status.completed, icon: CircleCheck };
    case "FAILED":
      return { tone: "failed", word: m.status.failed, icon: OctagonX };
    case "CANCELLED":
      return { tone: "cancelled", word: m.status.cancelled, icon: Ban };
    default:
      return { tone: "unknown", word: m.status.unknown(run.statusRaw), icon: CircleQuestionMark };
  }
}

function runningLook(run: RunState): Look {
  switch (run.substatus) {
    case "AWAITING_OPERATOR":
      return { tone: "person", word: m.status.awaitingOperator, icon: Hand };
    case "WAITING_MANUAL":
      return { tone: "person", word: m.status.waitingManual, icon: UserCheck };
    case "COMPENSATING":
      return { tone: "person", word: m.status.compensating, icon: Undo2 };
    default:
      return { tone: "running", word: m.status.running, icon: CirclePlay };
  }
}

export function stepLook(
  step: Pick<Step, "status" | "statusRaw" | "pendingRetry"> & Partial<Pick<Step, "substatus" | "error" | "keptFrom">>,
): Look {
  if (step.status === "FAILED" && !step.pendingRetry && STOPPED.has(step.error?.code ?? ""))
    return { tone: "cancelled", word: m.status.cancelled, icon: Ban };
  if (step.pendingRetry) return { tone: "running", word: m.status.retryLatched, icon: RotateCcw };
  if (step.status === "RUNNING" && step.substatus === "WAITING_MANUAL")
    return { tone: "person", word: m.status.waitingManual, icon: UserCheck };
  switch (step.status) {
    case "PENDING":
      return { tone: "pending", word: m.status.pending, icon: CircleDashed };
    case "RUNNING":
      return { tone: "running", word: m.status.running, icon: CirclePlay };
    case "SUCCESS":
      // A rerun took its outputs over: nothing ran now.
      if (step.keptFrom) return { tone: "skipped", word: m.status.keptFrom(shortId(step.keptFrom)), icon: CircleCheck };
      return { tone: "success", word: m.status.succeeded, icon: CircleCheck };
    case "FAILED":
      return { tone: "failed", word: m.status.failed, icon: OctagonX };
    case "SKIPPED":
      return { tone: "skipped", word: m.status.skipped, icon: SkipForward };
    default:
      return { tone: "unknown", word: m.status.unknown(step.statusRaw), icon: CircleQuestionMark };
  }
}

/** The look of a step of a run that may have ended: a pending step of such a run never starts. */
export function stepLookIn(step: Parameters<typeof stepLook>[0], run: Pick<RunRow, "status"> | null): Look {
  return step.status === "PENDING" && run !== null && ended(run)
    ? { tone: "skipped", word: m.status.neverStarted, icon: CircleDashed }
    : stepLook(step);
}

export function ended(run: Pick<RunRow, "status">): boolean {
  return run.status === "COMPLETED" || run.status === "FAILED" || run.status === "CANCELLED";
}
