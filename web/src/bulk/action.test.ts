import { describe, expect, it } from "vitest";
import { actionOf, commonFailure, toBulkInput } from "./action";

const run = (stepId: string | null) => ({
  rootCause:
    stepId === null
      ? null
      : {
          stepId,
          logicalAttemptId: 1,
          code: "X",
          category: null,
          message: null,
          retryable: true,
          firstSeq: 1,
          blockedSteps: 0,
          heldSteps: 0,
        },
});

describe("an action on many runs", () => {
  it("is sent again as it was", () => {
    for (const action of [
      { kind: "PAUSE", stepId: "", force: false },
      { kind: "RETRY_STEP", stepId: "load", force: true },
      { kind: "EMERGENCY_STOP", stepId: "", force: true },
    ] as const) {
      const sent = toBulkInput(action, "why");
      const payload = Object.values(sent.signal ?? {})[0];
      expect(actionOf({ type: action.kind, stepId: action.stepId === "" ? null : action.stepId, payload })).toEqual(
        action,
      );
    }
    expect(toBulkInput({ kind: "CANCEL", stepId: "", force: false }, "why")).toEqual({ cancel: { reason: "why" } });
    expect(actionOf({ type: "UPDATE_PARAMS", stepId: null, payload: {} })).toBeNull();
  });

  it("proposes the step that failed in all runs", () => {
    expect(commonFailure([run("a"), run("a")])).toBe("a");
    expect(commonFailure([run("a"), run("b")])).toBe("");
    expect(commonFailure([run(null)])).toBe("");
  });
});
