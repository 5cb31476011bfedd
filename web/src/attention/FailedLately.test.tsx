import { expect, it } from "vitest";
import { screen, show, vi } from "../testing/render";
import { FailedCount, FailedLately, useFailedLately } from "./FailedLately";

const AT = Date.now() - 60_000;

interface Failed {
  minutesAgo?: number;
  planId?: string;
  stepId?: string;
  rerunOf?: number;
}

const run = (n: number, { minutesAgo = n, planId = "nightly", stepId = "stg_orders", rerunOf }: Failed = {}) => ({
  node: {
    runId: `f${n}000000`,
    parentRunId: rerunOf === undefined ? null : `f${rerunOf}000000`,
    projectId: "shop",
    environmentId: "prod",
    createdAt: new Date(AT - minutesAgo * 60_000).toISOString(),
    completedAt: new Date(AT - minutesAgo * 60_000 + 1_000).toISOString(),
    plan: { planId, planVersion: "1.4" },
    rootCause: { stepId, stepName: null, code: "EXIT_STATUS", message: "exit status 1" },
  },
});

function Lately() {
  const failed = useFailedLately();
  return (
    failed && (
      <>
        <FailedCount of={failed} />
        <FailedLately of={failed} />
      </>
    )
  );
}

const PREVIEW = { count: 3, samples: [], refusals: [], excluded: [] };

function answers(failed: unknown[], completed: unknown[] = [], hasNextPage = false, open: unknown[] = []) {
  return {
    FailedLately: {
      failed: { pageInfo: { hasNextPage }, edges: failed },
      completed: { edges: completed },
      open: { edges: open },
    },
    BulkPreview: { preview: { bulk: PREVIEW } },
  };
}

const MAY = { viewer: { actions: new Set(["RERUN"] as const) } };

it("shows one row for each plan and cause, with the number of runs and a rerun of all of them", async () => {
  const failed = [run(1), run(2), run(3, { stepId: "stg_payments" }), run(4, { planId: "weekly" }), run(5)];
  const { user } = await show(<Lately />, { ...MAY, answers: answers(failed) });
  expect(await screen.findByText("5 failed in 24 h")).toBeTruthy();
  const rows = screen.getAllByRole("row").slice(1);
  expect(rows.map((row) => row.textContent)).toEqual([
    expect.stringMatching(/nightly.*exit status 1 · stg_orders EXIT_STATUS.*3 runs/),
    expect.stringMatching(/nightly.*stg_payments.*1 run/),
    expect.stringMatching(/weekly.*1 run/),
  ]);
  expect(screen.getByRole("link", { name: "Open nightly f1000000" }).getAttribute("href")).toBe("/runs/f1000000");
  await user.click(screen.getByRole("button", { name: "Rerun 3… nightly, stg_orders" }));
  const dialog = await screen.findByRole("dialog", {}, { timeout: 5_000 });
  expect(dialog.textContent).toContain("Rerun");
});

it("counts and reruns only the newest run of a chain of reruns, and says so", async () => {
  // 1 and 3 are reruns of 4, 2 is the rerun of a run that was not read, 6 is the rerun of 5.
  const failed = [
    run(1, { rerunOf: 4 }),
    run(2, { rerunOf: 9 }),
    run(3, { rerunOf: 4 }),
    run(4, { stepId: "stg_payments" }),
    run(5),
    run(6, { minutesAgo: 2, rerunOf: 5 }),
  ];
  const { user, sent } = await show(<Lately />, { ...MAY, answers: answers(failed) });
  expect(await screen.findByText("3 failed in 24 h, 3 more rerun since")).toBeTruthy();
  const [row, more] = screen.getAllByRole("row").slice(1);
  expect(more, "the first try with another cause has no row").toBeUndefined();
  expect(row?.textContent).toContain("3 runs, 3 left out: rerun since");
  await user.click(screen.getByRole("button", { name: "Rerun 3… nightly, stg_orders" }));
  await vi.waitFor(() => expect(JSON.stringify(sent)).toContain('["f1000000","f2000000","f6000000"]'));
});

it("does not offer to rerun a run whose rerun runs or has succeeded", async () => {
  const green = run(7, { minutesAgo: 0, rerunOf: 1 });
  const running = run(8, { minutesAgo: 0, rerunOf: 2 });
  const failed = [run(1), run(2, { planId: "weekly" }), run(3, { planId: "monthly" })];
  await show(<Lately />, { ...MAY, answers: answers(failed, [green], false, [running]) });
  expect(await screen.findByText("1 failed in 24 h")).toBeTruthy();
  expect(screen.getAllByRole("button", { name: /^Rerun/ })).toHaveLength(1);
  expect(screen.getByRole("button", { name: "Rerun… monthly, stg_orders" })).toBeTruthy();
});

it("says which failures a newer run has repaired, and puts them last", async () => {
  const green = { ...run(9, { minutesAgo: 0 }), planId: "nightly" };
  const failed = [run(1), run(2, { planId: "weekly" })];
  await show(<Lately />, { ...MAY, answers: answers(failed, [green]) });
  await screen.findByText("2 failed in 24 h");
  const [weekly, nightly] = screen.getAllByRole("row").slice(1);
  expect(weekly?.textContent).toContain("weekly");
  expect(weekly?.textContent).not.toContain("a newer run succeeded");
  expect(nightly?.textContent).toContain("a newer run succeeded");
});

it("leaves out what failed more than a day ago, though it began within two", async () => {
  await show(<Lately />, { ...MAY, answers: answers([run(1), run(2, { minutesAgo: 25 * 60 })]) });
  expect(await screen.findByText("1 failed in 24 h")).toBeTruthy();
});

it("says that more runs failed than it counted", async () => {
  await show(<Lately />, { ...MAY, answers: answers([run(1)], [], true) });
  expect(await screen.findByText("1+ failed in 24 h")).toBeTruthy();
  expect(screen.getByText(/More runs failed/)).toBeTruthy();
});

it("takes no room when nothing failed", async () => {
  const { container, sent } = await show(<Lately />, { answers: answers([]) });
  await vi.waitFor(() => expect(sent).toHaveLength(1));
  await vi.waitFor(() => expect(container.querySelector("section")).toBeNull());
});
