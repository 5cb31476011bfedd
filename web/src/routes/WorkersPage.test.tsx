import { screen, within } from "@testing-library/react";
import { expect, test } from "vitest";
import { of, show } from "../testing/render";
import { WorkersPage } from "./WorkersPage";

const AT = "2026-11-21T03:11:57Z";
const WORKER = {
  account: "data-1",
  worker: "host/7",
  queue: "tq-data-prod",
  runtime: "process",
  missing: [{ part: "pids", reason: "no delegated cgroup" }],
  ok: true,
  problem: null,
  reportedAt: AT,
  live: true,
  overdue: false,
  version: "v1.2.0",
  slots: 24,
  inUse: 2,
  steps: [
    { tenantId: "acme", runId: "0123456789abcdef", stepId: "load", since: AT },
    { tenantId: "globex", runId: "fedcba9876543210", stepId: "secret-step", since: AT },
  ],
  drained: false,
  drain: null,
  last: true,
};

async function page(workers: unknown, actions: readonly string[] = ["DEBUG", "SET_ENGINE_MODE"]) {
  return await show(<WorkersPage />, {
    viewer: { tenantId: "acme", actions: new Set(actions) as never },
    answers: {
      Workers: { workers },
      RightHolders: {
        rightHolders: [{ needs: "Needs the role SRE to change the mode.", names: ["sam"], more: false }],
      },
      DrainWorker: { drainWorker: { workers: [], change: null } },
    },
  });
}

test("a worker says what it runs, and names no step of another tenant", async () => {
  await page([WORKER]);
  const table = await screen.findByRole("table");
  for (const text of ["data-1/host/7", "tq-data-prod", "Takes steps", "The only one of its queue", "2 of 24 slots"])
    expect(table.textContent).toContain(text);
  expect(within(table).getByRole("link", { name: /load/, hidden: true }).getAttribute("href")).toContain("step=load");
  expect(table.textContent).toContain("a step of globex");
  expect(table.textContent).not.toContain("secret-step");
});

test.each([
  ["silent", { live: false }, "Silent"],
  ["without its last two reports", { overdue: true }, "May be gone: two reports are missing."],
  ["with a broken sandbox", { ok: false, problem: "the probe could connect" }, "the probe could connect"],
  ["draining", { drain: { actor: "sam", reason: "a new kernel", at: AT } }, "Draining by sam: a new kernel"],
  [
    "silent since its drain",
    { live: false, drain: { actor: "sam", reason: "a new kernel", at: AT } },
    "Silent (drained by sam: a new kernel)",
  ],
  [
    "drained",
    { drain: { actor: "sam", reason: "a new kernel", at: AT }, drained: true, inUse: 0, steps: [] },
    "Drained by sam: a new kernel",
  ],
])("a worker that is %s says so", async (_, change, says) => {
  await page([{ ...WORKER, ...change }]);
  expect((await screen.findByRole("table")).textContent).toContain(says);
});

test("the drain of the last worker of a queue says that steps would wait, and sends the reason", async () => {
  const { sent, user } = await page([WORKER]);
  await user.click(await screen.findByRole("button", { name: "Drain data-1/host/7" }));
  const dialog = screen.getByRole("alertdialog");
  expect(dialog.textContent).toContain("The 2 steps that it runs will go on.");
  expect(dialog.textContent).toContain("No other worker serves tq-data-prod: new steps wait there until one does.");
  await user.type(within(dialog).getByRole("textbox"), "a new kernel");
  await user.click(within(dialog).getByRole("button", { name: "Drain" }));
  const [{ input } = {}] = of(sent, "DrainWorker");
  expect(input).toMatchObject({ account: "data-1", worker: "host/7", drain: true, reason: "a new kernel" });
});

test("who may not drain is told who may", async () => {
  await page([WORKER], ["DEBUG"]);
  const button = await screen.findByRole("button", { name: "Drain data-1/host/7" });
  expect(button.getAttribute("aria-disabled")).toBe("true");
  expect(document.body.textContent).toContain("You need the SRE role to drain a worker. Who can do this: sam.");
});

test("who may not see the workers is told who may, and the server is not asked for them", async () => {
  const { sent } = await page([WORKER], []);
  await screen.findByText(/Who can do this: sam\./);
  expect(of(sent, "Workers")).toEqual([]);
});

test.each([
  [[WORKER], "1 worker takes steps of 1 queue; 22 slots are free."],
  [
    [WORKER, { ...WORKER, worker: "host/8", queue: "tq-data-dev", live: false }],
    "1 worker takes steps of 1 queue; 22 slots are free. Nobody serves tq-data-dev: its steps wait.",
  ],
  [[WORKER, { ...WORKER, worker: "host/8", overdue: true }], "1 worker takes steps of 1 queue; 22 slots are free."],
  [[{ ...WORKER, live: false }], "No worker takes steps now. Nobody serves tq-data-prod: its steps wait."],
])("the page says whether steps can start", async (workers, says) => {
  await page(workers);
  expect((await screen.findByText(/takes? steps/, { selector: "p" })).textContent).toContain(says);
});

test("a process that is gone stands last, and has no button", async () => {
  await page([
    { ...WORKER, live: false, overdue: true },
    { ...WORKER, worker: "host/8" },
  ]);
  const rows = within(await screen.findByRole("table"))
    .getAllByRole("row")
    .slice(1);
  expect(rows.map((row) => /host\/\d/.exec(row.textContent)?.[0])).toEqual(["host/8", "host/7"]);
  expect(screen.getAllByRole("button", { name: /^Drain / })).toHaveLength(1);
});
