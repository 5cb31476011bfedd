import { expect, it } from "vitest";
import { type ComparedStep, shownSteps } from "./order";

const side = (durationMs: number | null) => ({
  status: "SUCCESS" as const,
  statusRaw: "SUCCESS",
  durationMs,
  attempts: 1,
  errorCode: null,
  keptFrom: null,
  hasRun: true,
});
const STEPS: ComparedStep[] = [
  { stepId: "step-10", name: null, changes: ["FASTER"], a: side(9_000), b: side(1_000) },
  { stepId: "step-9", name: null, changes: [], a: side(1_000), b: side(1_000) },
  { stepId: "new", name: null, changes: ["ADDED"], a: null, b: side(1) },
  { stepId: "slow", name: null, changes: ["SLOWER"], a: side(1_000), b: side(9_000) },
];
const ids = (steps: readonly ComparedStep[]) => steps.map(({ stepId }) => stepId);

it("shows only steps that differ, in the order of the plan", () => {
  expect(ids(shownSteps(STEPS, false, undefined))).toEqual(["step-10", "new", "slow"]);
});

it("sorts by what became slower, with unknown durations last", () => {
  expect(ids(shownSteps(STEPS, true, "slower"))).toEqual(["slow", "step-9", "step-10", "new"]);
});

it("sorts by name as people count", () => {
  expect(ids(shownSteps(STEPS, true, "name"))).toEqual(["new", "slow", "step-9", "step-10"]);
});
