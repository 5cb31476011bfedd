// What became of a run or a step after a signal took effect.
import type { Attempt, RunHeader, Signal, Step } from "../api/model";
import { duration } from "../format/format";
import { m } from "../messages";
import type { Tone } from "../ui/tones";

type RunThen = Pick<RunHeader, "runSeq" | "status" | "substatus"> & { pause: { draining: number } | null };
type StepThen = Pick<Step, "status" | "changedSeq" | "startedAt" | "completedAt"> & {
  attempts: readonly Pick<Attempt, "status" | "startedAt" | "completedAt" | "startedSeq">[];
};

/** Describes the effect of a signal, and whether it is good. */
export interface Sequel {
  words: string;
  tone: Extract<Tone, "success" | "failed" | "running" | "skipped">;
}

/** Says what followed an applied signal; null while nothing has, or when the signal needs no sequel. */
export function followed(signal: Signal, run: RunThen | null, step: StepThen | undefined): Sequel | null {
  if (signal.application !== "APPLIED" || run === null || run.runSeq < (signal.appliedSeq ?? 0)) return null;
  const said = m.receipt.followed;
  switch (signal.type) {
    case "RETRY_STEP":
      return step ? afterRetry(step, signal.appliedSeq ?? 0) : null;
    case "SKIP_STEP":
      return step?.status === "SKIPPED" ? { words: said.skipped, tone: "skipped" } : null;
    case "COMPLETE_MANUAL_STEP":
      if (step?.status === "SUCCESS") return { words: said.completed, tone: "success" };
      return step?.status === "FAILED" ? { words: said.completedFailed, tone: "failed" } : null;
    case "PAUSE":
      if (run.status !== "PAUSED") return null;
      return {
        words: run.substatus === "DRAINING" ? said.draining(run.pause?.draining ?? 0) : said.paused,
        tone: "skipped",
      };
    case "RESUME":
      return run.status === "RUNNING" ? { words: said.resumed, tone: "running" } : null;
    case "CANCEL":
    case "EMERGENCY_STOP":
      return { words: run.status === "CANCELLED" ? said.cancelled : said.stopping, tone: "skipped" };
    default:
      return null;
  }
}

function afterRetry(step: StepThen, appliedSeq: number): Sequel | null {
  if (step.changedSeq < appliedSeq) return null;
  // The attempt that this retry started: a later retry starts another.
  const own = step.attempts.find(({ startedSeq }) => startedSeq !== null && startedSeq >= appliedSeq) ?? step;
  const took = own.startedAt !== null && own.completedAt !== null ? duration(own.completedAt - own.startedAt) : null;
  const said = m.receipt.followed;
  switch (own.status) {
    case "RUNNING":
      return { words: said.running, tone: "running" };
    case "FAILED":
      return { words: said.failed(took), tone: "failed" };
    case "SUCCESS":
      return { words: said.succeeded(took), tone: "success" };
    default:
      return { words: said.waits, tone: "running" };
  }
}
