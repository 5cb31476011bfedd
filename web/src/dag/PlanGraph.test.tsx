import { expect, it } from "vitest";
import { screen, show } from "../testing/render";
import { pendingSteps } from "./pendingSteps";
import PlanGraph from "./PlanGraph";

const PLAN = {
  steps: [
    { stepId: "load", name: "Load orders" },
    { stepId: "test", dependsOn: ["load", "ghost"] },
    { type: "NOOP" },
    7,
  ],
};

it("draws the steps of a document that is being written, all pending", async () => {
  const steps = pendingSteps(PLAN);
  expect(steps.map(({ stepId, dependsOn }) => [stepId, dependsOn])).toEqual([
    ["load", []],
    ["test", ["load"]],
  ]);
  await show(<PlanGraph steps={steps} />);
  expect(await screen.findByRole("button", { name: /^Load orders|^load/ })).toBeDefined();
});

it("chains steps that name no dependencies, and finds none in what is no plan", () => {
  const chain = pendingSteps({ steps: [{ stepId: "a" }, { stepId: "b" }, { stepId: "c" }] });
  expect(chain.map(({ dependsOn }) => dependsOn)).toEqual([[], ["a"], ["b"]]);
  for (const nothing of [null, 3, {}, { steps: {} }]) expect(pendingSteps(nothing)).toEqual([]);
});
