import { expect, it } from "vitest";
import { screen, show } from "../testing/render";
import { type Grid, Legend, PlanGrid } from "./PlanGrid";

const PLAN = { projectId: "shop", environmentId: "dev", planId: "nightly" };
const cell = (status: "SUCCESS" | "FAILED", attempts = 1) => ({
  status,
  statusRaw: status,
  durationMs: 1_000,
  attempts,
  kept: false,
});
const run = (runId: string) => ({
  runId,
  planVersion: "1.0",
  status: "COMPLETED" as const,
  statusRaw: "COMPLETED",
  substatus: null,
  triggeredBy: null,
  createdAt: "2026-11-21T03:12:07.123Z",
  durationMs: 2_000,
  workMs: 2_000,
});
const GRID: Grid = {
  leftOut: 3,
  runs: [run("new"), run("old")],
  steps: [
    { stepId: "load", name: "Load", cells: [cell("FAILED", 2), cell("SUCCESS")] },
    { stepId: "late", name: null, cells: [cell("SUCCESS"), null] },
  ],
};

const inTabOrder = (): Element[] =>
  screen.getAllByRole("link").filter((a) => a.closest("td") && a.getAttribute("tabindex") === "0");

it("shows steps by runs, the newest run on the right, and says what is left out", async () => {
  await show(<PlanGrid of={PLAN} grid={GRID} />);
  const rows = screen.getAllByRole("row").map((row) => row.textContent);
  expect(rows).toEqual(["Step✓✓", "Load✓✕", "latenot in the plan of this run✓"]);
  const failed = screen.getByRole("link", { name: "Failed, 1.0 s, run new, 2 attempts" });
  expect(failed.getAttribute("href")).toBe("/runs/new?step=load");
  expect(screen.getByRole("link", { name: "Load" }).getAttribute("href")).toBe(
    "/plans/nightly/steps/load?project=shop&env=dev",
  );
  expect(document.body.textContent).toContain("3 runs left out");
});

it("moves by arrows over cells that are absent, with one cell in the tab order", async () => {
  const { user } = await show(<PlanGrid of={PLAN} grid={GRID} />);
  const failed = screen.getByRole("link", { name: /2 attempts/ });
  expect(inTabOrder()).toEqual([failed]);
  failed.focus();
  await user.keyboard("{ArrowDown}");
  const late = document.activeElement;
  expect(late?.getAttribute("href")).toBe("/runs/new?step=late");
  await user.keyboard("{ArrowLeft}");
  expect(document.activeElement?.textContent).toBe("late");
  expect(inTabOrder()).toEqual([late]);
});

it("explains the glyphs that the grid has, and no others", async () => {
  const waits = {
    ...run("waits"),
    status: "RUNNING" as const,
    statusRaw: "RUNNING",
    substatus: "WAITING_MANUAL" as const,
  };
  await show(<Legend grid={{ ...GRID, runs: [...GRID.runs, waits] }} />);
  expect(screen.getAllByRole("listitem").map((item) => item.textContent)).toEqual([
    "✓ Completed, Succeeded",
    "◆ Waiting for a person",
    "✕ Failed",
  ]);
});

it("tells a kept result from one that the run made", async () => {
  const grid = {
    ...GRID,
    steps: [
      { stepId: "load", name: "Load", cells: [{ ...cell("SUCCESS"), durationMs: null, kept: true }, cell("SUCCESS")] },
    ],
  };
  await show(
    <>
      <Legend grid={grid} />
      <PlanGrid of={PLAN} grid={grid} />
    </>,
  );
  expect(screen.getByRole("link", { name: "Kept from an earlier run, run new" }).textContent).toBe("=");
  expect(document.body.textContent).toContain("= Kept from an earlier run");
});
