import type { Step } from "../api/model";
import { pictures } from "../messages/pictures";
import { attemptName } from "../format/format";
import { stepLook } from "./look";

/** The attempt of a step in words, from the second on. The skip of a failed step is a new attempt, but no retry. */
export function attemptWord(step: Pick<Step, "status" | "logicalAttemptId">): string | null {
  return step.logicalAttemptId > 1 && step.status !== "SKIPPED" ? attemptName(step.logicalAttemptId) : null;
}

/**
 * A step in words: "stg_orders, Retry #1, failed, blocks 14". What a node of the graph shows comes first and together,
 * so that its name contains what is seen: "stg_orders, Retry #1, 1.2 s, failed". `shown` is what stands there beside the
 * attempt.
 */
export function stepWords(
  step: Step,
  blocks: number,
  blocked: boolean,
  held = false,
  shown: string | null = null,
  word: string = stepLook(step).word,
): string {
  return [
    step.name ?? step.stepId,
    attemptWord(step),
    shown,
    word.toLowerCase(),
    blocks > 0 ? pictures.graph.blocks(blocks) : null,
    blocked ? pictures.graph.blocked : held ? pictures.graph.held : null,
  ]
    .filter((part) => part !== null)
    .join(", ");
}
