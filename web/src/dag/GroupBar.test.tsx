import { expect, it } from "vitest";
import { attempt, header, step, store } from "../testing/fixtures";
import { screen, show } from "../testing/render";
import { GroupBar } from "./GroupBar";

const FAILED = { status: "FAILED", statusRaw: "FAILED" } as const;
const PENDING = { status: "PENDING", statusRaw: "PENDING", startedAt: null, completedAt: null } as const;

it("says how many steps of a group are done, and that some need a failed step", async () => {
  const steps = [
    step("stg", { ...FAILED, attempts: [attempt(FAILED)] }),
    step("dim_1"),
    step("dim_2", { ...PENDING, attempts: [], dependsOn: ["stg"] }),
    step("dim_3", { ...PENDING, attempts: [], dependsOn: ["dim_1"] }),
  ];
  const bar = { id: "group dim 0", group: "dim", members: ["dim_1", "dim_2", "dim_3"] };
  await show(<GroupBar bar={bar} x={0} y={0} tabStop open={() => {}} />, {
    run: store(header(), {}, steps),
  });
  const button = screen.getByRole("button", {
    name: /^Group dim, 3 steps: 2 pending, 1 succeeded, 1 needs a failed step/,
  });
  expect(button.textContent).toContain("1 of 3 done");
  expect(button.hasAttribute("data-blocked")).toBe(true);
});
