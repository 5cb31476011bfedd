import { expect, it } from "vitest";
import { step } from "../testing/fixtures";
import { stepWords } from "./stepLabel";

it("calls a second attempt a retry, but not the skip of a failed step", () => {
  const retried = step("load", { status: "FAILED", statusRaw: "FAILED", logicalAttemptId: 2 });
  expect(stepWords(retried, 0, false)).toBe("load, Retry #1, failed");
  const skipped = step("load", { status: "SKIPPED", statusRaw: "SKIPPED", logicalAttemptId: 2 });
  expect(stepWords(skipped, 0, false)).toBe("load, skipped");
});
