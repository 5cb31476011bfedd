import { describe, expect, it } from "vitest";
import { previewLines, withNames } from "./previewWords";
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

function change(stepId: string, kind: "RERUN" | "REUSE"): Preview["changes"][number] {
  return {
    stepId,
    kind,
    from: "SUCCESS",
    to: kind === "REUSE" ? "SUCCESS" : "PENDING",
    why: "Runs again after its dependencies finish.",
  };
}

function words(of: Preview, stepId: string | null = null): string[] {
  return previewLines(of, stepId).map((line) => (line.stepId === null ? line.text : `${line.stepId}: ${line.text}`));
}

describe("a preview says each thing once", () => {
  it("names steps in the server's sentences, but takes no word of a sentence for a step", () => {
    expect(
      withNames(
        'Step "run" is skipped. The run waits: fct_orders_3, fct_orders_30.',
        new Set(["fct_orders_3", "run"]),
        (id) => (id === "run" ? "Build models" : "Build orders"),
      ),
    ).toBe("Step Build models is skipped. The run waits: Build orders, fct_orders_30.");
  });

  it("of a retry: the attempt has one name, which the server's sentence says", () => {
    const retry = preview({
      reason: 'Step "load" runs again as Retry #1.',
      changes: [{ stepId: "load", kind: "RERUN", from: "FAILED", to: "RUNNING", why: "Runs again, as Retry #1." }],
    });
    expect(words(retry, "load")).toEqual(["load: Failed → Running.", "Result: the run is running."]);
  });

  it("of a cancel: that the run ends as cancelled", () => {
    expect(words(preview({ status: "CANCELLED", reason: "The run is cancelled. This cannot be undone." }))).toEqual([]);
    expect(words(preview({ status: "PAUSED", reason: "No further step starts; running steps finish first." }))).toEqual(
      ["Result: the run is paused."],
    );
  });

  it("of an approval: the run still waits, not: it is pending", () => {
    expect(words(preview({ status: "PENDING", reason: "1 of 2 approvals." }))).toEqual([
      "Result: the run still waits for approval.",
    ]);
  });

  it("of a cancel: a running step is cancelled, not failed", () => {
    const cancel = preview({
      status: "CANCELLED",
      changes: [{ stepId: "load", kind: "CANCEL", from: "RUNNING", to: "FAILED", why: "It is stopped." }],
    });
    expect(words(cancel)[0]).toBe("load: Running → Cancelled. It is stopped.");
  });

  it("says why other steps change, the step of the action first", () => {
    const skip = preview({
      reason: 'Step "load" is skipped, and the steps that depend on it can run.',
      changes: [
        { stepId: "mart", kind: "SCHEDULE", from: "PENDING", to: "RUNNING", why: "Ready to start." },
        { stepId: "load", kind: "SKIP", from: "FAILED", to: "SKIPPED", why: "Its dependents can run." },
      ],
    });
    expect(words(skip, "load")).toEqual([
      "load: Failed → Skipped.",
      "mart: Pending → Running. Ready to start.",
      "Result: the run is running.",
    ]);
  });

  it("says what a change does to a step that keeps its status", () => {
    const change = preview({
      reason: 'Attempts of step "load" that start from now on use the change.',
      changes: [
        { stepId: "load", kind: "CHANGE", from: "FAILED", to: "FAILED", why: "Uses the change if it is retried." },
      ],
    });
    expect(words(change, "load")[0]).toBe("load: Uses the change if it is retried.");
  });

  it("says a rerun in two numbers, then the steps", () => {
    const again = ["b", "c", "d", "e", "f", "g"].map((id) => change(id, "RERUN"));
    expect(
      words(
        preview({
          status: "RUNNING",
          reason: "A new run of the same plan starts.",
          changes: [change("a", "REUSE"), ...again],
        }),
      ),
    ).toEqual([
      "6 steps run again, 1 result is kept.",
      "Run again: b, c, d, e, f and 1 more.",
      "Kept: a.",
      "Result: a new run starts.",
    ]);
  });

  it("names the steps that will not start", () => {
    expect(words(preview({ status: null, blocked: ["mart", "report"] }))).toEqual([
      "These 2 steps will not start: mart, report.",
    ]);
  });
});
