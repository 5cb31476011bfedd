import { expect, it } from "vitest";
import { screen, show } from "../testing/render";
import { CheckPanel } from "./CheckPanel";
import type { Check } from "./useCheck";

type Preview = NonNullable<Check["preview"]>;

async function said(over: Partial<Preview>, rerun = false): Promise<string> {
  const change = { stepId: "load", kind: "SCHEDULE", from: "PENDING", to: "PENDING", why: "" } as const;
  const preview = {
    outcome: "APPLY",
    code: null,
    reason: "A new run is created, and waits in the queue.",
    status: "PENDING",
    changes: [change, { ...change, stepId: "test" }],
    warnings: ["It waits as number 1 in the queue of project shop: 3 of 3 run slots are in use."],
    ...over,
  } as unknown as Preview;
  await show(
    <CheckPanel
      no={4}
      check={{ preview, quotas: [], error: null, current: true }}
      missing={null}
      projectId="shop"
      rerun={rerun}
    />,
  );
  return screen.getByTestId("start-check").textContent;
}

it("does not say that steps start at once when the run would wait in the queue", async () => {
  const text = await said({});
  expect(text).toContain("number 1 in the queue");
  expect(text).toContain("Then 2 steps start, load first.");
  expect(text).not.toMatch(/at once|start now/);
});

it("says that a run would start now", async () => {
  const text = await said({ status: "RUNNING", warnings: [] });
  expect(text).toContain("2 steps would start at once, load first.");
  expect(text).toContain("It would start now.");
});

it("does not say of a rerun that all its steps start at once", async () => {
  const text = await said({ status: "RUNNING", warnings: [] }, true);
  expect(text).toContain("All 2 steps of the plan run again.");
  expect(text).not.toContain("at once");
});
