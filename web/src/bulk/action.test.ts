import { describe, expect, it } from "vitest";
import type { BulkActionInput } from "../api/gen/graphql";
import { actionOf, applies, BULK_ACTIONS, commonFailure, newAction, toBulkInput } from "./action";

const run = (stepId: string | null) => ({
  rootCause:
    stepId === null
      ? null
      : {
          stepId,
          stepName: null,
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
      newAction("PAUSE"),
      { ...newAction("RETRY_STEP", "load"), force: true },
      { ...newAction("EMERGENCY_STOP"), force: true },
      newAction("RERUN"),
      { ...newAction("RERUN", "load"), from: "step" as const },
      { ...newAction("RERUN"), from: "start" as const, params: '{"day":"2026-02-17"}' },
    ]) {
      const built = toBulkInput(action, "why");
      const sent: BulkActionInput | null = "input" in built ? built.input : null;
      const payload = sent?.rerun ?? Object.values(sent?.signal ?? {})[0];
      const stepId = action.kind === "RETRY_STEP" ? action.stepId : null;
      expect(actionOf({ action: action.kind, stepId, payload })).toEqual(action);
    }
    expect(toBulkInput(newAction("CANCEL"), "why")).toEqual({ input: { cancel: { reason: "why" } } });
    expect(actionOf({ action: "UPDATE_PARAMS", stepId: null, payload: {} })).toBeNull();
  });

  it("says what is missing in a rerun", () => {
    expect(toBulkInput({ ...newAction("RERUN"), from: "step" }, "why")).toEqual({
      missing: "Name the step to run again.",
    });
    expect(toBulkInput({ ...newAction("RERUN"), params: "day: 1" }, "why")).toHaveProperty("missing");
  });

  it.each([
    ["FAILED", 2, ["RERUN"]],
    ["COMPLETED", 0, ["RERUN"]],
    ["RUNNING", 0, ["PAUSE", "CANCEL", "EMERGENCY_STOP"]],
    ["RUNNING", 1, ["PAUSE", "RETRY_STEP", "CANCEL", "EMERGENCY_STOP"]],
    ["PAUSED", 0, ["RESUME", "CANCEL", "EMERGENCY_STOP"]],
    ["PENDING", 0, ["CANCEL", "EMERGENCY_STOP"]],
  ] as const)("can apply to a run that is %s with %d failed steps: %s", (status, failedSteps, want) => {
    expect(BULK_ACTIONS.filter((kind) => applies(kind, { status, failedSteps }))).toEqual(want);
  });

  it("proposes the step that failed in all runs", () => {
    expect(commonFailure([run("a"), run("a")])).toBe("a");
    expect(commonFailure([run("a"), run("b")])).toBe("");
    expect(commonFailure([run(null)])).toBe("");
  });
});
