import { describe, expect, it } from "vitest";
import { previewLines } from "./previewWords";
import type { Preview } from "./usePreview";

function preview(over: Partial<Preview>): Preview {
  return {
    basedOnSeq: 6,
    outcome: "APPLY",
    code: null,
    reason: null,
    status: "RUNNING",
    changes: [],
    blocked: [],
    warnings: [],
    ...over,
  };
}

function words(of: Preview, stepId: string | null = null, next: string | null = null): string[] {
  return previewLines(of, stepId, next).map((line) =>
    line.stepId === null ? line.text : `${line.stepId}: ${line.text}`,
  );
}

describe("a preview says each thing once", () => {
  it("of a retry: that it runs again is the server's sentence, how the attempt is called ours", () => {
    const retry = preview({
      reason: 'Step "load" runs again as attempt 2.',
      changes: [{ stepId: "load", kind: "RERUN", from: "FAILED", to: "RUNNING", why: "It runs again, as attempt 2." }],
    });
    expect(words(retry, "load", "Retry #1")).toEqual([
      "load: Failed → Running.",
      "The new attempt is shown as Retry #1.",
      "After that the run is Running.",
    ]);
  });

  it("of a cancel: that the run ends as cancelled", () => {
    expect(
      words(preview({ status: "CANCELLED", reason: "The run ends as CANCELLED. This cannot be undone." })),
    ).toEqual([]);
    expect(words(preview({ status: "PAUSED", reason: "The run ends as CANCELLED. This cannot be undone." }))).toEqual([
      "Until what runs has stopped, the run is Paused.",
    ]);
    expect(
      words(preview({ status: "PAUSED", reason: "No further step starts; steps in flight finish first." })),
    ).toEqual(["After that the run is Paused."]);
  });

  it("says why other steps change, the step of the action first", () => {
    const skip = preview({
      reason: 'Step "load" is skipped and the steps that depend on it go on.',
      changes: [
        { stepId: "mart", kind: "SCHEDULE", from: "PENDING", to: "RUNNING", why: "Nothing holds it back any more." },
        { stepId: "load", kind: "SKIP", from: "FAILED", to: "SKIPPED", why: "Its dependents can run." },
      ],
    });
    expect(words(skip, "load")).toEqual([
      "load: Failed → Skipped.",
      "mart: Pending → Running. Nothing holds it back any more.",
      "After that the run is Running.",
    ]);
  });

  it("says what a change does to a step that keeps its status", () => {
    const change = preview({
      reason: 'Attempts of step "load" that start from now on use the change.',
      changes: [
        { stepId: "load", kind: "CHANGE", from: "FAILED", to: "FAILED", why: "It sees the change if it is retried." },
      ],
    });
    expect(words(change, "load")[0]).toBe("load: It sees the change if it is retried.");
  });
});
