import { expect, it } from "vitest";
import { marksOf, snapped } from "./useMarks";

it("marks failures, retries, and what people did otherwise", () => {
  expect(
    marksOf([
      { runSeq: 9, eventType: "StepFailed", stepId: "load", payload: {} },
      { runSeq: 10, eventType: "SignalAccepted", stepId: null, payload: { signalType: "RETRY_STEP", stepId: "load" } },
      { runSeq: 14, eventType: "SignalAccepted", stepId: null, payload: { signalType: "PAUSE" } },
      { runSeq: 20, eventType: "RunFailed", stepId: null, payload: null },
    ]),
  ).toEqual([
    { seq: 9, kind: "failure", stepId: "load" },
    { seq: 10, kind: "retry", stepId: "load" },
    { seq: 14, kind: "person", stepId: null },
    { seq: 20, kind: "failure", stepId: null },
  ]);
});

it("snaps to a mark near the pointer, and never holds back the keys", () => {
  const marks = [{ seq: 500, kind: "failure", stepId: null } as const];
  expect(snapped(marks, 497, 900, 1_000)).toBe(500);
  expect(snapped(marks, 480, 900, 1_000)).toBe(480);
  expect(snapped(marks, 499, 500, 1_000)).toBe(499);
});
