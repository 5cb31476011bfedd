import { expect, it } from "vitest";
import type { RunRow } from "../api/model";
import { meant } from "./runRef";

const run = (runId: string, planId = "nightly", environmentId = "dev"): RunRow =>
  ({ runId, plan: { planId, planVersion: "1.0" }, projectId: "shop", environmentId }) as RunRow;

it("takes the run whose id begins with the text", () => {
  // A plan may have a name that contains the text too.
  const found = [run("11111111-a", "x57dd"), run("57dd826d-b")];
  expect(meant("57dd", found)).toMatchObject({ runId: "57dd826d-b", problem: null });
});

it("offers the runs when several begin with the text, and those of a plan of this name", () => {
  const several = meant("57dd", [run("57dd826d-b"), run("57dd9999-c")]);
  expect(several).toMatchObject({
    runId: null,
    problem: "2 runs begin with 57dd: give more characters, or choose one.",
  });
  expect(several.among).toHaveLength(2);
  expect(meant("57dd826d", [run("57dd826d"), run("57dd826d-b")]).runId, "a whole id").toBe("57dd826d");
  const plan = meant("nightly", [run("1"), run("2")]);
  expect(plan.problem).toMatch(/^nightly is a plan\./);
  expect(plan.among).toHaveLength(2);
});

it("says that there is no such run", () => {
  expect(meant("57dd", [run("1", "x57dd")]).problem).toBe(
    "No run has an id that begins with 57dd, or you cannot see it.",
  );
});

it("takes the last green run of a plan, and asks for the place when the plan runs in several", () => {
  expect(meant("last green of nightly", [run("newest"), run("older")]).runId).toBe("newest");
  expect(meant("last green of nightly", [run("a"), run("b", "nightly", "prod")]).problem).toBe(
    "The plan runs in shop/dev and shop/prod. Add the place, such as “in shop/dev”.",
  );
  expect(meant("last green of nightly", []).problem).toMatch(/^There is no last green of nightly/);
});
