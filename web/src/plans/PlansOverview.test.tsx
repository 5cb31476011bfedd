import { expect, it } from "vitest";
import { m } from "../messages";
import { of, screen, show, vi } from "../testing/render";
import { PlansOverview, PlansTable, usePlans } from "./PlansOverview";

const run = (runId: string, status: string, durationMs: number | null) => ({
  runId,
  planVersion: "1.0",
  status,
  statusRaw: status,
  substatus: status === "RUNNING" ? "AWAITING_OPERATOR" : null,
  triggeredBy: "ana",
  createdAt: "2026-11-21T03:12:07.123Z",
  durationMs,
  workMs: durationMs,
});
const NIGHTLY = {
  projectId: "shop",
  environmentId: "prod",
  planId: "nightly",
  lastRunAt: "2026-11-21T03:12:07.123Z",
  open: 3,
  waiting: 1,
  ended: 4,
  succeeded: 3,
  successRate: 0.75,
  medianMs: 660_000,
  medianWorkMs: 60_000,
  p90WorkMs: 90_000,
  recentMedianWorkMs: 80_000,
  next: "RETRY",
  nextRunId: "r-new",
  runs: [run("r-new", "RUNNING", null), run("r-old", "FAILED", 61_000)],
};
const STARTER = { viewer: { actions: new Set(["START"] as const) } };
const answer = (nodes: unknown[], hasNextPage = false) => ({
  plans: { edges: nodes.map((node) => ({ node })), pageInfo: { endCursor: hasNextPage ? "c1" : null, hasNextPage } },
});

it("shows each plan with its last runs, the newest on the right", async () => {
  await show(<PlansOverview />, { answers: { Plans: answer([NIGHTLY]) } });
  const plan = await screen.findByRole("link", { name: "nightly" });
  expect(plan.getAttribute("href")).toBe("/plans/nightly?project=shop&env=prod");
  const cells = screen.getAllByRole("link").filter((link) => /, run /.test(link.getAttribute("aria-label") ?? ""));
  expect(cells.map((cell) => [cell.textContent, cell.getAttribute("aria-label")])).toEqual([
    ["✕", "Failed, 1 m 1 s, run r-old"],
    ["◆", `${m.status.awaitingOperator}, run r-new`],
  ]);
  expect(screen.getByText("75 %").getAttribute("title")).toBe("3 of 4 runs that succeeded or failed");
  expect(document.body.textContent).toContain("1 m 0 s · 11 m 0 s with waits · slower lately");
  expect(screen.getByRole("columnheader", { name: "Typical work" })).toBeTruthy();
  expect(document.body.textContent).toContain("2 active, 1 waiting");
  expect(screen.getByRole("link", { name: "Retry a failed step" }).getAttribute("href")).toBe("/runs/r-new");
});

it("shows a run that waits for approval as waiting for people, and one in the queue as pending", async () => {
  const runs = [{ ...run("r-queue", "PENDING", null), substatus: "QUEUED" }, run("r-asks", "PENDING", null)];
  await show(<PlansOverview />, { answers: { Plans: answer([{ ...NIGHTLY, runs }]) } });
  expect((await screen.findByRole("link", { name: "Waiting for approval, run r-asks" })).textContent).toBe("◆");
  expect(screen.getByRole("link", { name: `${m.status.queued}, run r-queue` }).textContent).toBe("○");
});

it("starts a plan that needs nothing else from its newest run", async () => {
  const calm = { ...NIGHTLY, next: "START", nextRunId: null };
  await show(<PlansOverview />, { ...STARTER, answers: { Plans: answer([calm]) } });
  const start = await screen.findByRole("link", { name: "Start a run" });
  expect(start.getAttribute("href")).toBe("/start?from=r-new&project=shop&env=prod");
});

it("leads who may start nothing to the last run", async () => {
  const calm = { ...NIGHTLY, next: "START", nextRunId: null };
  await show(<PlansOverview />, { answers: { Plans: answer([calm]) } });
  const last = await screen.findByRole("link", { name: "Open the last run" });
  expect(last.getAttribute("href")).toBe("/runs/r-new");
  expect(screen.queryByRole("link", { name: "Start a run" })).toBeNull();
});

it("reads further pages, and filters on the server", async () => {
  const { sent, user } = await show(<PlansOverview filter={{ text: "night" }} />, {
    answers: {
      Plans: ({ after }: { after: string | null }) => answer([{ ...NIGHTLY, planId: after ?? "first" }], !after),
    },
  });
  await user.click(await screen.findByRole("button", { name: "Show more" }));
  await vi.waitFor(() => expect(screen.getByRole("link", { name: "c1" })).toBeDefined());
  expect(of(sent, "Plans").at(-1)).toMatchObject({ text: "night", first: 20, after: "c1" });
});

it("says why it is empty", async () => {
  await show(<PlansOverview />, { answers: { Plans: answer([]) } });
  expect(await screen.findByText("No plan has run here yet.")).toBeDefined();
});

it("shows what a first visitor needs where no plan has run", async () => {
  await show(<PlansOverview none={<p>first steps</p>} />, { answers: { Plans: answer([]) } });
  expect(await screen.findByText("first steps")).toBeDefined();
});

it("shows only the plans that need somebody, on demand", async () => {
  const { user } = await show(<Narrowed />, {
    answers: { Plans: answer([NIGHTLY, { ...NIGHTLY, planId: "hourly", next: "WATCH" }]) },
  });
  await user.click(await screen.findByRole("button", { name: "1 plan needs somebody" }));
  expect(screen.getByRole("link", { name: "nightly" })).toBeTruthy();
  expect(screen.queryByRole("link", { name: "hourly" })).toBeNull();
});

it("names a paused run without a count of steps that a cell does not know", async () => {
  const runs = [{ ...run("r-paused", "PAUSED", null), substatus: "DRAINING" }];
  await show(<PlansOverview />, { answers: { Plans: answer([{ ...NIGHTLY, runs }]) } });
  expect(await screen.findByRole("link", { name: "Paused, run r-paused" })).toBeTruthy();
});

function Narrowed() {
  return <PlansTable pages={usePlans({})} searched={false} narrowed />;
}

const planOf = (planId: string, next: string, statuses: string[]) => ({
  ...NIGHTLY,
  planId,
  next,
  waiting: 0,
  open: next === "WATCH" ? 1 : 0,
  runs: statuses.map((status, i) => ({ ...run(`${planId}-${i}`, status, 1_000), substatus: null })),
});

it("marks a plan that is ill beside its name, and one whose new run follows a failed one", async () => {
  const plans = [
    planOf("broken", "RERUN", ["FAILED", "COMPLETED"]),
    planOf("again", "WATCH", ["RUNNING", "FAILED"]),
    planOf("well", "WATCH", ["RUNNING", "COMPLETED"]),
  ];
  await show(<PlansOverview />, { answers: { Plans: answer(plans) } });
  await screen.findByRole("link", { name: "broken" });
  const next = screen
    .getAllByRole("row")
    .slice(1)
    .map((row) => row.querySelectorAll("td")[2]?.textContent);
  expect(next).toEqual([
    "✕ Open the failed run",
    "◆ Watch the run · 1 active, the run before failed",
    "Watch the run · 1 active",
  ]);
});
