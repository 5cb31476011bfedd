import { expect, it } from "vitest";
import { summaryOf } from "./summary";

const nameOf = (id: string): string => (id === "need-file" ? "Look for a file" : id);
const summary = (payload: unknown): string => summaryOf({ payload }, nameOf);

it("says which signal, on what and why", () => {
  expect(
    summary({ signalType: "RETRY_STEP", stepId: "need-file", actor: "ana", reason: "the file is there now" }),
  ).toBe("Retry step: Look for a file · “the file is there now”");
  expect(summary({ signalType: "PAUSE", actor: "ana", code: "RUN_TERMINAL" })).toBe("Pause · RUN_TERMINAL");
});

it("says what failed, why a step was skipped, and how long a step took", () => {
  expect(summary({ errorCode: "EXIT_STATUS", errorMessage: "no table\nat line 3", durationMs: 900 })).toBe(
    "EXIT_STATUS: no table",
  );
  expect(summary({ reasonCode: "FAIL_FAST" })).toBe("not started, because another step failed");
  expect(summary({ durationMs: 61_000 })).toBe("took 1 m 1 s");
  expect(summary(null)).toBe("");
});
