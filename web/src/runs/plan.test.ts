import { expect, it } from "vitest";
import { planStep } from "./plan";

it("finds a step in a plan, and nothing in what is none", () => {
  const plan = { steps: [{ stepId: "a", inputs: { ms: 1 } }, { stepId: "b" }] };
  expect(planStep(plan, "a")).toEqual({ stepId: "a", inputs: { ms: 1 } });
  expect(planStep(plan, "c")).toBeNull();
  for (const other of [null, undefined, 1, [], {}, { steps: 3 }, { steps: [null, 1] }]) expect(planStep(other, "a")).toBeNull();
});
