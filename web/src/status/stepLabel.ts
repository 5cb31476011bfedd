import type { Step } from "../api/model";
import { m } from "../messages";
import { attemptName } from "../format/format";
import { stepLook } from "./look";

/** A step in words: "stg_orders, failed, Retry #1, blocks 14". */
export function stepWords(step: Step, blocks: number, blocked: boolean, held = false): string {
  return [
    step.name ?? step.stepId,
    stepLook(step).word.toLowerCase(),
    step.logicalAttemptId > 1 ? attemptName(step.logicalAttemptId) : null,
    blocks > 0 ? m.graph.blocks(blocks) : null,
    blocked ? m.graph.blocked : held ? m.graph.held : null,
  ]
    .filter((part) => part !== null)
    .join(", ");
}
